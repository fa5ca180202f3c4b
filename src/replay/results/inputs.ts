/** Writes `inputs.json`: the requests as sent, by conversation and turn, in AIPerf's layout. */
import { isUtf8 } from 'node:buffer';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { PreparedRequest } from '../request/preparer.ts';
import type { Turn } from '../request/sessions.ts';
import { scanFile } from '../source/lines.ts';
import { LineWriter } from './line-writer.ts';

/** A larger file would have gigabytes, more than its readers can load. The captures contain the same requests. */
export const MAX_INPUTS = 1_000_000;
/** The most bytes that wait for the disk. */
const MAX_BACKLOG = 16 * 1024 * 1024;
const BACKLOG_WAIT_MS = 5;
const OUTPUT_BUFFER = 1024 * 1024;

/** Returns the body as one line of JSON. A body that is not a JSON object is wrapped, since AIPerf accepts only objects. */
export function payloadJson(request: PreparedRequest): string {
  const body = request.wire.subarray(request.bodyAt);
  const text = body.toString('utf8');
  // Line breaks in JSON occur only between tokens, so they can be replaced.
  if (request.isJson) return text.replace(/[\r\n]+/g, ' ');
  const wrapped = isUtf8(body) ? { text } : { base64: body.toString('base64') };
  return JSON.stringify({ content_type: request.contentType, ...wrapped });
}

/** Spools the payloads when they are prepared, and groups the turns of each conversation at the end. */
export class InputsFile {
  readonly #path: string;
  readonly #spool: LineWriter;
  /** Conversation of each spooled line. */
  #sessions: number[] = [];
  #multiTurn = false;
  skipped = 0;

  constructor(path: string) {
    this.#path = path;
    // A full disk is left to the files with measurements.
    this.#spool = new LineWriter(`${path}.spool`, () => void this.discard());
  }

  /** Deletes the spool if `finish` will not be called. */
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

  /** Applies backpressure: resolves when most of the added bytes are written. */
  async room(): Promise<void> {
    while (!this.#spool.error && this.#spool.backlog > MAX_BACKLOG)
      await new Promise((resolve) => setTimeout(resolve, BACKLOG_WAIT_MS));
  }

  /**
   * @param sent number of the first added requests that belong in the file
   * @returns why the file was left out; `undefined` if it was written
   */
  async finish(sent = Number.POSITIVE_INFINITY): Promise<string | undefined> {
    try {
      await this.#spool.close();
      if (this.skipped > 0 && sent > MAX_INPUTS) return 'more requests than inputs.json can contain';
      this.#sessions = this.#sessions.slice(0, sent);
      await pipeline(this.#content(), createWriteStream(this.#path, { highWaterMark: OUTPUT_BUFFER }));
      return undefined;
    } catch (error) {
      // The captures contain the same requests. A part of the file would be invalid JSON and take space from other files.
      await rm(this.#path, { force: true });
      return (error as Error).message;
    } finally {
      await rm(this.#spool.path, { force: true });
    }
  }

  async *#content(): AsyncGenerator<string> {
    yield '{"data":[';
    yield* this.#multiTurn ? this.#grouped() : this.#inOrder();
    yield ']}\n';
  }

  async *#inOrder(): AsyncGenerator<string> {
    let first = true;
    let left = this.#sessions.length;
    // Node's readline would read the whole file ahead of a slower disk.
    for await (const { bytes, length } of scanFile(this.#spool.path)) {
      if (left-- === 0) break;
      if (!bytes) throw new Error(`A request of ${length} bytes is too long for inputs.json`);
      const [id, payload] = spooled(bytes);
      yield `${first ? '' : ','}{"session_id":${id},"payloads":[${payload}]}`;
      first = false;
    }
  }

  /** The lines of a conversation are not adjacent in the spool, so they are read by their positions. */
  async *#grouped(): AsyncGenerator<string> {
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
        const [id, payload] = spooled(bytes);
        const own = this.#sessions[at] ?? 0;
        const opening = own === session ? ',' : `${session === -1 ? '' : ']},'}{"session_id":${id},"payloads":[`;
        session = own;
        yield opening + payload;
      }
      if (session !== -1) yield ']}';
    } finally {
      await file.close();
    }
  }
}

/** Splits a line of the spool into the conversation id, as JSON, and the payload. */
function spooled(bytes: Buffer): [id: string, payload: string] {
  const line = bytes.toString('utf8');
  const tab = line.indexOf('\t');
  return [line.slice(0, tab), line.slice(tab + 1)];
}

/** Returns the offsets of the lines, and of the end of the last one. */
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
