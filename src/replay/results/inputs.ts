/** `inputs.json`: the requests as they were sent, by conversation and turn, as AIPerf lays them out. */
import { once } from 'node:events';
import { createReadStream, createWriteStream, type WriteStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import type { PreparedRequest } from '../request/prepared.ts';
import type { Turn } from '../request/sessions.ts';
import { scanFile } from '../source/lines.ts';
import { LineWriter } from './line-writer.ts';

/** Above this the file would be gigabytes that no reader of it can hold; the requests themselves are in the captures. */
export const MAX_INPUTS = 1_000_000;
/** Bytes that wait for the disk. */
const MAX_BACKLOG = 16 * 1024 * 1024;
const BACKLOG_WAIT_MS = 5;
const OUTPUT_BUFFER = 1024 * 1024;

/** A body that is no JSON object is wrapped: AIPerf's model takes objects only. */
export function payloadJson(request: PreparedRequest): string {
  const body = request.wire.subarray(request.bodyAt);
  const text = body.toString('utf8');
  // Kept as it is, but on one line, since it is spooled by lines: line breaks stand between JSON's tokens only.
  if (request.isJson) return text.replace(/[\r\n]+/g, ' ');
  const isText = Buffer.from(text, 'utf8').equals(body);
  return JSON.stringify({
    content_type: request.contentType,
    ...(isText ? { text } : { base64: body.toString('base64') }),
  });
}

/** Spools payloads as they are prepared, and puts the turns of each conversation together at the end. */
export class InputsFile {
  readonly #path: string;
  readonly #spool: LineWriter;
  /** Conversation of each spooled line. */
  #sessions: number[] = [];
  #multiTurn = false;
  skipped = 0;

  constructor(path: string) {
    this.#path = path;
    // A disk that has no room for it is left to the files that hold what was measured.
    this.#spool = new LineWriter(`${path}.spool`, () => void this.discard());
  }

  /** Deletes what was spooled, where `finish` is not reached. */
  async discard(): Promise<void> {
    await this.#spool.close().catch(() => {});
    await rm(this.#spool.path, { force: true });
  }

  add(request: PreparedRequest): void {
    if (this.#spool.error) return;
    if (this.#sessions.length >= MAX_INPUTS) {
      this.skipped++;
      return;
    }
    this.addPayload(request.turn, payloadJson(request));
  }

  /** @param payload one line of JSON */
  addPayload({ session, turnIndex, conversationId }: Turn, payload: string): void {
    this.#sessions.push(session);
    this.#multiTurn ||= turnIndex > 0;
    this.#spool.write(`${JSON.stringify(conversationId)}\t${payload}`);
  }

  /** Resolves when the disk has taken most of what was added, for those that add faster than it takes. */
  async room(): Promise<void> {
    while (!this.#spool.error && this.#spool.backlog > MAX_BACKLOG)
      await new Promise((resolve) => setTimeout(resolve, BACKLOG_WAIT_MS));
  }

  /**
   * @param sent of what was added, the first that belong into the file
   * @returns why the file was left out, in words
   */
  async finish(sent = Number.POSITIVE_INFINITY): Promise<string | undefined> {
    try {
      await this.#spool.close();
      if (this.skipped > 0 && sent > MAX_INPUTS) return 'more requests than inputs.json can hold';
      this.#sessions = this.#sessions.slice(0, sent);
      const out = new OutputFile(this.#path);
      await out.write('{"data":[');
      if (this.#multiTurn) await this.#writeGrouped(out);
      else await this.#writeInOrder(out);
      await out.write(']}\n');
      await out.end();
      return undefined;
    } catch (error) {
      // It tells nothing that the captures do not: a part of it would be no JSON, and take the room of other files.
      await rm(this.#path, { force: true });
      return (error as Error).message;
    } finally {
      await rm(this.#spool.path, { force: true });
    }
  }

  async #writeInOrder(out: OutputFile): Promise<void> {
    let first = true;
    let left = this.#sessions.length;
    // Not by Node's readline: it reads the whole file ahead of a disk that is slower than it.
    for await (const { bytes, length } of scanFile(this.#spool.path)) {
      if (left-- === 0) break;
      if (!bytes) throw new Error(`A request of ${length} bytes is too long for inputs.json`);
      const line = bytes.toString('utf8');
      const tab = line.indexOf('\t');
      await out.write(`${first ? '' : ','}{"session_id":${line.slice(0, tab)},"payloads":[${line.slice(tab + 1)}]}`);
      first = false;
    }
  }

  /** Lines of a conversation lie apart in the spool: they are read by their place. */
  async #writeGrouped(out: OutputFile): Promise<void> {
    const places = await linePlaces(this.#spool.path, this.#sessions.length);
    const order = Uint32Array.from(this.#sessions.keys()).sort(
      (a, b) => (this.#sessions[a] ?? 0) - (this.#sessions[b] ?? 0) || a - b,
    );
    const file = await open(this.#spool.path, 'r');
    try {
      let session = -1;
      for (const at of order) {
        const start = places[at] ?? 0;
        const bytes = Buffer.alloc((places[at + 1] ?? 0) - start - 1);
        await file.read(bytes, 0, bytes.length, start);
        const line = bytes.toString('utf8');
        const tab = line.indexOf('\t');
        const own = this.#sessions[at] ?? 0;
        const opening =
          own === session ? ',' : `${session === -1 ? '' : ']},'}{"session_id":${line.slice(0, tab)},"payloads":[`;
        session = own;
        await out.write(opening + line.slice(tab + 1));
      }
      if (session !== -1) await out.write(']}');
    } finally {
      await file.close();
    }
  }
}

/** A file that is written as fast as the disk takes it; a full one is an error of the next write. */
class OutputFile {
  readonly #stream: WriteStream;
  readonly #done: Promise<void>;

  constructor(path: string) {
    this.#stream = createWriteStream(path, { highWaterMark: OUTPUT_BUFFER });
    this.#done = finished(this.#stream);
    // Thrown where it is awaited.
    this.#done.catch(() => {});
  }

  async write(text: string): Promise<void> {
    if (!this.#stream.write(text)) await Promise.race([once(this.#stream, 'drain'), this.#done]);
  }

  async end(): Promise<void> {
    this.#stream.end();
    await this.#done;
  }
}

/** Offsets of the lines, and of the end of the last one. */
async function linePlaces(path: string, lines: number): Promise<Float64Array> {
  const places = new Float64Array(lines + 1);
  let line = 1;
  let at = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
    const bytes = chunk as Buffer;
    for (let newline = bytes.indexOf(10); newline >= 0; newline = bytes.indexOf(10, newline + 1)) {
      places[line++] = at + newline + 1;
    }
    at += bytes.length;
  }
  return places;
}
