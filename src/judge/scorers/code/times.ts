/** Scorers of the times that the capture client measured. Captures without them are not asked. */
import { type CallTimes, callTimesOf } from '../../../captures/call-times.ts';
import type { CodeScorer } from '../../types.ts';

const NOT = 'Not of replies with an error, and not of those that did not come whole';
const DESCRIPTIONS: Record<keyof CallTimes, string> = {
  latency_ms: `Milliseconds from the start of the call to its end, by its caller's clock. ${NOT}.`,
  time_to_first_token_ms: `Milliseconds from the start of the call to the first content of a stream. ${NOT}, except streams that broke.`,
  output_tokens_per_second: `Output tokens of the usage that the endpoint reported by the seconds from the first content of a stream to its end. ${NOT}.`,
};

export const timeScorers = (Object.keys(DESCRIPTIONS) as (keyof CallTimes)[]).map(
  (name): CodeScorer => ({
    ...{ kind: 'code', name, version: '1', description: DESCRIPTIONS[name] },
    isAsked: (capture) => callTimesOf(capture)[name] !== undefined,
    score(capture) {
      const { [name]: value } = callTimesOf(capture);
      return value === undefined ? { notJudgeable: 'notMeasured' } : { value };
    },
  }),
);
