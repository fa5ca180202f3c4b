/**
 * Records what this stack has sent to MLflow for a trace: an item per trace in the table of limits, without content. A
 * trace or a verdict that was sent and is absent was deleted by a person, and is not sent again. The same item is the
 * claim of the trace: of the chunks of all runs with its line, in any file, only one writes at a time.
 */
import { EVENT_RUN_PREFIX } from '../../core/contract/names.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { Lock } from '../../limits/lock.ts';
import { getAll } from '../../limits/many-items.ts';
import { asNumber, type Item, type LimitsTable } from '../../limits/table.ts';
import type { StoredTrace } from '../../mlflow/types.ts';
import { isRepeated } from '../chunk/attempt.ts';

/** Maximum time since an earlier attempt at the chunk started. */
const ATTEMPTS_MS = 3_600_000;

interface Sent {
  /** The first run of the chain of retries that wrote last. */
  chain: string;
  /** The chunk of each run that counts the run's work; see `workKeys.chunkOfRun`. */
  by: readonly string[];
  /** Epoch milliseconds. */
  atMs: number;
  /** Assessments that MLflow took with the trace or later. */
  ids: readonly string[];
}

/** Returns the first run of the chain of retries that a run belongs to. */
export const chainOf = ({ run, options }: Pick<ChunkRequest, 'run' | 'options'>): string =>
  options.continues?.[0] ?? run;

/**
 * Whether absent traces of a chunk are written, unless a person has deleted them. A re-evaluation only covers captures
 * with traces.
 */
export const createsTraces = ({ chunk, options }: Pick<ChunkRequest, 'chunk' | 'options'>): boolean =>
  !chunk.traced && !options.reevaluate;

export class SentTraces {
  readonly #table: LimitsTable;
  readonly #request: ChunkRequest;
  readonly #lock: Lock;
  readonly #by: string;
  readonly #sinceMs: number;
  readonly #sent = new Map<string, Sent>();
  readonly #revisions = new Map<string, number>();

  /**
   * A manual run restores traces that were deleted before it started. A retry does not, and neither does a run of
   * events, because an event may be delivered again after its run.
   *
   * @param owner of the claims; must be unique to this attempt
   */
  constructor(table: LimitsTable, request: ChunkRequest, owner: string) {
    this.#table = table;
    this.#request = request;
    this.#by = workKeys.chunkOfRun(request.run, request.chunk.chunk);
    this.#lock = new Lock({ table, owner, chunk: this.#by });
    const isAnew = request.options.continues === undefined && !request.run.startsWith(EVENT_RUN_PREFIX);
    this.#sinceMs = isAnew ? Date.now() - (isRepeated(request) ? ATTEMPTS_MS : 0) : 0;
  }

  /** Reads what was sent for these traces until now. A chunk that is writing them may change it. */
  async read(traceIds: readonly string[]): Promise<void> {
    const items = await getAll(this.#table, traceIds.map(scopeOf));
    this.#note(items);
    // MLflow is read after the first look. Its content may be older than the result of a later look.
    for (const traceId of traceIds) {
      if (!this.#revisions.has(traceId)) this.#revisions.set(traceId, revisionIn(items.get(scopeOf(traceId))));
    }
  }

  /**
   * Claims the traces, reads what was sent for them, and does the work on the claimed traces first, then on the rest.
   * See `Lock.during`.
   *
   * @param work saves what it has sent with `save`
   */
  claimed(
    traceIds: readonly string[],
    work: (traceIds: ReadonlySet<string>, assertHeld: () => void) => Promise<void>,
    beginBy?: number,
  ): Promise<void> {
    return this.#lock.during(
      traceIds.map(scopeOf),
      (items, assertHeld) => {
        this.#note(items);
        for (const [scope, item] of items) this.#revisions.set(traceIdOf(scope), revisionIn(item));
        return work(new Set([...items.keys()].map(traceIdOf)), assertHeld);
      },
      beginBy,
    );
  }

  #note(items: ReadonlyMap<string, Item>): void {
    for (const [scope, { chain, by, at, ids, ttl }] of items) {
      // An item that was claimed and never saved does not show what was sent.
      if (chain?.S === undefined || by?.S === undefined || Number(ttl?.N) * 1000 < Date.now()) continue;
      const words = (text = ''): string[] => (text === '' ? [] : text.split(' '));
      const sent = { chain: chain.S, by: words(by.S), atMs: Number(at?.N), ids: words(ids?.S) };
      this.#sent.set(traceIdOf(scope), sent);
    }
  }

