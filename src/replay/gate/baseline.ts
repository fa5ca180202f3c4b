/** The earlier replay that a running one is compared with, and how much of the captures it has. */
import { PermanentError } from '../../shared/errors.ts';
import { RequestTable, requestName } from '../compare/request-table.ts';
import { differingOptions, type RunData } from '../compare/run-data.ts';
import type { ReplayOptions } from '../options.ts';
import type { SortedIndex } from '../source/sorted-index.ts';
import type { IndexEntry, SourceFile } from '../source/types.ts';
import { needsReplies, type Threshold } from './thresholds.ts';

/** Requests of the captures that the baseline has, and the requests of the schedule up to the last of them. */
export interface CommonRequests {
  pairs: number;
  requests: number;
}

const FILE_PLACES = 2 ** 32;

export class Baseline {
  readonly run: RunData;
  readonly #passes: number;
  /** Number of passes in which the baseline has the captured line. */
  readonly #found = new Map<number, number>();

  /**
   * @param passes over the captures
   * @throws PermanentError `BaselineWithoutReplies`
   */
  constructor(run: RunData, passes: number, thresholds: readonly Threshold[]) {
    this.run = run;
    this.#passes = passes;
    const asked = thresholds.find(needsReplies);
    if (asked && !run.hasReplies) {
      const facts = { got: `${asked.text}, and ${run.location} without replies`, expected: 'a replay with --compare' };
      throw new PermanentError('BaselineWithoutReplies', 'The baseline kept no replies to compare with', facts);
    }
    RequestTable.seal(run.requests);
  }

  /** Looks a captured record up while the captures are indexed. */
  onRecord({ name }: SourceFile, { file, line }: IndexEntry, eventId: string | undefined): void {
    const has = (pass: number): boolean => {
      const key = requestName(eventId, name, line, pass === 0 ? '' : `#${pass}`);
      return this.run.requests.row(key) !== undefined || this.run.requests.row(`${key}:${line}`) !== undefined;
    };
    let passes = 0;
    while (passes < this.#passes && has(passes)) passes++;
    if (passes > 0) this.#found.set(file * FILE_PLACES + line, passes);
  }

  /**
   * Counts the requests of the schedule that the baseline has.
   *
   * @throws PermanentError `OtherCaptures` if it has less than half of them, so that no threshold could be decided
   */
  common(index: SortedIndex, options: ReplayOptions): CommonRequests {
    const {
      startOffsetMs = 0,
      endOffsetMs = Number.POSITIVE_INFINITY,
      requestCount = Number.POSITIVE_INFINITY,
    } = options;
    const found = { pairs: 0, requests: 0 };
    let requests = 0;
    for (let pass = 0; pass < this.#passes; pass++) {
      for (const batch of index.batches()) {
        for (const { file, line, timeMs } of batch) {
          const offset = timeMs - index.firstMs;
          if (offset < startOffsetMs || offset > endOffsetMs || requests >= requestCount) continue;
          requests++;
          if ((this.#found.get(file * FILE_PLACES + line) ?? 0) <= pass) continue;
          found.pairs++;
          found.requests = requests;
        }
      }
    }
    if (found.pairs * 2 < Math.max(1, found.requests)) {
      throw new PermanentError('OtherCaptures', 'The baseline is a replay of other captures', {
        got: `${found.pairs} of ${requests} requests of this replay are in ${this.run.location}`,
        expected: 'at least half of those up to the last common one',
      });
    }
    return found;
  }

  /** Options that differ from the baseline's, which may be why replies or times do. */
  otherOptions(options: ReplayOptions): string[] {
    return differingOptions(this.run.options, { ...options });
  }
}
