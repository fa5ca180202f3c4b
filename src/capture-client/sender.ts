/** Collects finished calls, and writes them to S3 in batches, off the path of the application's requests. */
import { Readable } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { type Batch, batchOf, folderOf } from './batch.ts';
import type { Call, Ended } from './call.ts';
import { type LineFacts, lineOf } from './line.ts';
import { Memory } from './memory.ts';
import { Spool } from './spool.ts';
import type { CaptureStats } from './stats.ts';

export interface SenderOptions extends Omit<LineFacts, 'dropped'> {
  bucket: string;
  prefix: string;
  batchBytes: number;
  batchMs: number;
  memoryBytes: number;
  spoolFolder: string | undefined;
  spoolBytes: number;
}

/** A PUT that takes longer is given up and made again. */
const PUT_LIMIT_MS = 30_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
/** Work on lines between two turns of the application: small parts that are joined, and small calls. */
const JOINED_CHARS = 16 * 1024;
const CALLS_AT_ONCE = 8;

const senders = new Set<Sender>();

export class Sender {
  readonly memory: Memory;
  readonly #open = new Set<Call>();
  readonly #options: SenderOptions;
  readonly #s3: S3Client;
  readonly #spool: Spool | undefined;
  readonly #waiting = new Set<Call>();
  #waitingBytes = 0;
  /** Calls that become the next batch. */
  #encoding: Call[] = [];
  #batch: Batch | undefined;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #failures = 0;
  #hasSpooled: boolean;
  #droppedSinceLine = 0;
  readonly #warned = new Set<string>();
  readonly #sums = {
    written: 0,
    spooled: 0,
    dropped: 0,
    withoutContent: 0,
    lastError: undefined as string | undefined,
  };

  /** @throws Error if the spool folder cannot be made */
  constructor(s3: S3Client, options: SenderOptions) {
    this.#s3 = s3;
    this.#options = options;
    this.memory = new Memory(options.memoryBytes);
    this.#spool = options.spoolFolder === undefined ? undefined : new Spool(options.spoolFolder, options.spoolBytes);
    this.#hasSpooled = this.#spool !== undefined;
    if (senders.size === 0) process.once('exit', () => senders.forEach((sender) => void sender.#end()));
    senders.add(this);
    // Of an earlier process.
    if (this.#hasSpooled) this.#wake(options.batchMs);
  }

  stats(): CaptureStats {
    const waiting = this.#waiting.size + this.#encoding.length + (this.#batch?.lines ?? 0);
    const withoutContent = this.#sums.withoutContent + this.memory.stripped;
    return { open: this.#open.size, waiting, ...this.#sums, withoutContent };
  }

  /** Takes a call whose request was sent. @returns whether there is memory for it */
  begin(call: Call): boolean {
    if (this.memory.isOver) {
      this.#lose(1);
      return false;
    }
    call.keepRequest();
    this.#open.add(call);
    this.memory.count(call);
    return true;
  }

  /** Ends a call. Does nothing if it has ended. */
  end(call: Call, ended: Ended): void {
    if (!this.#open.delete(call)) return;
    call.end(ended);
    this.memory.count(call);
    this.#waiting.add(call);
    this.#waitingBytes += call.held;
    for (const { left } of [call.request, call.reply]) if (left && left !== 'memory') this.#sums.withoutContent += 1;
    if (this.#failures === 0) this.#wake(this.#waitingBytes >= this.#options.batchBytes ? 0 : this.#options.batchMs);
  }

  /** Runs work on a call. An error in it costs the capture, and nothing else. */
  quietly<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#lose(1);
      this.#failed(error);
      return undefined;
    }
  }

  #lose(count: number): void {
    this.#sums.dropped += count;
    this.#droppedSinceLine += count;
  }

  /** Keeps an error for `stats`, and warns of the first of its kind. */
  #failed(error: unknown): void {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    this.#sums.lastError = `${name}: ${message}`.slice(0, 500);
    if (this.#warned.has(name)) return;
    this.#warned.add(name);
    process.emitWarning(`Captures of SageMaker calls are not written: ${this.#sums.lastError}`, 'CaptureWarning');
  }

  /** Tries once to write everything that is finished now. Never throws. */
  async flush(limitMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    // It also keeps the process alive, as nothing else here does.
    const limit = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, limitMs);
    });
    await Promise.race([this.#running?.then(() => this.#run()) ?? this.#run(), limit]);
    clearTimeout(timer);
  }

  /** At the end of the process, when nothing asynchronous runs any more. */
  #end(): void {
    for (const call of this.#open) this.end(call, 'left');
    const batches = this.#batch === undefined ? [] : [this.#batch];
    const calls = [...this.#encoding, ...this.#waiting];
    for (const folder of new Set(calls.map((call) => this.#folderOf(call)))) {
      const own = calls.filter((call) => this.#folderOf(call) === folder);
      const lines = own.flatMap((call) => [...lineOf(call, { ...this.#options, dropped: 0 })]);
      batches.push(batchOf(this.#options.bucket, folder, own, [Buffer.from(lines.join(''))]));
    }
    for (const batch of batches) {
      try {
        this.#spool?.writeSync(batch);
        if (this.#spool === undefined) this.#lose(batch.lines);
        else this.#sums.spooled += batch.lines;
      } catch (error) {
        this.#failed(error);
        this.#lose(batch.lines);
      }
    }
  }

  #folderOf(call: Call): string {
    return folderOf(this.#options.prefix, call);
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
        const isMore = this.#batch !== undefined || this.#waiting.size > 0 || this.#hasSpooled;
        if (isMore) this.#wake(Math.min(wait, LONGEST_WAIT_MS));
      });
    return this.#running;
  }

  #putFailed(error: unknown): void {
    this.#failures += 1;
    this.#failed(error);
  }

  async #sendAll(): Promise<void> {
    if (this.#batch !== undefined) await this.#send(this.#batch);
    for (const call of this.#waiting) await this.#send(await this.#encode(this.#folderOf(call)));
    if (this.#hasSpooled) await this.#sendSpooled();
  }

  /** Makes a batch of the calls that wait for a folder, as many as fit in one. */
  async #encode(folder: string): Promise<Batch> {
    const parts: Buffer[] = [];
    const dropped = this.#droppedSinceLine;
    let bytes = 0;
    const push = (text: string): void => {
      const part = Buffer.from(text);
      parts.push(part);
      bytes += part.length;
    };
    for (const call of this.#waiting) {
      if (bytes >= this.#options.batchBytes) break;
      if (this.#folderOf(call) !== folder) continue;
      this.#waiting.delete(call);
      this.#waitingBytes -= call.held;
      this.#encoding.push(call);
      let small = '';
      for (const part of lineOf(call, { ...this.#options, dropped: parts.length === 0 ? dropped : 0 })) {
        small += part;
        if (small.length < JOINED_CHARS) continue;
        push(small);
        small = '';
        await turn();
      }
      push(small);
      if (this.#encoding.length % CALLS_AT_ONCE === 0) await turn();
    }
    if (this.#waiting.size === 0) this.#waitingBytes = 0;
    this.#droppedSinceLine -= dropped;
    this.#batch = batchOf(this.#options.bucket, folder, this.#encoding, parts);
    for (const call of this.#encoding) this.memory.release(call);
    this.memory.used += this.#batch.bytes;
    this.#encoding = [];
    return this.#batch;
  }

  /** @throws the error of S3 if there is no spool; the batch is kept */
  async #send(batch: Batch): Promise<void> {
    try {
      await this.#put(batch);
    } catch (error) {
      if (this.#spool === undefined) throw error;
      this.#putFailed(error);
      try {
        await this.#spool.write(batch);
        this.#sums.spooled += batch.lines;
        this.#hasSpooled = true;
      } catch (full) {
        this.#failed(full);
        this.#lose(batch.lines);
      }
    }
    this.#batch = undefined;
    this.memory.used -= batch.bytes;
  }

  async #sendSpooled(): Promise<void> {
    for (const file of (await this.#spool?.list()) ?? []) {
      const batch = await this.#spool?.read(file).catch(() => undefined);
      if (batch?.bucket !== this.#options.bucket) continue;
      await this.#put(batch);
      await this.#spool?.remove(file);
    }
    this.#hasSpooled = false;
  }

  async #put({ bucket, key, body, bytes, lines }: Batch): Promise<void> {
    const Body = Readable.from(slicesOf(body), { objectMode: false });
    const put = new PutObjectCommand({ Bucket: bucket, Key: key, Body, ContentLength: bytes });
    await this.#s3.send(put, { abortSignal: AbortSignal.timeout(PUT_LIMIT_MS) });
    this.#failures = 0;
    this.#sums.written += lines;
  }
}

/** The SDK hashes what it sends: a slice at a time, with other work in between. */
async function* slicesOf(body: readonly Buffer[]): AsyncGenerator<Buffer> {
  for (const slice of body) {
    yield slice;
    await turn();
  }
}
