/** Tells of unstreamed calls that are captured twice: by SageMaker's Data Capture, and by the capture client. */
import { time } from '../core/text/figure-text.ts';
import { type CountedCell, hourMs, sumOfCells } from './counts-store.ts';

/**
 * Returns a message if an hour has captures of both; else nothing. Streams of the client beside unstreamed calls of Data Capture are
 * as they should be.
 */
export function twoSources(cells: readonly CountedCell[]): string[] {
  const hours = Map.groupBy(cells, ({ hour }) => hour);
  const last = [...hours.keys()].toSorted().findLast((hour) => {
    const { captures = 0, byClient: { calls = 0, streams = 0 } = {} } = sumOfCells(hours.get(hour) ?? []);
    return calls > 0 && captures > calls + streams;
  });
  if (last === undefined) return [];
  const when = time(hourMs(last));
  return [
    `the endpoint has two sources, Data Capture and the client with calls: 'all': calls count twice, last in the hour of ${when}`,
  ];
}
