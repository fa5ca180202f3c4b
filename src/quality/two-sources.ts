/** Tells of unstreamed calls that are captured twice: by SageMaker's Data Capture, and by the capture client. */
import { time } from '../core/text/figure-text.ts';
import { type CountedCell, hourMs, sumOfCells } from './counts-store.ts';

/**
 * Returns a message if an hour has captures of both; else nothing. Streams of the client beside unstreamed calls of Data Capture are
 * as they should be.
 */
export function twoSources(cells: readonly CountedCell[]): string[] {
  const hours = [...Map.groupBy(cells, ({ hour }) => hour)].filter(([, own]) => {
    const { captures = 0, byClient: { calls = 0, streams = 0 } = {} } = sumOfCells(own);
    return calls > 0 && captures > calls + streams;
  });
  const last = hours
    .map(([hour]) => hour)
    .toSorted()
    .at(-1);
  if (last === undefined) return [];
  return [
    `the endpoint has two sources, Data Capture and the client with calls: 'all': calls count twice, last in the hour of ${time(hourMs(last))}`,
  ];
}
