/** Writes calls that have ended to S3 in batches, off the path of the application's requests. */
import { Readable } from 'node:stream';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { PutObjectCommand, type S3Client, type S3ServiceException } from '@aws-sdk/client-s3';
import { type Batch, encode, linesIn } from './batch.ts';
import type { Call, CallError, Ended } from './call.ts';
import { Memory } from './memory.ts';
import type { CaptureStats, Settings } from './options.ts';
import { makeFolder, spool, spooled } from './spool.ts';

/** A PUT that takes longer is given up and made again. */
const PUT_LIMIT_MS = 30_000;
const FLUSH_MS = 10_000;
/** Node takes a longer time for 1 ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** The SDK hashes what it sends: so many bytes at a time, with other work in between. */
const SLICE = 64 * 1024;

/** Whether S3 answered, and would take others. */
const isRefusal = (error: unknown) => ((error as S3ServiceException).$metadata?.httpStatusCode ?? 500) < 500;

const senders = new Set<Sender>();

export class Sender {
  readonly #settings: Settings;
  readonly #s3: S3Client;
  readonly memory: Memory;
  /** Of calls that have ended since the last round. */
  #endedBytes = 0;
  /** They are being written, or could not be: at most one of an endpoint, since what is refused for one holds up no other. */
  readonly #batches: (Batch & { endpoint: string })[] = [];
  #timer: NodeJS.Timeout | undefined;
  #running = Promise.resolve();
  #toldDropped = 0;
  readonly #sums = { written: 0, spooled: 0, dropped: 0, lastError: undefined as string | undefined };

