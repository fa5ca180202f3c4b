/**
 * Finds the lines that kill the function. After a kill, the next attempt takes the lines one after the other and notes the place
 * of each before: if the function is killed again, that line is at fault. No later attempt decodes it. An attempt that ends by
 * itself, such as before its time is over, notes that it did: only a kill counts against a line.
 */
import type { LinePlace, QuarantineCause } from '../../captures/types.ts';
import { MOST_KILLERS } from '../../core/contract/execution.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { PermanentError, RetryableError } from '../../core/errors/errors.ts';
import type { ChunkDependencies } from './attempt.ts';
import { lineId } from './ranges.ts';

/** The reason for a line that killed the function while no other was at work. */
export const KILLED: QuarantineCause = {
  name: 'FunctionKilled',
  message: 'The function was killed (by its memory limit or with its host) while it processed this line alone',
};

/** With less time than this, no further line is started. */
const LINE_MS = 60_000;

/**
 * `tracing`: the lines are traced one after the other. `together`: they are traced, and are judged as usual. `each`: that killed
 * the function too, so they are judged one after the other.
 */
type Stage = 'tracing' | 'together' | 'each';

interface Note {
  stage: Stage;
  /** The line in progress, or the line to continue with. */
  at?: string | undefined;
  /** The judge's question about it. */
  question?: string | undefined;
  /** Time at which the attempt ends, in epoch milliseconds; 0 if it has ended by itself. */
  untilMs: number;
  killers: string[];
  /** Questions that the judge may have been asked about them. */
  asked?: string[];
}

type NoteDependencies = Pick<ChunkDependencies, 'storage' | 'environment' | 'remainingMs'>;

type Step = 'evaluate' | 'prepare';

export class LineAtWork {
  readonly #deps: NoteDependencies;
  readonly #request: ChunkRequest;
  /** Absent: the function was not killed on the chunk. */
  #note: Note | undefined;
  readonly #killers: Set<string>;
  #passing: string | undefined;

  private constructor(deps: NoteDependencies, request: ChunkRequest, killers: readonly string[], note?: Note) {
    this.#deps = deps;
    this.#request = request;
    this.#note = note;
    this.#killers = new Set(killers);
    this.#passing = note?.stage === 'tracing' ? note.at : undefined;
  }

  /**
   * Reads the note of the attempt before, if it was killed.
   *
   * @throws PermanentError `FunctionKilledTooOften` if too many lines of the chunk have killed the function
   */
  static async open(request: ChunkRequest, deps: NoteDependencies): Promise<LineAtWork> {
    const { phase, progress } = request;
    const read = (of?: Step) => deps.storage.getJson<Note>(deps.environment.WORK_BUCKET, keyOf(request, of));
    const prepared = phase === 'apply' ? ((await read('prepare'))?.killers ?? []) : [];
    if ((progress?.kills ?? 0) === 0) return new LineAtWork(deps, request, prepared);
    const first: Note = { stage: 'tracing', untilMs: 0, killers: [] };
    const { stage, at, question, untilMs, killers, asked = [] } = (await read()) ?? first;
    const isKilled = Date.now() < untilMs;
    if (isKilled && at !== undefined) killers.push(at);
    if (isKilled && question !== undefined) asked.push(question);
    if (killers.length > MOST_KILLERS) {
      const facts = { expected: `at most ${MOST_KILLERS} lines`, where: whereOf(request) };
      const message = 'More lines of the chunk kill the function than one attempt each can find';
      throw new PermanentError('FunctionKilledTooOften', message, facts);
    }
    const next = isKilled && at === undefined && stage === 'together' ? 'each' : stage;
    const ends = Date.now() + deps.remainingMs();
    const note: Note = { stage: next, at: next === 'tracing' ? at : undefined, untilMs: ends, killers, asked };
    const opened = new LineAtWork(deps, request, [...prepared, ...killers], note);
    // Until a line is noted, a kill must not look like the end of the attempt before.
    if (next !== 'tracing') await opened.#save({});
    return opened;
  }

  /** Whether the lines must be traced one after the other, before any other work. */
  get isTracing(): boolean {
    return this.#note?.stage === 'tracing';
  }

  /** Whether the captures must be judged one after the other, each after `begin`. */
  get isEach(): boolean {
    return this.#note?.stage === 'each';
  }

  /** The questions about lines that killed earlier attempts, which may have paid for the answers. Such lines are not decoded again. */
  get asked(): readonly string[] {
    return this.#note?.asked ?? [];
  }

  /** Returns why a line must not be decoded. */
  reasonOf(place: LinePlace): QuarantineCause | undefined {
    return this.#killers.has(lineId(place)) ? KILLED : undefined;
  }

  /** Returns why a line must not be decoded. Notes it before, where the lines are not traced. */
  async reading(place: LinePlace): Promise<QuarantineCause | undefined> {
    const reason = this.reasonOf(place);
    if (reason === undefined && this.isTracing) await this.begin(place);
    return reason;
  }

  /**
   * Notes a line before it is traced alone.
   *
   * @returns why it must not be decoded now
   * @throws RetryableError `ChunkOutOfTime`, so that the next attempt continues with this line
   */
  async pass(place: LinePlace): Promise<QuarantineCause | undefined> {
    if (this.#passing === lineId(place)) this.#passing = undefined;
    // Lines that an earlier attempt has traced are skipped without decoding, like lines that kill the function.
    if (this.#passing !== undefined || this.reasonOf(place) !== undefined) return KILLED;
    await this.begin(place);
    return undefined;
  }

  /** Notes a line before it is processed alone, and the question to the judge. @throws RetryableError `ChunkOutOfTime` */
  async begin(place: LinePlace, question?: string): Promise<void> {
    // An attempt that ends here is continued with this line.
    if (this.#note !== undefined) this.#note = { ...this.#note, at: lineId(place), question };
    this.checkTime();
    await this.#save({});
  }

  /** @throws RetryableError `ChunkOutOfTime` if the function should end itself, before it is ended */
  checkTime(): void {
    if (this.#deps.remainingMs() >= LINE_MS) return;
    throw chunkOutOfTime(this.#request);
  }

  /** Records that all lines are traced, or decoded if traces are not written. */
  async traced(): Promise<void> {
    if (this.isTracing) await this.#save({ stage: 'together', at: undefined });
  }

  /** Does the work of the attempt, and notes that it has ended by itself. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } finally {
      const { stage, at } = this.#note ?? {};
      await this.#save({ untilMs: 0, at: stage === 'tracing' ? at : undefined }).catch(() => undefined);
    }
  }

  async #save(changes: Partial<Note>): Promise<void> {
    if (this.#note === undefined) return;
    this.#note = { ...this.#note, ...changes };
    await this.#deps.storage.putJson(this.#deps.environment.WORK_BUCKET, keyOf(this.#request), this.#note);
  }
}

const stepOf = ({ phase }: ChunkRequest): Step => (phase === 'prepare' ? phase : 'evaluate');

const keyOf = (request: ChunkRequest, step = stepOf(request)): string =>
  workKeys.lineAtWork(request.run, request.chunk.chunk, step);

const whereOf = ({ run, chunk }: ChunkRequest): string => `chunk ${chunk.chunk} of run ${run}`;

export function chunkOutOfTime(request: ChunkRequest, cause?: unknown): RetryableError {
  const facts = { where: whereOf(request) };
  return new RetryableError('ChunkOutOfTime', 'The chunk takes longer than this Lambda has', facts, cause);
}
