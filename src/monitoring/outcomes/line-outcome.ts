/** The outcome of each line of a chunk. Every count of an attempt is a fold over this list. */

import type { LinePlace } from '../../captures/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { NamedError, QuarantineEntry, UnreadRange, VerdictCounts } from '../../core/contract/receipts.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { isRedacted } from '../../core/settings/redact-setting.ts';
import type { Row } from '../../ledger/tables.ts';
import type { Outcome } from '../../ledger/what-became.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';
import type { CaptureFacts, CountedCapture } from '../../quality/tally.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';

/** A line whose bytes are kept until it is known whether it is quarantined, unless it is long. */
interface KeptLine {
  /** The ordinal of its range in the chunk. */
  range: number;
  raw: { place: LinePlace; bytes?: Buffer | undefined };
}

/** A scorer's outcome for a line: a term of the second equation. */
export interface ScorerOutcome {
  scorer: string;
  term: keyof VerdictCounts;
  /** Reason for a missing verdict. Absent if the term explains it. */
  reason?: string | undefined;
  /** Value of a new verdict. */
  value?: AssessmentValue | undefined;
}

/** A scorer's verdict on a line, in the form of its row. */
export interface LineVerdict extends Row<'verdicts'> {
  state: 'given' | 'failed' | 'held';
}

/** A run's decisions about a line that it evaluated. */
export type Evaluation = Pick<
  Row<'captures'>,
  'evaluated' | 'sample' | 'rule' | 'judgeable' | 'strata' | 'unmeasured' | 'notJudged' | 'reasons'
>;

export interface LineOutcome {
  /** The ordinal of its range in the chunk. */
  range: number;
  outcome: Outcome;
  place: LinePlace;
  traceId?: string;
  /** Absent if the line was not decoded. */
  facts?: CaptureFacts | undefined;
  /** The ids of the caller, if the capture has one. */
  caller?: Pick<Row<'ids/people'>, 'userId' | 'sessionId' | 'inferenceId' | 'parentTraceId'> | undefined;
  /** Revision of the trace's item; see `SentTraces.revisionOf`. */
  revision?: number;
  /** Absent if the run has no scorers, or has not evaluated the line yet. */
  evaluation?: Evaluation;
  /** `isPast`: the verdict is no longer in force, or a person has edited it. */
  verdicts?: readonly (LineVerdict & { isPast?: boolean })[];
  /** The entry of a quarantined line. */
  entry?: QuarantineEntry;
  /** Absent if captures are not judged, or if the judge has failed. */
  scorers?: readonly ScorerOutcome[];
  /** Number of scorers of the line beyond those of every capture. */
  beyond?: number;
  /** The facts for the detectors. Absent if another chunk of the run reports them. */
  counted?: CountedCapture;
}

/** The outcomes in the order in which they became known. */
export class LineOutcomes {
  readonly lines: LineOutcome[] = [];
  /** Ranges whose file can no longer be read. Only their lines are lost. */
  readonly unread: UnreadRange[] = [];
  readonly #request: ChunkRequest;
  readonly #environment: LambdaEnvironment;

  constructor(request: ChunkRequest, environment: LambdaEnvironment) {
    this.#request = request;
    this.#environment = environment;
  }

  /**
   * Settles lines that are identical to lines with a known outcome. A reason for not tracing one of them applies to all.
   *
   * @param asked the scorers of every capture
   */
  duplicates(
    all: readonly (KeptLine & Required<Pick<LineOutcome, 'traceId' | 'facts'>>)[],
    asked: readonly { name: string }[],
  ): void {
    const known = new Map(this.lines.map(({ traceId, outcome, entry }) => [traceId, { outcome, entry }]));
    const scorers = asked.map(({ name: scorer }) => ({ scorer, term: 'duplicateLine' as const }));
    for (const line of all) {
      const { traceId, range, facts, raw } = line;
      const { outcome, entry } = known.get(traceId) ?? {};
      const { place } = raw;
      if (outcome === 'refused' && entry) this.quarantine(line, entry.reason, line);
      else if (outcome !== undefined) this.lines.push({ range, place, traceId, facts, outcome: 'duplicate', scorers });
    }
  }

  /** @param refused the trace that could not be built, or that MLflow refused */
  quarantine(
    { range, raw: { place, bytes } }: KeptLine,
    reason: NamedError,
    refused?: { traceId: string; facts?: CaptureFacts | undefined },
  ): void {
    const { objectTimeMs, ...where } = place;
    const isMasked = isRedacted(this.#environment);
    const entry = {
      ...where,
      // Its message may quote the line.
      reason: isMasked ? { name: reason.name, message: 'not kept, since captures are masked' } : reason,
      // A line that is longer than a chunk of several lines is stored by its place alone, because writing its bytes would need
      // them in memory three times.
      ...(bytes === undefined || bytes.length > CHUNK_BOUNDS.maxBytes || isMasked
        ? {}
        : { base64: bytes.toString('base64') }),
      quarantinedAt: new Date().toISOString(),
      experimentId: this.#request.chunk.experimentId,
      objectTimeMs,
      options: this.#request.options,
    };
    const { traceId, facts } = refused ?? {};
    this.lines.push({
      ...{ range, place, entry },
      ...(traceId === undefined ? { outcome: 'quarantined' } : { outcome: 'refused', traceId, facts }),
    });
  }
}
