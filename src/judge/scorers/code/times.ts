/** Scorers of the times that the capture client measured. Captures without them are not asked. */

import { failureOf } from '../../../captures/failure.ts';
import type { ClientCall } from '../../../captures/record/client-call.ts';
import type { Capture } from '../../../captures/types.ts';
import type { CodeScorer } from '../../types.ts';

/** More was not measured, and would displace true values in the bins of the counts. */
const MAX_TOKENS_PER_SECOND = 1e6;

/** @param measure `undefined` if the call has no such time */
function timeScorer(
  name: string,
  description: string,
  measure: (call: ClientCall, capture: Capture) => number | undefined,
): CodeScorer {
  const timeOf = (capture: Capture) => capture.call && measure(capture.call, capture);
  return {
    ...{ kind: 'code', name, version: '1', description },
    isAsked: (capture) => timeOf(capture) !== undefined,
    score(capture) {
      const value = timeOf(capture);
      return value === undefined ? { notJudgeable: 'notMeasured' } : { value };
    },
  };
}

const isWhole = ({ ended }: ClientCall, capture: Capture): boolean =>
  ended === 'whole' && failureOf(capture) === undefined;

export const latency = timeScorer(
  'latency_ms',
  'Milliseconds from the start of the call to the end of the reply, as its caller measured them, retries included. Of ' +
    'replies that came whole and without an error, not of streams that broke or that their reader left.',
  (call, capture) => (isWhole(call, capture) ? call.endMs : undefined),
);

export const timeToFirstToken = timeScorer(
  'time_to_first_token_ms',
  'Milliseconds from the start of the call to the first piece with content of a stream, as its caller measured them. Of ' +
    'streams that came whole and without an error, and of those that broke, not of unstreamed replies.',
  (call, capture) =>
    call.streamed && (call.ended === 'broke' || isWhole(call, capture)) ? call.firstContentMs : undefined,
);

export const tokensPerSecond = timeScorer(
  'output_tokens_per_second',
  'The output tokens that the endpoint reported in `usage`, divided by the seconds from the first content to the end of a ' +
    'stream that came whole and without an error. It is not estimated: without usage it is not asked.',
  (call, capture) => {
    const { usage: { outputTokens } = {} } = capture;
    const { firstContentMs, endMs, streamed } = call;
    if (!streamed || !isWhole(call, capture) || outputTokens === undefined || firstContentMs === undefined)
      return undefined;
    const rate = (1000 * outputTokens) / (endMs - firstContentMs);
    return rate <= MAX_TOKENS_PER_SECOND ? rate : undefined;
  },
);
