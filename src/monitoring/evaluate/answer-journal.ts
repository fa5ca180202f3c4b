/**
 * What a run has sent to MLflow, in segments by chunk in the work bucket. If a trace or a verdict is absent later, a person has
 * deleted it.
 */

import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import type { StoredTrace, WriteTracesResult } from '../../mlflow/types.ts';

interface WrittenTraces {
  wrote: string[];
}

interface PostedVerdicts {
  /** The ids of the assessments that are sent for a trace, by its id. */
  posts: Record<string, string[]>;
}

type Line = WrittenTraces | PostedVerdicts;

/** What a chunk of a run has sent for a trace. */
interface Sent {
  /** The assessments in one request with the trace, or those that were there before the trace counts as written. */
  ids: readonly string[];
  isWritten: boolean;
}

/** What is found to be recorded is saved after at most this time. A batch of captures is saved when it is written. */
const SEGMENT_MS = 5_000;
/** Journals of other runs that are read at the same time. */
const READ_AT_ONCE = 8;

export class AnswerJournal {
  readonly #storage: Storage;
  readonly #bucket: string;
  readonly #request: ChunkRequest;
  readonly #requestId: string;
  /** Traces that an earlier attempt, or this one, has written. */
  readonly #wrote = new Set<string>();
  /** By trace, and by chunk of a run. */
  readonly #sent = new Map<string, Map<string, Sent>>();
  readonly #self: string;
  /** Lines that are not saved yet. */
  #lines: Line[] = [];
  #segments = 0;
  #saving: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  readonly #segmentsRead = new Set<string>();

  constructor(storage: Storage, bucket: string, request: ChunkRequest, requestId: string) {
    this.#storage = storage;
    this.#bucket = bucket;
    this.#request = request;
    this.#requestId = requestId;
    this.#self = workKeys.chunkOfRun(request.run, request.chunk.chunk);
  }

  /** Reads what earlier attempts at the chunk have saved in this run. */
  async open(): Promise<void> {
    for await (const line of this.#read(workKeys.answersOf(this.#self))) this.#learn(line);
  }

  /**
   * Reads what the runs that this one retries have saved about these traces. Each line of a retried quarantine may be from
   * another chunk, with hundreds of answers about others.
   */
  async openEarlier(traceIds: ReadonlySet<string>): Promise<void> {
    const { chunk } = this.#request;
    const earlier = [...new Set(chunk.ranges.flatMap(({ answersIn = [] }) => answersIn))];
    await forEachConcurrently(READ_AT_ONCE, earlier, (before) =>
      this.#readOther(before, (line) => {
        if ('wrote' in line) this.#presumeWritten(line.wrote.filter((id) => traceIds.has(id)));
      }),
    );
    for (const traceId of this.#sent.keys()) if (!traceIds.has(traceId)) this.#sent.delete(traceId);
  }

  /**
   * Returns whether an absent trace is to be written. Late verdicts bring back no trace that a person has deleted: it was
   * written by an earlier attempt or run, or a re-evaluation presumes so.
   */
  mayCreate(traceId: string): boolean {
    const { chunk, options } = this.#request;
    return !(chunk.traced || options.reevaluate || this.isWritten(traceId));
  }

  isWritten(traceId: string): boolean {
    return this.#wrote.has(traceId);
  }

  async learnWritten(chunksOfRuns: readonly string[]): Promise<void> {
    await forEachConcurrently(READ_AT_ONCE, chunksOfRuns, (other) =>
      this.#readOther(other, (line) => 'wrote' in line && this.#presumeWritten(line.wrote)),
    );
  }

  /** Learns what chunks of other runs have sent. It is not presumed to be there, or to have been. */
  async learnPosts(chunksOfRuns: ReadonlySet<string>): Promise<void> {
    await forEachConcurrently(READ_AT_ONCE, chunksOfRuns, (other) =>
      this.#readOther(other, () => undefined, new Set()),
    );
  }

