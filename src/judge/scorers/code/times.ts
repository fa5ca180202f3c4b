/** Scorers of the times that the capture client measured. Captures without them are not asked. */
import { type CallTimes, callTimesOf } from '../../../captures/call-times.ts';
import type { CodeScorer } from '../../types.ts';

const timeScorer = (name: keyof CallTimes, description: string): CodeScorer => ({
  ...{ kind: 'code', name, version: '1', description },
  isAsked: (capture) => callTimesOf(capture)[name] !== undefined,
  score(capture) {
    const { [name]: value } = callTimesOf(capture);
    return value === undefined ? { notJudgeable: 'notMeasured' } : { value };
  },
});

const NOT = 'Not of replies with an error, and not of those that did not come whole';

export const timeScorers: readonly CodeScorer[] = [
  timeScorer('latency_ms', `Milliseconds from the start of the call to its end, by its caller's clock. ${NOT}.`),
  timeScorer(
    'time_to_first_token_ms',
    `Milliseconds from the start of the call to the first content of a stream. ${NOT}, except streams that broke.`,
  ),
  timeScorer(
    'output_tokens_per_second',
    `Output tokens of the usage that the endpoint reported by the seconds from the first content of a stream to its end. ${NOT}.`,
  ),
];
