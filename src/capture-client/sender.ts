/** Collects calls that have ended, and writes them to S3 in batches, off the path of the application's requests. */
import { Readable } from 'node:stream';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { type Batch, folderOf, keyIn } from './batch.ts';
import type { Call, Ended } from './call.ts';
import { lineOf } from './line.ts';
import { Memory } from './memory.ts';
import type { Settings } from './options.ts';
import { Spool } from './spool.ts';
import type { CaptureStats } from './stats.ts';

/** A PUT that takes longer is given up and made again. */
const PUT_LIMIT_MS = 30_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
/** Text that is made between two turns of the application. */
const CHARS_AT_ONCE = 16 * 1024;

const senders = new Set<Sender>();

export class Sender {
  readonly memory: Memory;
  readonly #options: Settings;
  readonly #s3: S3Client;
  readonly #spool: Spool | undefined;
  /** Of calls that have ended since the last batch. */
  #waitingBytes = 0;
  /** It is being written, or could not be. */
  #batch: Batch | undefined;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #failures = 0;
  #droppedSinceLine = 0;
  readonly #warned = new Set<string>();
  readonly #sums = { written: 0, spooled: 0, dropped: 0, withoutContent: 0 };
  #lastError: string | undefined;

  /** @throws Error if the spool folder cannot be made */
  constructor(s3: S3Client, options: Settings) {
    this.#s3 = s3;
    this.#options = options;
    this.memory = new Memory(options.memoryBytes);
    this.#spool = options.spoolFolder === undefined ? undefined : new Spool(options.spoolFolder, options.spoolBytes);
    if (senders.size === 0) process.once('exit', () => senders.forEach((sender) => void sender.#end()));
    senders.add(this);
    // Of an earlier process.
    if (this.#spool !== undefined) this.#wake(options.batchMs);
  }

  stats(): CaptureStats {
    const waiting = this.memory.calls(true).length + (this.#batch?.lines ?? 0);
    const withoutContent = this.#sums.withoutContent + this.memory.stripped;
    return {
      open: this.memory.calls(false).length,
      waiting,
      ...this.#sums,
      withoutContent,
      lastError: this.#lastError,
    };
  }

  /** Takes a call whose request was sent. @returns whether there is memory for it */
  begin(call: Call): boolean {
    if (this.memory.isOver) {
      this.#lose(1);
      return false;
    }
    call.keepRequest();
    this.memory.count(call);
    return true;
  }

  /** Takes a piece of a stream. */
  took(call: Call, bytes: Uint8Array): void {
    call.piece(bytes);
    this.memory.count(call);
  }

  /** Ends a call. Does nothing if it has ended. */
  end(call: Call, ended: Ended): void {
    if (call.client.ended !== undefined) return;
    call.end(ended);
    this.memory.count(call);
    this.#waitingBytes += call.held;
    for (const { left } of [call.request, call.reply]) if (left && left !== 'memory') this.#sums.withoutContent += 1;
    if (this.#failures === 0) this.#wake(this.#waitingBytes >= this.#options.batchBytes ? 0 : this.#options.batchMs);
  }

  /** Runs work on a call. An error in it costs the capture, and nothing else. */
  quietly<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#lose(1, error);
      return undefined;
    }
  }

  /** Counts captures that are lost. Keeps an error for `stats`, and warns of the first of its kind. */
  #lose(count: number, error?: unknown): void {
    this.#sums.dropped += count;
    this.#droppedSinceLine += count;
    if (error === undefined) return;
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    this.#lastError = `${name}: ${message}`.slice(0, 500);
    if (this.#warned.has(name)) return;
    this.#warned.add(name);
    process.emitWarning(`Captures of SageMaker calls are not written: ${this.#lastError}`, 'CaptureWarning');
  }

  /** Tries once to write everything that is finished now. Never throws. */
  async flush(limitMs: number): Promise<CaptureStats> {
    const done = new AbortController();
    // It also keeps the process alive, as nothing else here does.
    const limit = sleep(limitMs, undefined, { signal: done.signal }).catch(() => {});
    await Promise.race([this.#running?.then(() => this.#run()) ?? this.#run(), limit]);
    done.abort();
    return this.stats();
  }

  /** At the end of the process, when nothing asynchronous runs any more. */
  #end(): void {
    for (const call of this.memory.calls(false)) this.end(call, 'left');
    for (const batch of this.#batches()) if (batch !== undefined) this.#spoolOrLose(batch);
  }

  #wake(afterMs: number): void {
    if (this.#running !== undefined || (this.#timer !== undefined && afterMs > 0)) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#run(), afterMs).unref();
  }

  #run(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#running ??= this.#sendAll()
      .catch((error: unknown) => this.#putFailed(error))
      .finally(() => {
        this.#running = undefined;
        const wait = this.#failures === 0 ? this.#options.batchMs : FIRST_WAIT_MS * 2 ** (this.#failures - 1);
        const isMore = this.#batch !== undefined || this.memory.calls(true).length > 0 || this.#spool !== undefined;
        if (isMore) this.#wake(Math.min(wait, LONGEST_WAIT_MS));
      });
    return this.#running;
  }

  #putFailed(error: unknown): void {
    this.#failures += 1;
    this.#lose(0, error);
  }

  async #sendAll(): Promise<void> {
    for (const batch of this.#batches()) await (batch === undefined ? turn() : this.#send(batch));
    await this.#sendSpooled();
  }

  /** Yields the batch that could not be written, and batches of the calls that wait; `undefined` between pieces of the work. */
  *#batches(): Generator<Batch | undefined> {
    if (this.#batch !== undefined) yield this.#batch;
    for (let calls = this.memory.calls(true); calls.length > 0; calls = this.memory.calls(true)) {
      yield* this.#encode(calls);
    }
  }

  /** Makes a batch of the calls with the folder of the first, as many as fit in one. */
  *#encode([first, ...others]: Call[]): Generator<Batch | undefined> {
    if (first === undefined) return;
    const { bucket, batchBytes, prefix } = this.#options;
    const folder = folderOf(prefix, first);
    const dropped = this.#droppedSinceLine;
    const calls: Call[] = [];
    const body: Buffer[] = [];
    let [bytes, text] = [0, ''];
    const push = () => {
      bytes += body[body.push(Buffer.from(text)) - 1]?.length ?? 0;
      text = '';
    };
    for (const call of [first, ...others]) {
      if (bytes >= batchBytes) break;
      if (folderOf(prefix, call) !== folder) continue;
      for (const part of lineOf(call, this.#options, call === first ? dropped : 0)) {
        text += part;
        if (text.length < CHARS_AT_ONCE) continue;
        push();
        yield undefined;
      }
      calls.push(call);
    }
    push();
    // Until here the calls still wait: the end of the process would write them.
    this.#batch = { bucket, key: keyIn(folder, first.startMs), body, bytes, lines: calls.length };
    for (const call of calls) this.memory.release(call);
    this.memory.used += bytes;
    this.#waitingBytes = 0;
    this.#droppedSinceLine -= dropped;
    yield this.#batch;
  }

  /** @throws the error of S3 if there is no spool; the batch is kept */
  async #send(batch: Batch): Promise<void> {
    try {
      await this.#put(batch);
    } catch (error) {
      if (this.#spool === undefined) throw error;
      this.#putFailed(error);
      this.#spoolOrLose(batch);
    }
    this.#batch = undefined;
    this.memory.used -= batch.bytes;
  }

  #spoolOrLose(batch: Batch): void {
    try {
      this.#spool?.write(batch);
      if (this.#spool === undefined) this.#lose(batch.lines);
      else this.#sums.spooled += batch.lines;
    } catch (error) {
      this.#lose(batch.lines, error);
    }
  }

  async #sendSpooled(): Promise<void> {
    for (const file of this.#spool?.list() ?? []) {
      const batch = this.#spool?.read(file);
      if (batch?.bucket !== this.#options.bucket) continue;
      await this.#put(batch);
      this.#spool?.remove(file);
    }
  }

  async #put({ bucket, key, body, bytes, lines }: Batch): Promise<void> {
    const Body = Readable.from(inTurns(body), { objectMode: false });
    const put = new PutObjectCommand({ Bucket: bucket, Key: key, Body, ContentLength: bytes });
    await this.#s3.send(put, { abortSignal: AbortSignal.timeout(PUT_LIMIT_MS) });
    this.#failures = 0;
    this.#sums.written += lines;
  }
}

/** The SDK hashes what it sends: a slice at a time, with other work in between. */
async function* inTurns(body: readonly Buffer[]): AsyncGenerator<Buffer> {
  for (const slice of body) {
    yield slice;
    await turn();
  }
}
