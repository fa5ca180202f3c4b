/**
 * Turns to write traces: of several runs over the same lines, one writes at a time. MLflow has no way to write a trace only if
 * it is absent, and a second post overwrites what a person has changed since the first.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_RUN_PREFIX } from '../../core/contract/names.ts';
import type { CaptureRange, ChunkRequest } from '../../core/contract/payloads.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { RetryableError } from '../../core/errors/errors.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { asNumber, BudgetTable, type Item, tableClient } from '../../limits/table.ts';
import type { WriteTracesResult } from '../../mlflow/types.ts';
import { isRepeated, isRetry } from '../chunk/attempt.ts';

/** The turn of a function that was killed ends after this time. */
const TURN_MS = 60_000;
const POLL_MS = 500;
/** After this time the look right before each post must do: at most a change of a person in these 5 s is overwritten. */
const LONGEST_WAIT_MS = 120_000;
/** A function that has no more than this time does not wait, since it would be killed while it writes. */
const WRITE_RESERVE_MS = 30_000;
const WRITES_AT_ONCE = 16;
/** For so long, at least, earlier attempts at the chunk may have been under way. */
const ATTEMPTS_MS = 3_600_000;
/** DynamoDB deletes the item this long after the turn. */
const KEPT_SECONDS = 14 * 86_400;
/** What another run wrote up to here before it was read is known. Clocks of functions hardly differ. */
const CLOCKS_MS = 5_000;
/** Chunks of other runs that an item names. With the longest names of runs it stays below 1 KB, which is one write unit. */
const MOST_WRITERS = 6;

type Place = Pick<CaptureRange, 'bucket' | 'key' | 'versionId' | 'etag' | 'start'>;

/** What is known of the traces that were written before. */
export interface WrittenTraces {
  isWritten(traceId: string): boolean;
  /** Learns which traces chunks of other runs have written. */
  learnWritten(chunksOfRuns: readonly string[]): Promise<void>;
  saveWritten(result: Pick<WriteTracesResult, 'written' | 'bare'>): Promise<void>;
}

export class WriteTurns {
  readonly #table: BudgetTable;
  readonly #mine: string;
  readonly #sinceMs: number;
  readonly #endsAtMs: number;
  /** How many batches are being written, by range. */
  readonly #held = new Map<string, number>();
  /** When the journal of another run was last read, by its chunk. */
  readonly #learnedMs = new Map<string, number>();

  /**
   * @param mine the chunk of the run; see `workKeys.chunkOfRun`
   * @param sinceMs what other runs have written since then was not there when this chunk was begun; epoch milliseconds
   * @param endsAtMs when the function has ended
   */
  constructor(table: BudgetTable, mine: string, sinceMs = Date.now(), endsAtMs = Number.POSITIVE_INFINITY) {
    this.#sinceMs = sinceMs;
    this.#endsAtMs = endsAtMs;
    this.#table = table;
    this.#mine = mine;
  }

