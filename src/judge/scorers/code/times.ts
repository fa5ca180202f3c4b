/** Scorers of the times that the capture client measured. Captures without them are not asked. */
import { type CallTimes, callTimesOf } from '../../../captures/call-times.ts';
import type { CodeScorer } from '../../types.ts';
import TEXTS from '../code-scorer-texts.json' with { type: 'json' };

const NAMES = [
  'latency_ms',
  'time_to_first_token_ms',
  'output_tokens_per_second',
] as const satisfies (keyof CallTimes)[];

export const timeScorers = NAMES.map(
  (name): CodeScorer => ({
    ...{ kind: 'code', name, version: '1', description: TEXTS[name] },
    isAsked: (capture) => callTimesOf(capture)[name] !== undefined,
    score(capture) {
      const { [name]: value } = callTimesOf(capture);
      return value === undefined ? { notJudgeable: 'notMeasured' } : { value };
    },
  }),
);