  /** Reads the journal of a chunk of another run, and learns what it has sent. */
  async #readOther(chunkOfRun: string, take: (line: Line) => unknown, seen = this.#segmentsRead): Promise<void> {
    for await (const line of this.#read(workKeys.answersOf(chunkOfRun), seen)) {
      this.#learnSent(line, chunkOfRun);
      take(line);
    }
  }

  /**
   * Returns whether a person has deleted an assessment: a run that was to send it has written it, or has written the trace with
   * others that are there.
   */
  wasDeleted({ traceId, assessments, info }: StoredTrace, assessmentId: string): boolean {
    const there = new Set(assessments.map((stored) => stored.assessmentId));
    if (there.has(assessmentId)) return false;
    // What a run was about to send with the trace was not sent if another run has written it.
    const mayHaveSent = (by: string): boolean => info?.run === undefined || by.startsWith(`${info.run}/`);
    return [...(this.#sent.get(traceId) ?? [])].some(
      ([by, { ids, isWritten }]) =>
        ids.includes(assessmentId) && (isWritten || (mayHaveSent(by) && ids.some((id) => there.has(id)))),
    );
  }

  #add(line: Line): void {
    this.#learn(line);
    this.#lines.push(line);
    // A segment that cannot be written now is written by `save`, which throws if it cannot be written then either.
    const saveSoon = () => void this.save().catch(() => undefined);
    this.#timer ??= setTimeout(saveSoon, SEGMENT_MS).unref();
  }

  /** Saves everything added so far. @throws RetryableError `StorageUnavailable` and other errors of the storage */
  save(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#saving = this.#saving.catch(() => undefined).then(() => this.#put());
    return this.#saving;
  }

  /** Saves which assessments are about to be sent together with their traces, and everything added so far. */
  savePosts(posts: Record<string, string[]>): Promise<void> {
    if (Object.keys(posts).length > 0) this.#add({ posts });
    return this.save();
  }

  /** Adds that a trace has all of these assessments, which is saved soon. */
  keepRecorded(traceId: string, assessmentIds: readonly string[]): void {
    const { ids } = this.#sentBy(this.#self, traceId);
    this.#add({ posts: { [traceId]: [...ids, ...assessmentIds] } });
    this.#add({ wrote: [traceId] });
  }

  /**
   * Saves which traces are written, and that the `bare` ones have none of the assessments that were sent with them.
   */
  saveWritten({ written, bare }: Pick<WriteTracesResult, 'written' | 'bare'>): Promise<void> {
    if (written.length > 0) this.#add({ wrote: written });
    if (bare.length > 0) this.#add({ posts: Object.fromEntries(bare.map((traceId) => [traceId, []])) });
    return this.save();
  }

  async #put(): Promise<void> {
    const lines = this.#lines;
    if (lines.length === 0) return;
    this.#lines = [];
    const { run, chunk, attempt } = this.#request;
    const key = workKeys.answers(run, chunk.chunk, attempt, this.#requestId, this.#segments);
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    try {
      await this.#storage.putText(this.#bucket, key, text, 'application/jsonlines');
      this.#segments += 1;
    } catch (error) {
      this.#lines = [...lines, ...this.#lines];
      throw error;
    }
  }

  #learn(line: Line): void {
    this.#learnSent(line, this.#self);
    if ('wrote' in line) this.#presumeWritten(line.wrote);
  }

  #presumeWritten(traceIds: readonly string[]): void {
    for (const traceId of traceIds) this.#wrote.add(traceId);
  }

  #learnSent(line: WrittenTraces | PostedVerdicts, by: string): void {
    if ('wrote' in line) for (const traceId of line.wrote) this.#sentBy(by, traceId).isWritten = true;
    else for (const [traceId, ids] of Object.entries(line.posts)) this.#sentBy(by, traceId).ids = ids;
  }

  #sentBy(by: string, traceId: string): Sent {
    const ofTrace = this.#sent.get(traceId) ?? new Map<string, Sent>();
    const sent = ofTrace.get(by) ?? { ids: [], isWritten: false };
    this.#sent.set(traceId, ofTrace.set(by, sent));
    return sent;
  }

  /** Yields the lines of segments that were not read before. */
  async *#read(prefix: string, seen = this.#segmentsRead): AsyncGenerator<Line> {
    for await (const { key } of this.#storage.list(this.#bucket, prefix)) {
      if (seen.has(key)) continue;
      seen.add(key);
      yield* await this.#storage.getJsonLines<Line>(this.#bucket, key);
    }
  }
}