  /**
   * Does the work when no other run writes lines of these ranges.
   *
   * @param written learns what other runs have written of them since `sinceMs`
   * @throws RetryableError `ChunkOutOfTime` if the function ends too soon to wait for another run
   */
  async during<T>(ranges: readonly Place[], written: WrittenTraces | undefined, work: () => Promise<T>): Promise<T> {
    const scopes = [...new Set(ranges.map(scopeOf))].sort();
    const others = new Map<string, number>();
    const latestMs = Date.now() + LONGEST_WAIT_MS;
    for (const scope of scopes) this.#held.set(scope, (this.#held.get(scope) ?? 0) + 1);
    const each = (write: (scope: string) => Promise<void>) => forEachConcurrently(WRITES_AT_ONCE, scopes, write);
    const renewal = setInterval(() => {
      void each(async (scope) => void (await this.#take(scope))).catch(() => undefined);
    }, TURN_MS / 2).unref();
    try {
      await each(async (scope) => {
        for (;;) {
          const { writers, isWriting } = await this.#take(scope);
          for (const [by, untilMs] of writers) others.set(by, Math.max(untilMs, others.get(by) ?? 0));
          if (!isWriting || Date.now() > latestMs) return;
          if (Date.now() > this.#endsAtMs - WRITE_RESERVE_MS) throw outOfTime(this.#mine);
          await sleep(POLL_MS);
        }
      });
      if (written !== undefined) await this.#learn(others, written);
      return await work();
    } finally {
      clearInterval(renewal);
      // A turn that is not given back ends by itself.
      await each((scope) => this.#release(scope)).catch(() => undefined);
    }
  }

  /** @param others when each had its last turn */
  async #learn(others: ReadonlyMap<string, number>, written: WrittenTraces): Promise<void> {
    const since = (by: string): number => Math.max(this.#sinceMs, (this.#learnedMs.get(by) ?? 0) - CLOCKS_MS);
    const news = [...others].filter(([by, untilMs]) => untilMs >= since(by)).map(([by]) => by);
    const now = Date.now();
    await written.learnWritten(news);
    for (const by of news) this.#learnedMs.set(by, now);
  }

  /** @returns the last chunks of other runs that wrote lines of these ranges, also if that was days ago */
  async lastWriters(ranges: readonly Place[]): Promise<ReadonlySet<string>> {
    const all = new Set<string>();
    await forEachConcurrently(WRITES_AT_ONCE, [...new Set(ranges.map(scopeOf))], async (scope) => {
      for (const by of this.#othersOf(await this.#table.get(scope)).keys()) all.add(by);
    });
    return all;
  }

  /** Returns the chunks of other runs that had the turn, with its end in epoch milliseconds. */
  #othersOf({ by, until, writers }: Item): Map<string, number> {
    const all = new Map(Object.entries(writers?.M ?? {}).map(([name, end]) => [name, asNumber(end)]));
    if (by?.S !== undefined) all.set(by.S, asNumber(until));
    all.delete(this.#mine);
    return all;
  }

  /**
   * Takes or renews the turn. Taking it over, it adds the chunk that had it to those that the item names: an attempt at this chunk
   * that follows a kill learns of them too.
   *
   * @returns the other chunks that had the turn, and whether one of them still has it
   */
  async #take(scope: string): Promise<{ writers: Map<string, number>; isWriting: boolean }> {
    const now = Date.now();
    const turn = { by: this.#mine, until: now + TURN_MS, ttl: Math.ceil(now / 1000) + KEPT_SECONDS };
    const expression = 'SET #by = :by, #until = :until, #ttl = :ttl';
    const condition = '(attribute_not_exists(#by) OR #by = :by)';
    const own = await this.#table.update({ scope, expression, condition, values: turn, returns: 'ALL_OLD' });
    if (own !== undefined) return { writers: this.#othersOf(own), isWriting: false };
    const item = await this.#table.get(scope);
    const writers = this.#othersOf(item);
    const before = { oldBy: item.by?.S ?? '', oldUntil: asNumber(item.until) };
    if (before.oldUntil > now) return { writers, isWriting: true };
    const last = [...writers].sort(([, a], [, b]) => b - a).slice(0, MOST_WRITERS);
    const taken = await this.#table.update({
      scope,
      expression: `${expression}, #writers = :writers`,
      condition: '#by = :oldBy AND #until = :oldUntil',
      values: { ...turn, ...before, writers: Object.fromEntries(last) },
    });
    return { writers, isWriting: taken === undefined };
  }

  async #release(scope: string): Promise<void> {
    const left = (this.#held.get(scope) ?? 1) - 1;
    this.#held.set(scope, left);
    if (left > 0) return;
    const values = { by: this.#mine, ended: Date.now() };
    await this.#table.update({ scope, expression: 'SET #until = :ended', condition: '#by = :by', values });
  }
}

const outOfTime = (where: string): RetryableError =>
  new RetryableError('ChunkOutOfTime', 'Another run writes the same lines for longer than this Lambda has', { where });

const scopeOf = ({ bucket, key, versionId, etag, start }: Place): string =>
  `write#${createHash('sha256')
    .update([bucket, key, versionId ?? etag, start].join('\n'))
    .digest('hex')}`;

/**
 * Returns the turns of a chunk. A retry learns of all runs: what any of them has written was there after the run that it retries.
 * So does a run that events started, since an event may arrive again after its run has ended.
 */
export function turnsOf(table: BudgetTable, request: ChunkRequest, endsAtMs?: number): WriteTurns {
  const { run, chunk } = request;
  const sinceMs =
    isRetry(chunk) || run.startsWith(EVENT_RUN_PREFIX) ? 0 : Date.now() - (isRepeated(request) ? ATTEMPTS_MS : 0);
  return new WriteTurns(table, workKeys.chunkOfRun(run, chunk.chunk), sinceMs, endsAtMs);
}

/** @returns a function that gives the turns of a chunk, in a function that ends then; `undefined` without a table */
export function connectTurns(
  table: string | undefined,
): (request: ChunkRequest, endsAtMs: number) => WriteTurns | undefined {
  if (table === undefined) return () => undefined;
  const turns = new BudgetTable(tableClient(), table);
  return (request, endsAtMs) => turnsOf(turns, request, endsAtMs);
}