  /** @throws Error if the spool folder cannot be made */
  constructor(s3: S3Client, settings: Settings) {
    this.#s3 = s3;
    this.#settings = settings;
    this.memory = new Memory(settings);
    if (settings.spoolFolder !== undefined) makeFolder(settings.spoolFolder);
    if (senders.size === 0)
      process.once('exit', () => senders.forEach((sender) => void sender.quietly(() => sender.#finish())));
    senders.add(this);
    this.#wake(settings.batchMs);
  }

  stats(): CaptureStats {
    const waiting = this.#ended().length;
    return {
      open: this.memory.calls.size - waiting,
      waiting: this.#batches.reduce((sum, batch) => sum + linesIn(batch), waiting),
      ...this.#sums,
      withoutContent: this.memory.withoutContent,
    };
  }

  async flush(limitMs = FLUSH_MS): Promise<CaptureStats> {
    const done = new AbortController();
    // It also keeps the process alive, as nothing else here does.
    const limit = sleep(Math.min(limitMs, LONGEST_TIMER_MS), undefined, { signal: done.signal }).catch(() => {});
    await Promise.race([this.#run(), limit]);
    done.abort();
    return this.stats();
  }

  /** Takes a call whose request was sent. @throws RangeError if there is no room for it */
  begin(call: Call): void {
    const bytes = typeof call.body === 'string' ? Buffer.from(call.body) : call.body;
    // Another body can be read only once.
    this.memory.add(call, call.request, bytes instanceof Uint8Array ? bytes : undefined);
    call.body = undefined;
  }

  /** Ends a call. Does nothing if it has ended. @param endMs since its start */
  end(call: Call, ended: Ended, error?: CallError, endMs = call.now()): void {
    if (call.client.ended !== undefined) return;
    Object.assign(call.client, { ended, error, endMs });
    call.socket = undefined;
    this.#endedBytes += call.size;
    // A round that writes takes what ends meanwhile.
    if (this.#endedBytes < this.#settings.batchBytes || this.#batches.length > 0) return;
    this.#endedBytes = 0;
    this.#wake(0);
  }

  /** Runs work on a call. An error in it costs the capture, and nothing else. @param call one that may be in the memory */
  quietly<T>(work: () => T, call?: Call): T | undefined {
    try {
      return work();
    } catch (error) {
      if (call !== undefined) this.memory.release(call);
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
    if (isFirst) process.emitWarning(text, 'CaptureWarning');
  }

  #ended(): Call[] {
    return [...this.memory.calls].filter(({ client }) => client.ended !== undefined);
  }

  #wake(afterMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#run(), Math.min(afterMs, LONGEST_TIMER_MS)).unref();
  }

  /** Runs a round after the one that runs. */
  #run(): Promise<void> {
    this.#running = this.#running.then(() => this.#round()).catch((error: unknown) => this.#lose(0, error));
    return this.#running;
  }

  /** Writes everything that has ended, then what was spooled. After a failure the rest is spooled; without a folder it waits in memory. */
  async #round(): Promise<void> {
    const { spoolFolder, batchMs } = this.#settings;
    try {
      await this.#writeEnded((batch) => this.#send(batch));
      for (const batch of spoolFolder === undefined ? [] : spooled(spoolFolder)) {
        await this.#writeEnded((ended) => this.#send(ended));
        await this.#put(batch);
      }
    } catch (error) {
      this.#lose(0, error);
      if (spoolFolder !== undefined) await this.#writeEnded((batch) => this.#keep(batch));
    } finally {
      this.#wake(batchMs);
    }
  }

  async #writeEnded(write: (batch: Batch) => void | Promise<void>): Promise<void> {
    this.#endedBytes = 0;
    for (const batch of this.#made()) await (batch === undefined ? turn() : write(batch));
  }

  /** Yields batches of the calls that have ended; one that could not be written comes again. `undefined` between pieces of the work. */
  *#made(): Generator<Batch | undefined> {
    for (;;) {
      const held = this.#batches.map(({ endpoint }) => endpoint);
      const [first, ...calls] = this.#ended().filter(({ endpoint }) => !held.includes(endpoint));
      const made = first && { endpoint: first.endpoint, ...(yield* this.#encode([first, ...calls])) };
      const batch = made ?? this.#batches.shift();
      if (batch === undefined) return;
      this.#batches.push(batch);
      yield batch;
      this.#batches.pop();
      this.memory.used -= batch.body.length;
    }
  }

  *#encode(calls: [Call, ...Call[]]): Generator<undefined, Batch> {
    const { dropped } = this.#sums;
    calls[0].client.dropped = dropped - this.#toldDropped || undefined;
    const [batch, taken] = yield* encode(calls, this.#settings);
    // Until here the calls still wait: the end of the process would write them.
    for (const call of taken) this.memory.release(call);
    this.memory.used += batch.body.length;
    this.#toldDropped = dropped;
    return batch;
  }

  /** Spools a batch. Without a folder, or with one that takes no more, it is lost. */
  #keep(batch: Batch): void {
    try {
      spool(batch, this.#settings);
      this.#sums.spooled += linesIn(batch);
    } catch (error) {
      this.#lose(linesIn(batch), error);
    }
  }

  /** At the end of the process, when nothing asynchronous runs any more. */
  #finish(): void {
    for (const call of this.memory.calls) this.end(call, 'left');
    for (const batch of this.#made()) if (batch !== undefined) this.#keep(batch);
  }

  /** What S3 refuses goes to the folder, if there is one, and holds up no other. */
  async #send(batch: Batch): Promise<void> {
    await this.#put(batch).catch((error: unknown) => {
      if (this.#settings.spoolFolder === undefined || !isRefusal(error)) throw error;
      this.#lose(0, error);
      this.#keep(batch);
    });
  }

  async #put(batch: Batch): Promise<void> {
    const { key: Key, body } = batch;
    const Body = Readable.from(inTurns(body), { objectMode: false });
    const put = new PutObjectCommand({ Bucket: this.#settings.bucket, Key, Body, ContentLength: body.length });
    await this.#s3.send(put, { abortSignal: AbortSignal.timeout(PUT_LIMIT_MS) });
    this.#sums.written += linesIn(batch);
  }
}

async function* inTurns(body: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += SLICE) {
    yield body.subarray(at, at + SLICE);
    await turn();
  }
}
