/** Estimates the cost of the judge, without a call to the judge. */

import type { FunctionContext } from '../../core/aws/function-context.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { CaptureRange } from '../../core/contract/payloads.ts';
import type { CostEstimate, NamedError } from '../../core/contract/receipts.ts';
import { PermanentError, toNamedError } from '../../core/errors/errors.ts';
import { unlessFaulty } from '../../core/process/own-fault.ts';
import { timeOf } from '../../core/process/within-time.ts';
import { sum } from '../../core/values/sum.ts';
import { activeScorers } from '../../judge/active-scorers.ts';
import { createCostEstimator, estimateFromSizes } from '../../judge/pricing/estimate.ts';
import { createAlwaysRule } from '../../judge/scorers/always-rules.ts';
import { chancesOf } from '../../judge/scorers/chances.ts';
import { isCodeScorer } from '../../judge/scorers/scorer-set.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { heavyCapturesOf } from '../chunk/heavy-captures.ts';
import type { UnnumberedChunk } from '../chunk/ranges.ts';
import { addEstimates } from '../counts.ts';
import { FINISH_RESERVE_MS } from './part-bounds.ts';

/** Returns an estimator for a part of a run, which reads the captures of its chunks. */
export function dryRunOf({ storage, environment, remainingMs }: FunctionContext, options: RunOptions) {
  const scorers = activeScorers(environment, options.judge);
  const always = createAlwaysRule(environment.EVALUATION_ALWAYS, scorers.filter(isCodeScorer));
  const estimator = createCostEstimator(environment, scorers, options, always);
  // The chunks of a long file that there is no time to decode.
  const rest = { captures: 0, bytes: 0 };
  return {
    /**
     * Adds every capture of a chunk that would be traced. Identical lines count once.
     *
     * @returns the ranges whose file cannot be read, each with the reason
     */
    async add(chunk: UnnumberedChunk): Promise<{ range: CaptureRange; error: NamedError }[]> {
      const failed: { range: CaptureRange; error: NamedError }[] = [];
      if (remainingMs() < FINISH_RESERVE_MS) {
        rest.captures += chunk.lines;
        rest.bytes += bytesOf(chunk);
        return failed;
      }
      const heavy = heavyCapturesOf({ run: '', chunk }, { environment }, scorers);
      try {
        for await (const read of readChunk(storage, chunk, environment, options, { heavy })) {
          const range = chunk.ranges[read.range];
          const line = read.kind === 'heavy' ? await read.read() : read;
          if (line.kind === 'unread' && range !== undefined) failed.push({ range, error: toNamedError(line.fault) });
          if (line.kind !== 'capture' || line.duplicate || line.notTraffic !== undefined) continue;
          const { capture, traceId, raw } = line;
          const add = () => estimator.add(capture, traceId, raw.place.key, chancesOf(options, range));
          // If a capture provokes a fault, a run records an error and pays nothing.
          unlessFaulty(timeOf(capture), add, () => undefined);
        }
      } catch (error) {
        const [range] = chunk.ranges;
        if (range === undefined || !(error instanceof PermanentError)) throw error;
        failed.push({ range, error: toNamedError(error) });
      } finally {
        heavy.close();
      }
      return failed;
    },
    /** @param share of the captures that are judged */
    result(share = 1): CostEstimate {
      const decoded = estimator.result(share);
      if (rest.captures === 0) return decoded;
      const basis = `${decoded.basis}; for lack of time, ${rest.captures} lines by their size alone`;
      const sampleRate = (options.sampleRate ?? 1) * share;
      const ofRest = estimateFromSizes(environment, scorers, { ...options, sampleRate }, rest);
      return { ...addEstimates(ofRest, decoded), basis };
    },
  };
}

export const bytesOf = ({ ranges }: UnnumberedChunk): number => sum(ranges.map(({ start, end }) => end - start + 1));
