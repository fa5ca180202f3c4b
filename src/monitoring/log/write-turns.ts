/**
 * Turns to write traces: of several runs over the same lines, one writes at a time. MLflow has no way to write a trace only if
 * it is absent, and a second post overwrites what a person has changed since the first.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CaptureRange, ChunkRequest } from '../../contract/payloads.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { asNumber, BudgetTable, tableClient } from '../../gate/table.ts';
import type { WriteTracesResult } from '../../mlflow/types.ts';
import { forEachConcurrently } from '../../shared/concurrency.ts';
import { partOf } from '../chunk/parts.ts';

/** The turn of a function that was killed ends after this time. */
const TURN_MS = 60_000;
const POLL_MS = 500;
/** After this time the look right before each post must do: at most a change of a person in these 5 s is overwritten. */
const LONGEST_WAIT_MS = 120_000;
const WRITES_AT_ONCE = 16;
/** For so long, at least, earlier attempts at the chunk may have been under way. */
const ATTEMPTS_MS = 3_600_000;
/** DynamoDB deletes the item this long after the turn. */
const KEPT_SECONDS = 14 * 86_400;

type Place = Pick<CaptureRange, 'bucket' | 'key' | 'versionId' | 'etag' | 'start'>;

/** What is known of the traces that were written before. */
export interface WrittenTraces {
  isWritten(traceId: string): boolean;
  /** Learns which traces a chunk of another run has written. */
  learnWritten(chunkOfRun: string): Promise<void>;
  saveWritten(result: Pick<WriteTracesResult, 'written' | 'bare'>): Promise<void>;
}

export class WriteTurns {
  readonly #table: BudgetTable;
  readonly #mine: string;
  readonly #sinceMs: number;
  /** How many batches are being written, by range. */
  readonly #held = new Map<string, number>();
  /** Other chunks that had the turn, ever. */
  readonly #writers = new Set<string>();

  /**
   * @param mine the chunk of the run; see `workKeys.chunkOfRun`
   * @param sinceMs when the chunk was begun, epoch milliseconds
   */
  constructor(table: BudgetTable, mine: string, sinceMs = Date.now()) {
    this.#sinceMs = sinceMs;
    this.#table = table;
    this.#mine = mine;
  }

  /**
   * Does the work when no other run writes lines of these ranges.
   *
   * @param written learns what other runs have written of them since this chunk was begun
   */
  async during<T>(ranges: readonly Place[], written: WrittenTraces | undefined, work: () => Promise<T>): Promise<T> {
    const scopes = [...new Set(ranges.map(scopeOf))].sort();
    const others = new Set<string>();
    const latestMs = Date.now() + LONGEST_WAIT_MS;
    for (const scope of scopes) this.#held.set(scope, (this.#held.get(scope) ?? 0) + 1);
    const each = (write: (scope: string) => Promise<void>) => forEachConcurrently(WRITES_AT_ONCE, scopes, write);
    const renewal = setInterval(() => {
      void each(async (scope) => void (await this.#take(scope))).catch(() => undefined);
    }, TURN_MS / 2).unref();
    try {
      await each(async (scope) => {
        for (;;) {
          const other = await this.#take(scope);
          if (other.by !== undefined) others.add(other.by);
          if (!other.isWriting || Date.now() > latestMs) return;
          await sleep(POLL_MS);
        }
      });
      for (const other of others) await written?.learnWritten(other);
      return await work();
    } finally {
      clearInterval(renewal);
      // A turn that is not given back ends by itself.
      await each((scope) => this.#release(scope)).catch(() => undefined);
    }
  }

  /** @returns the last chunks of other runs that wrote lines of these ranges, also if that was days ago */
  async lastWriters(ranges: readonly Place[]): Promise<ReadonlySet<string>> {
    await forEachConcurrently(WRITES_AT_ONCE, [...new Set(ranges.map(scopeOf))], async (scope) => {
      this.#saw((await this.#table.get(scope)).by?.S);
    });
    return this.#writers;
  }

  /** @returns whether it is another chunk */
  #saw(by: string | undefined): by is string {
    const isOther = by !== undefined && by !== this.#mine;
    if (isOther) this.#writers.add(by);
    return isOther;
  }

  /** Takes or renews the turn. @returns the other chunk that has it, or that had it since this chunk was begun */
  async #take(scope: string): Promise<{ by?: string | undefined; isWriting: boolean }> {
    const now = Date.now();
    const before = await this.#table.update({
      scope,
      expression: 'SET #by = :by, #until = :until, #ttl = :ttl',
      condition: '(attribute_not_exists(#by) OR #by = :by OR #until <= :now)',
      values: { by: this.#mine, now, until: now + TURN_MS, ttl: Math.ceil(now / 1000) + KEPT_SECONDS },
      returns: 'ALL_OLD',
    });
    const { by, until } = before ?? (await this.#table.get(scope));
    const isNews = this.#saw(by?.S) && asNumber(until) >= this.#sinceMs;
    return { by: isNews ? by?.S : undefined, isWriting: before === undefined };
  }

  async #release(scope: string): Promise<void> {
    const left = (this.#held.get(scope) ?? 1) - 1;
    this.#held.set(scope, left);
    if (left > 0) return;
    const values = { by: this.#mine, ended: Date.now() };
    await this.#table.update({ scope, expression: 'SET #until = :ended', condition: '#by = :by', values });
  }
}

const scopeOf = ({ bucket, key, versionId, etag, start }: Place): string =>
  `write#${createHash('sha256')
    .update([bucket, key, versionId ?? etag, start].join('\n'))
    .digest('hex')}`;

/** @returns a function that gives the turns of a chunk; `undefined` without a table */
export function connectTurns(table: string | undefined): (request: ChunkRequest) => WriteTurns | undefined {
  if (table === undefined) return () => undefined;
  const turns = new BudgetTable(tableClient(), table);
  return (request) => {
    const sinceMs = Date.now() - (partOf(request).isRepeated ? ATTEMPTS_MS : 0);
    return new WriteTurns(turns, workKeys.chunkOfRun(request.run, request.chunk.chunk), sinceMs);
  };
}
