/** Scorers of the times that the capture client measured. Captures without them are not asked. */
import { callTimesOf } from '../../../captures/call-times.ts';
import { codeScorer } from './code-scorer.ts';

export const timeScorers = (['latency_ms', 'time_to_first_token_ms', 'output_tokens_per_second'] as const).map((name) =>
  codeScorer(name, {
    isAsked: (capture) => callTimesOf(capture)[name] !== undefined,
    score(capture) {
      const { [name]: value } = callTimesOf(capture);
      return value === undefined ? { notJudgeable: 'notMeasured' } : { value };
    },
  }),
);
