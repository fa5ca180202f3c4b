/** Reads the captures of a chunk that may be judged, for EvaluateTraces and for the requests of a batch job. */

import type { Capture, LinePlace } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { NamedError } from '../../core/contract/receipts.ts';
import { toNamedError } from '../../core/errors/errors.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { type CaptureFacts, lineFacts } from '../../quality/tally.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import type { CaptureLine, LightLine } from '../chunk/decode-lines.ts';
import type { HeavyCaptures } from '../chunk/heavy-captures.ts';
import { KILLED, type LineAtWork } from '../chunk/line-at-work.ts';
import type { LineOutcomes } from '../outcomes/line-outcome.ts';
import { HeldCaptures } from './held-captures.ts';

interface Line extends Pick<CaptureLine, 'raw' | 'notTraffic' | 'traceId'> {
  /** The ordinal of its range in the chunk. */
  range: number;
}

/** A distinct capture of the chunk. */
export interface ReadCapture extends Line {
  weight: number;
  /** Returns the capture; decodes it again if there was no room to keep it. */
  read(): Capture;
  /** The reason why the capture can be traced, but not judged. */
  onlyTraced?: NamedError | undefined;
}

/** A line that is worked on alone. */
export interface HeavyLine extends Line {
  /** Adds the decoded line. */
  read(): Promise<void>;
}

/** The captures of a chunk, and its lines that are not captures. */
export class ChunkCaptures {
  readonly captures: ReadCapture[] = [];
  /** Lines that are identical to one of the captures. */
  readonly duplicates: (Line & { facts: CaptureFacts })[] = [];
  /** Lines that must not be decoded, because they killed the function alone. */
  readonly faulty: Line[] = [];
  /** Lines that are processed one after the other, when no other line is in memory. */
  readonly heavy: HeavyLine[] = [];
  readonly #outcomes: LineOutcomes | undefined;
  readonly #held = new HeldCaptures();

  constructor(outcomes: LineOutcomes | undefined) {
    this.#outcomes = outcomes;
  }

  add(range: number, line: LightLine): void {
    if (line.kind === 'capture') {
      const { traceId, weight, duplicate, raw, onlyTraced, notTraffic } = line;
      if (duplicate) this.duplicates.push({ traceId, range, raw, facts: lineFacts(line.capture, notTraffic) });
      else this.captures.push({ traceId, range, raw, weight, read: this.#held.hold(line), onlyTraced, notTraffic });
    } else if (line.kind === 'outsideWindow') {
      const { raw, traceId, capture } = line;
      const facts = lineFacts(capture);
      this.#outcomes?.lines.push({ range, place: raw.place, traceId, facts, outcome: 'outsideWindow' });
    } else {
      const { traceId, place, bytes, reason } = line;
      if (reason === KILLED && traceId !== undefined && bytes !== undefined) {
        this.faulty.push({ traceId, range, raw: { place, bytes } });
      } else {
        this.#outcomes?.quarantine({ range, raw: { place, bytes } }, reason);
      }
    }
  }

  /**
   * Yields the captures, and then each heavy capture by itself.
   *
   * @param before is called before each heavy capture, when the caller has finished with the earlier captures
   */
  async *portions(before?: (line: HeavyLine) => Promise<void>): AsyncGenerator<ReadCapture[]> {
    yield this.captures.splice(0);
    for (const line of this.heavy) {
      await before?.(line);
      await line.read();
      yield this.captures.splice(0);
    }
  }
}

/**
 * Reads the chunk.
 *
 * @param heavy does the work on heavy lines
 * @param atWork knows the lines that must not be decoded
 * @param outcomes receives the outcomes of lines that are not captures, if the step also traces them
 */
export async function readCaptures(
  { chunk, options }: ChunkRequest,
  { storage, environment }: { storage: Storage; environment: LambdaEnvironment },
  { heavy, atWork, outcomes }: { heavy: HeavyCaptures; atWork: LineAtWork; outcomes?: LineOutcomes },
): Promise<ChunkCaptures> {
  const all = new ChunkCaptures(outcomes);
  const leaveOut = (place: LinePlace) => atWork.reading(place);
  for await (const line of readChunk(storage, chunk, environment, options, { leaveOut, heavy })) {
    const { range } = line;
    if (line.kind === 'unread') {
      outcomes?.unread.push({ range, lines: line.lines, error: toNamedError(line.fault) });
    } else if (line.kind === 'heavy') {
      const { traceId, raw } = line;
      all.heavy.push({ traceId, range, raw, read: async () => all.add(range, await line.read()) });
    } else {
      all.add(range, line);
    }
  }
  return all;
}