  /**
   * Returns the revision of a trace's known state: the revision of its item that this chunk has saved, or else that it
   * found before it read the trace from MLflow; 0 without an item.
   */
  revisionOf(traceId: string): number {
    return this.#revisions.get(traceId) ?? 0;
  }

  /** Returns whether a trace, if it is absent, was deleted by a person. */
  isWritten(traceId: string): boolean {
    const sent = this.#sent.get(traceId);
    return sent !== undefined && (sent.chain === chainOf(this.#request) || sent.atMs >= this.#sinceMs);
  }

  /**
   * Returns whether a run of this chain has saved the trace. If another run saved it, a killed attempt may have sent a
   * part later.
   */
  isOfChain(traceId: string): boolean {
    return this.#sent.get(traceId)?.chain === chainOf(this.#request);
  }

  /** Returns which chunk of this run counts the run's work on a trace. Returns `undefined` if no chunk has saved it. */
  countedBy(traceId: string): 'this' | 'another' | undefined {
    const ofRun = workKeys.chunksOfRun(this.#request.run);
    const by = this.#sent.get(traceId)?.by.find((chunk) => chunk.startsWith(ofRun));
    return by === undefined ? undefined : by === this.#by ? 'this' : 'another';
  }

  /** Returns whether a person has deleted an assessment of a trace that exists. */
  wasDeleted({ traceId, assessments }: StoredTrace, assessmentId: string): boolean {
    const isSent = this.#sent.get(traceId)?.ids.includes(assessmentId) ?? false;
    return isSent && !assessments.some((stored) => stored.assessmentId === assessmentId);
  }

  /**
   * Saves which assessments MLflow took for a trace, and that it has the trace, and gives its claim back.
   *
   * @throws RetryableError `LockLost` if another chunk has claimed the trace since
   */
  async save(traceId: string, assessmentIds: readonly string[]): Promise<void> {
    const { by = [], ids = [] } = this.#sent.get(traceId) ?? {};
    const sent = {
      chain: chainOf(this.#request),
      by: this.countedBy(traceId) === undefined ? [...by, this.#by] : by,
      atMs: Date.now(),
      ids: [...new Set([...ids, ...assessmentIds])],
    };
    const revision = this.#lock.revisionOf(scopeOf(traceId)) ?? 0;
    await this.#lock.release(scopeOf(traceId), {
      expression: 'SET #chain = :chain, #by = :by, #at = :at, #ids = :ids',
      values: { chain: sent.chain, by: sent.by.join(' '), at: sent.atMs, ids: sent.ids.join(' ') },
    });
    this.#sent.set(traceId, sent);
    this.#revisions.set(traceId, revision);
  }
}

const revisionIn = (item?: Item): number => asNumber(item?.revision);

const scopeOf = (traceId: string): string => `sent#${traceId}`;
const traceIdOf = (scope: string): string => scope.slice(scopeOf('').length);

/** Returns the traces, among these, of which something was sent to MLflow. @throws the errors of `LimitsTable` */
export async function sentOf(table: LimitsTable, traceIds: readonly string[]): Promise<Set<string>> {
  const items = [...(await getAll(table, traceIds.map(scopeOf)))];
  return new Set(items.flatMap(([scope, { chain }]) => (chain?.S === undefined ? [] : traceIdOf(scope))));
}
