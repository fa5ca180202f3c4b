/** What became of each line of a chunk. Every count of an attempt is a fold over this list. */

import type { LinePlace } from '../../captures/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type {
  LogCounts,
  NamedError,
  QuarantineEntry,
  UnreadRange,
  VerdictCounts,
} from '../../core/contract/receipts.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';
import type { CountedCapture } from '../../quality/tally.ts';
import { isRedacted } from '../../redact/redaction.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';

/** A chunk of more than one line has no more bytes than this. */
const MAX_KEPT_BYTES = CHUNK_BOUNDS.maxBytes;

/** A line whose bytes are kept until it is known whether it goes to quarantine, unless it is long. */
interface KeptLine {
  /** The ordinal of its range in the chunk. */
  range: number;
  raw: { place: LinePlace; bytes?: Buffer | undefined };
}

/** What a scorer did for a line: a term of the second equation. */
export interface ScorerOutcome {
  scorer: string;
  term: keyof VerdictCounts;
  /** Why it gave no verdict. Absent if the term says it. */
  reason?: string | undefined;
  /** That of a new verdict. */
  value?: AssessmentValue | undefined;
}

/** What may become of a line, with its terms of the first equation. */
export const OUTCOMES = {
  /** This run has written its trace. */
  written: ['lines', 'traced', 'written'],
  alreadyThere: ['lines', 'traced', 'alreadyThere'],
  /** A person has deleted its trace. */
  missing: ['lines', 'traced', 'alreadyThere'],
  duplicate: ['lines', 'traced', 'duplicateLine'],
  quarantined: ['lines', 'quarantined'],
  /** Its trace could not be built, or MLflow refused it. Identical lines share this outcome. */
  refused: ['lines', 'quarantined'],
  outsideWindow: ['lines', 'outsideWindow'],
} as const satisfies Record<string, readonly (keyof LogCounts)[]>;

export interface LineOutcome {
  /** The ordinal of its range in the chunk. */
  range: number;
  outcome: keyof typeof OUTCOMES;
  traceId?: string;
  /** Of a line in quarantine. */
  entry?: QuarantineEntry;
  /** None if nothing is judged, or if the judge has failed. */
  scorers?: readonly ScorerOutcome[];
  /** How many more scorers it is asked about than every capture is. */
  beyond?: number;
  /** What the counts of quality know of it. Absent if another chunk of the run counts it. */
  counted?: CountedCapture;
}

/** The outcomes in the order in which they became known. */
export class LineOutcomes {
  readonly lines: LineOutcome[] = [];
  /** Ranges whose file can no longer be read. Their lines are lost, those of the others are not. */
  readonly unread: UnreadRange[] = [];
  readonly #request: ChunkRequest;
  readonly #environment: LambdaEnvironment;

  constructor(request: ChunkRequest, environment: LambdaEnvironment) {
    this.#request = request;
    this.#environment = environment;
  }

  /** @param refused the trace that could not be built, or that MLflow refused */
  quarantine({ range, raw: { place, bytes } }: KeptLine, reason: NamedError, refused?: { traceId: string }): void {
    const { objectTimeMs, ...where } = place;
    const isMasked = isRedacted(this.#environment);
    const entry = {
      ...where,
      // Its message may quote the line.
      reason: isMasked ? { name: reason.name, message: 'not kept, since captures are masked' } : reason,
      // A long line is kept by its place alone: to write its bytes, they would be in memory three times.
      ...(bytes === undefined || bytes.length > MAX_KEPT_BYTES || isMasked ? {} : { base64: bytes.toString('base64') }),
      quarantinedAt: new Date().toISOString(),
      experimentId: this.#request.chunk.experimentId,
      objectTimeMs,
      options: this.#request.options,
    };
    this.lines.push({ range, entry, ...(refused ? { outcome: 'refused', ...refused } : { outcome: 'quarantined' }) });
  }
}
