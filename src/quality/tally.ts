/** The facts about a capture, and about a run's work on it, for the rows of the ledger and the detectors. */

import { hash } from 'node:crypto';
import { saidIn } from '../captures/blank.ts';
import { callDigests } from '../captures/call-digests.ts';
import { failureOf, kindBesideRates } from '../captures/failure.ts';
import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { NotTraffic } from '../captures/trace/ids.ts';
import type { TraceRecord } from '../captures/trace/types.ts';
import type { Capture } from '../captures/types.ts';
import type { QualityObservations } from '../core/contract/quality.ts';
import type { Chances } from '../judge/scorers/chances.ts';
import type { Row } from '../ledger/tables.ts';
import { type NewAssessment, RUN_METADATA, type StoredAssessment } from '../mlflow/types.ts';
import { nameOf } from './cell.ts';
import type { Measure } from './objectives.ts';

/** The columns about a decoded line. */
export type CaptureFacts = Row<'captures'>;

/** A verdict, before or after it is written. */
export type CountedVerdict = Pick<StoredAssessment, 'name' | 'value' | 'metadata' | 'sourceType' | 'sourceId'> &
  Pick<NewAssessment, 'rationale'>;

/** One capture, and the run's work on it so far, in all attempts. */
export interface CountedCapture {
  traceId: string;
  facts: { inferenceMs: number; variant: string; isError: boolean };
  /** Digest of request and reply, if the run has built the trace; see `exchangeDigest`. */
  exchange?: string | undefined;
  /** Its chances to be judged in this run. */
  chances: Chances;
  /** This run wrote its trace. */
  isWritten: boolean;
  /** Verdicts of this run that are in MLflow. */
  verdicts: readonly CountedVerdict[];
  /** The scorers whose older verdict the new verdicts replace. */
  replaced: readonly string[];
}

/** Returns the columns that identify a line, whatever its outcome. */
export const lineFacts = ({ inferenceTimeMs, format }: Capture, notTraffic?: NotTraffic): CaptureFacts => ({
  time: inferenceTimeMs,
  format,
  ...(notTraffic?.by === 'replay' ? { serving: false } : { serving: true, notTraffic: notTraffic?.name }),
});

/** @param rows of a table, how many of its predictions are counted */
export function captureFacts(capture: Capture, notTraffic?: NotTraffic, rows?: number): CaptureFacts {
  const { call, usage, masked, request, response } = capture;
  const error = failureOf(capture);
  const failedCall = kindBesideRates(capture);
  const said = failedCall === undefined ? saidIn(capture) : undefined;
  return {
    ...lineFacts(capture, notTraffic),
    ...(error && { errorKind: nameOf(String(call?.error?.kind ?? error.statusCode ?? error.type ?? 'unnamed')) }),
    failedCall,
    ...(call && { call: call.streamed ? 'stream' : 'call' }),
    ...{ latencyMs: call?.endMs, firstTokenMs: call?.firstTokenMs },
    ...{ requestBytes: request?.bytes, replyBytes: response?.bytes },
    ...{ requestChars: request?.text?.length, replyChars: response?.text?.length },
    inputTokens: usage?.inputTokens,
    outputTokens: usage?.outputTokens,
    rows,
    ...(said && { replyForm: said.form, isEmpty: said.isEmpty }),
    ...(failedCall === undefined && { digests: callDigests(capture) }),
    ...(masked && { masked: Object.keys(masked), maskedCounts: Object.values(masked) }),
  };
}

/** Returns a digest that is equal for traces whose list entries look the same. */
export const exchangeDigest = ({ requestPreview, responsePreview }: TraceRecord): string =>
  hash('sha256', JSON.stringify([requestPreview, responsePreview])).slice(0, 16);

/** Returns the hour of an instant, such as `2026-11-20T10`. @param ms epoch milliseconds */
export const hourOf = (ms: number): string => new Date(Math.floor(ms / HOUR_MS) * HOUR_MS).toISOString().slice(0, 13);

/**
 * Returns the observations of a capture for the measures of the objectives. Returns `undefined` if the capture is not
 * observed.
 */
export type Observe = ((capture: CountedCapture) => QualityObservations | undefined) & {
  measures: readonly Measure[];
};

/** Returns the verdicts that a run has written before. */
export const ownVerdicts = (run: string, stored: readonly StoredAssessment[]): StoredAssessment[] =>
  stored.filter(
    ({ metadata, sourceType, value }) =>
      metadata[RUN_METADATA] === run && sourceType !== 'HUMAN' && value !== undefined,
  );
