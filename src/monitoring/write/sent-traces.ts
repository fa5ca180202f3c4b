/**
 * What this stack has sent to MLflow for a trace: an item per trace in the table of limits, without content. A trace or a verdict
 * that was sent and is absent was deleted by a person, and is not sent again.
 */
import { EVENT_RUN_PREFIX } from '../../core/contract/names.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import type { LimitsTable } from '../../limits/table.ts';
import { getAll, putAll } from '../../limits/table-batches.ts';
import type { StoredTrace } from '../../mlflow/types.ts';
import { isRepeated } from '../chunk/attempt.ts';

/** DynamoDB deletes an item after this time. A run can be retried for as long. */
const KEPT_SECONDS = 90 * 86_400;
/** For at most this time, an earlier attempt at the chunk was under way. */
const ATTEMPTS_MS = 3_600_000;

interface Sent {
  /** The first run of the chain of retries that wrote last. */
  chain: string;
  /** The chunk of a run that wrote last; see `workKeys.chunkOfRun`. */
  by: string;
  /** Epoch milliseconds. */
  atMs: number;
  /** Assessments that MLflow took with the trace or later. */
  ids: readonly string[];
}

/** Returns the first run of the chain of retries that a run belongs to. */
export const chainOf = ({ run, options }: Pick<ChunkRequest, 'run' | 'options'>): string =>
  options.continues?.[0] ?? run;

/** Whether absent traces of a chunk are written, unless a person has deleted them. A re-evaluation is about captures that have traces. */
export const createsTraces = ({ chunk, options }: Pick<ChunkRequest, 'chunk' | 'options'>): boolean =>
  !chunk.traced && !options.reevaluate;

export class SentTraces {
  readonly #table: LimitsTable;
  readonly #request: ChunkRequest;
  readonly #sinceMs: number;
  readonly #sent = new Map<string, Sent>();

  /**
   * A run that a person starts writes again what was deleted before it. A retry does not, and neither does a run of events, since
   * an event may be delivered again after its run.
   *
   * @param startedAtMs when this attempt began; epoch milliseconds
   */
  constructor(table: LimitsTable, request: ChunkRequest, startedAtMs = Date.now()) {
    this.#table = table;
    this.#request = request;
    const isAnew = request.options.continues === undefined && !request.run.startsWith(EVENT_RUN_PREFIX);
    this.#sinceMs = isAnew ? startedAtMs - (isRepeated(request) ? ATTEMPTS_MS : 0) : 0;
  }

  /** Reads what was sent for these traces until now. Call it while the traces are locked, before they are written. */
  async read(traceIds: readonly string[]): Promise<void> {
    const items = await getAll(this.#table, traceIds.map(scopeOf));
    for (const traceId of traceIds) {
      const item = items.get(scopeOf(traceId));
      if (item === undefined || Number(item.ttl?.N) * 1000 < Date.now()) continue;
      const ids = item.ids?.S ? item.ids.S.split(' ') : [];
      const { chain, by, at } = item;
      this.#sent.set(traceId, { chain: chain?.S ?? '', by: by?.S ?? '', atMs: Number(at?.N), ids });
    }
  }

  /** Returns whether a trace, if it is absent, was deleted by a person. */
  isWritten(traceId: string): boolean {
    const sent = this.#sent.get(traceId);
    return sent !== undefined && (sent.chain === chainOf(this.#request) || sent.atMs >= this.#sinceMs);
  }

  /** Returns whether a run of this chain has saved the trace. Of what another run saved, a killed attempt may have sent a part later. */
  isOfChain(traceId: string): boolean {
    return this.#sent.get(traceId)?.chain === chainOf(this.#request);
  }

  /** Returns the chunk of a run that wrote the trace or its assessments last; see `workKeys.chunkOfRun`. */
  writtenBy(traceId: string): string | undefined {
    return this.#sent.get(traceId)?.by;
  }

  /** Returns whether a person has deleted an assessment of a trace that exists. */
  wasDeleted({ traceId, assessments }: StoredTrace, assessmentId: string): boolean {
    const isSent = this.#sent.get(traceId)?.ids.includes(assessmentId) ?? false;
    return isSent && !assessments.some((stored) => stored.assessmentId === assessmentId);
  }

  /** Saves which assessments MLflow took for each trace, and that it has the trace. Call it while the traces are locked. */
  async save(assessmentsOf: ReadonlyMap<string, readonly string[]>): Promise<void> {
    const now = Date.now();
    const { run, chunk } = this.#request;
    const mine = { chain: chainOf(this.#request), by: workKeys.chunkOfRun(run, chunk.chunk), atMs: now };
    for (const [traceId, news] of assessmentsOf) {
      const ids = new Set([...(this.#sent.get(traceId)?.ids ?? []), ...news]);
      this.#sent.set(traceId, { ...mine, ids: [...ids] });
    }
    const ttl = Math.ceil(now / 1000) + KEPT_SECONDS;
    const itemOf = (traceId: string) => {
      const { ids, atMs, ...who } = this.#sent.get(traceId) as Sent;
      return { scope: scopeOf(traceId), values: { ...who, at: atMs, ids: ids.join(' '), ttl } };
    };
    await putAll(this.#table, [...assessmentsOf.keys()].map(itemOf));
  }
}

const scopeOf = (traceId: string): string => `sent#${traceId}`;
