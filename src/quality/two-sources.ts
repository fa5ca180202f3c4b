/** Detects unstreamed calls that may be captured twice: by SageMaker's Data Capture, and by the capture client. */
import { time } from '../core/text/figure-text.ts';
import { type CountedCell, hourMs, sumOfCells } from './counts-store.ts';

/**
 * Returns a message if both sources have a call with the same inference id, or the same request and reply, in an hour.
 * Returns an empty list otherwise.
 */
export function twoSources(cells: readonly CountedCell[]): string[] {
  const hours = Map.groupBy(cells, ({ hour }) => hour);
  const last = [...hours.keys()].toSorted().findLast((hour) => {
    const { client = {}, dataCapture = {} } = sumOfCells(hours.get(hour) ?? []).digests ?? {};
    return Object.keys(client).some((digest) => Object.hasOwn(dataCapture, digest));
  });
  if (last === undefined) return [];
  const when = time(hourMs(last));
  return [
    `the endpoint has two sources, Data Capture and the client with calls: 'all': calls may count twice, last in the hour of ${when}`,
  ];
}
