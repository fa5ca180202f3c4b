/** Writes calls that have ended to S3 in batches, off the path of the application's requests. */
import { readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { PutObjectCommand, type S3Client, type S3ServiceException } from '@aws-sdk/client-s3';
import { encode, linesIn, placeOf } from './batch.ts';
import { type Call, type CallError, type Ended, OVERHEAD, type Side } from './call.ts';
import { bound } from './memory.ts';
import type { CaptureStats, Settings } from './options.ts';
import { passXRay, untraced } from './past-tracers.ts';
import { makeFolder, spool, spooled } from './spool.ts';

/** A PUT that takes longer is given up and made again. */
const PUT_LIMIT_MS = 30_000;
const FLUSH_MS = 10_000;
/** Maximum time by which the captures may delay the end of a process. */
const END_MS = 3_000;
/** Node takes a longer time for 1 ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** The SDK hashes the body that it sends: this many bytes at a time, with other work in between. */
const SLICE = 64 * 1024;

/** Whether S3 answered with an error, so that it may accept other requests. */
const isAnswer = (error: unknown) => (error as S3ServiceException).$metadata?.httpStatusCode !== undefined;

const senders = new Set<Sender>();

/** Runs at the end of the process, when asynchronous code does not run any more. */
function finish(): void {
  const lost = [...senders].reduce((sum, sender) => sum + (sender.quietly(() => sender.finish()) ?? 0), 0);
  if (lost === 0) return;
  const { lastError } = [...senders].map((sender) => sender.stats()).find((stats) => stats.lastError) ?? {};
  const told = `${lost} captures of SageMaker calls are lost: the process ended before S3 took them`;
  try {
    // A warning would be printed on a later tick, which does not come.
    writeSync(process.stderr.fd, `${told}${lastError ? `; last error: ${lastError}` : ''}\n`);
  } catch {
    // Its standard error may be closed.
  }
}

export class Sender {
  readonly #settings: Settings;
  readonly #s3: S3Client;
  /** Until they are in a batch. */
  readonly #calls = new Set<Call>();
  /** Lines that are being written, or could not be, by their keys. */
  readonly #batches = new Map<string, Buffer>();
  #addedBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #running = Promise.resolve();
  #toldDropped = 0;
  /** Signals that the process is ending. Until it is aborted, the process waits for S3. */
  #ending: AbortSignal | undefined;
  readonly #sums: Omit<CaptureStats, 'open' | 'waiting'> = {
    ...{ written: 0, spooled: 0, dropped: 0, withoutContent: 0 },
    lastError: undefined,
  };

  /** @throws Error if the spool folder cannot be made */
  constructor(s3: S3Client, settings: Settings) {
    this.#s3 = s3;
    this.#settings = settings;
    if (settings.spoolFolder !== undefined) makeFolder(settings.spoolFolder);
    if (senders.size === 0) {
      process.on('beforeExit', () => senders.forEach((sender) => void sender.quietly(() => sender.finishLater())));
      process.once('exit', finish);
    }
    senders.add(this);
    this.#wait();
  }

  stats(): CaptureStats {
    const ended = this.#ended().length;
    const waiting = [...this.#batches.values()].reduce((sum, body) => sum + linesIn(body), ended);
    return { open: this.#calls.size - ended, waiting, ...this.#sums };
  }

  async flush(limitMs = FLUSH_MS): Promise<CaptureStats> {
    const done = new AbortController();
    // The timer also keeps the process alive. The client has nothing else that does.
    const limit = sleep(Math.min(limitMs, LONGEST_TIMER_MS), undefined, { signal: done.signal }).catch(() => {});
    await Promise.race([this.#run(), limit]);
    done.abort();
    return this.stats();
  }

  /** Adds a call whose request was sent. @throws RangeError if there is no room for the call */
  begin(call: Call): void {
    const { memoryBytes: most } = this.#settings;
    if (this.#calls.size * OVERHEAD > most)
      throw new RangeError(`Captures are over their bound; expected: at most ${most} bytes`);
    this.#ending = undefined;
    this.#calls.add(call);
    this.#grow(call.size);
    const bytes = typeof call.body === 'string' ? Buffer.from(call.body) : call.body;
    call.body = undefined;
    // Another body can be read only once.
    this.add(call.request, bytes instanceof Uint8Array ? bytes : undefined);
  }

  /** Adds bytes to a call that has begun. @param bytes `undefined` if they cannot be read */
  add(side: Side, bytes: Uint8Array | undefined): void {
    side.add(bytes, this.#settings.maxBodyBytes);
    this.#grow(bytes?.byteLength ?? 0);
  }

  /** Ends a call. Does nothing if it has already ended. @param endMs milliseconds since its start */
  end(call: Call, ended: Ended, error?: CallError, endMs = call.now()): void {
    if (call.client.ended !== undefined) return;
    // The reply is not empty: its bytes are unknown.
    if (ended === 'left' && call.client.pieceCount === undefined) call.reply.leaveOut('unread');
    Object.assign(call.client, { ended, error, endMs });
    call.socket = undefined;
  }

  /** Bounds the memory, and starts a round, when the sizes have added up to an object's: both look at all calls. */
  #grow(size: number): void {
    const { memoryBytes: most, batchBytes } = this.#settings;
    this.#addedBytes += size;
    if (this.#addedBytes <= Math.min(most / 8, batchBytes)) return;
    this.#addedBytes = 0;
    bound(this.#calls, this.#batches.values(), most);
    if (this.#timer !== undefined) void this.#run();
  }

  /** Runs work on a call. An error costs only the capture. @param call a call that may be in memory */
  quietly<T>(work: () => T, call?: Call): T | undefined {
    try {
      return work();
    } catch (error) {
      if (call !== undefined) this.#calls.delete(call);
      this.#lose(1, error);
      return undefined;
    }
  }

  /** Counts captures that are lost. Keeps an error for `stats`, and warns of the first. */
  #lose(count: number, error: unknown): void {
    this.#sums.dropped += count;
    const isFirst = this.#sums.lastError === undefined;
    this.#sums.lastError = String(error).slice(0, 500);
    const text = `Captures of SageMaker calls are not written: ${this.#sums.lastError}`;
    if (isFirst && this.#ending === undefined) process.emitWarning(text, 'CaptureWarning');
  }

  #ended(): Call[] {
    return [...this.#calls].filter(({ client }) => client.ended !== undefined);
  }

  #wait(): void {
    this.#timer = setTimeout(() => void this.#run(), Math.min(this.#settings.batchMs, LONGEST_TIMER_MS)).unref();
  }

  /** Runs a round after the current round. */
  #run(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#running = this.#running.then(() => this.#round()).catch((error: unknown) => this.#lose(0, error));
    return this.#running;
  }

  /**
   * Tries once to write the ended calls and the spooled batches. Batches that are not written are spooled; without a
   * folder they wait in memory.
   */
  async #round(): Promise<void> {
    const { spoolFolder } = this.#settings;
    const refused = new Set<string>();
    // Let the request that started this round continue first.
    await turn();
    try {
      await this.#writeEnded(refused);
      for (const { key } of spoolFolder === undefined ? [] : spooled(spoolFolder)) {
        await this.#put(key, refused);
        await this.#writeEnded(refused);
      }
    } catch (error) {
      this.#lose(0, error);
      if (spoolFolder !== undefined) for (const _ of this.#keep()) await turn();
    } finally {
      this.#wait();
    }
  }

  async #writeEnded(refused: Set<string>): Promise<void> {
    for (const key of this.#keys(refused)) await (key === undefined ? turn() : this.#put(key, refused));
    if (refused.size > 0 && this.#settings.spoolFolder !== undefined) for (const _ of this.#keep()) await turn();
  }

  /**
   * Yields the keys of batches: waiting batches, then new batches of the calls that have ended. Each batch is created
   * only when the previous one is sent, because a batch cannot drop contents any more. Yields `undefined` between parts
   * of the work.
   */
  *#keys(refused: ReadonlySet<string>): Generator<string | undefined> {
    yield* [...this.#batches.keys()];
    const ended = this.#ended();
    // A place takes long to make, for thousands of calls.
    const isRefused = (call: Call) => refused.size > 0 && refused.has(placeOf(this.#settings, call));
    for (;;) {
      const [first, ...others] = ended.filter((call) => this.#calls.has(call) && !isRefused(call));
      if (first === undefined) return;
      const { dropped } = this.#sums;
      first.client.dropped = dropped - this.#toldDropped || undefined;
      const [key, body, taken] = yield* encode([first, ...others], this.#settings);
      // Until here the calls still wait: the end of the process would write them.
      this.#batches.set(key, body);
      this.#toldDropped = dropped;
      for (const call of taken) {
        this.#calls.delete(call);
        const sides = [call.request, call.reply];
        this.#sums.withoutContent += sides.filter(({ left }) => left !== undefined).length;
        // The application may hold its stream for long.
        for (const side of sides) side.kept = [];
      }
      yield key;
    }
  }

  /** Moves ended calls to the folder. Captures that do not fit are lost. Yields between parts of the work. */
  *#keep(): Generator<undefined> {
    for (const key of this.#keys(new Set())) {
      const body = this.#batches.get(key ?? '');
      if (key !== undefined && body !== undefined) this.#spool(key, body);
      yield undefined;
    }
  }

  #spool(key: string, body: Buffer): void {
    const { spoolFolder: folder, spoolBytes } = this.#settings;
    try {
      if (folder === undefined) this.#sums.dropped += linesIn(body);
      else {
        spool(key, body, folder, spoolBytes);
        this.#sums.spooled += linesIn(body);
      }
    } catch (error) {
      this.#lose(linesIn(body), error);
    }
    this.#batches.delete(key);
  }

  /** Tries to write the rest before the process ends by itself. An open stream cannot continue. */
  finishLater(): void {
    for (const call of this.#calls) this.end(call, 'left');
    // Node asks again when it has been tried.
    if (this.#ending !== undefined || this.stats().waiting === 0) return;
    this.#ending = AbortSignal.timeout(END_MS);
    void this.flush(END_MS);
  }

  /** Keeps captures that were not written. Returns the number of lost captures. */
  finish(): number {
    this.#ending ??= AbortSignal.abort();
    const { dropped } = this.#sums;
    for (const call of this.#calls) this.end(call, 'left');
    for (const _ of this.#keep());
    return this.#sums.dropped - dropped;
  }

  /**
   * Reads a spooled file. Another process may have sent it already. A file that cannot be read does not hold up other
   * files.
   */
  #read(file: string): Buffer | undefined {
    try {
      return readFileSync(file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') this.#lose(0, error);
      return undefined;
    }
  }

  /** @param refused endpoints and variants whose batches S3 has refused in this round: they do not hold up others */
  async #put(key: string, refused: Set<string>): Promise<void> {
    const place = key.split('/').slice(0, -5).join('/');
    if (refused.has(place)) return;
    const file = join(this.#settings.spoolFolder ?? '', key);
    const body = this.#batches.get(key) ?? this.#read(file);
    if (body === undefined) return;
    const Body = Readable.from(inTurns(body), { objectMode: false });
    const put = new PutObjectCommand({ Bucket: this.#settings.bucket, Key: key, Body, ContentLength: body.length });
    put.middlewareStack.add(passXRay, { step: 'build' });
    try {
      await untraced(() => this.#s3.send(put, { abortSignal: this.#ending ?? AbortSignal.timeout(PUT_LIMIT_MS) }));
      if (!this.#batches.delete(key)) rmSync(file, { force: true });
      this.#sums.written += linesIn(body);
    } catch (error) {
      if (!isAnswer(error)) throw error;
      refused.add(place);
      this.#lose(0, error);
    }
  }
}

async function* inTurns(body: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += SLICE) {
    yield body.subarray(at, at + SLICE);
    await turn();
  }
}
