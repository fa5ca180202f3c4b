/**
 * Parses HTTP/1.1 responses from a byte stream, one after the other. It is incremental (a response may arrive in any
 * pieces) and does not copy: body bytes are passed on as a range of the received buffer.
 *
 * Why not `node:http`: a replay measures when the first byte arrived, the number of chunks and whether the connection
 * was reused, and it must never send a request twice. At thousands of requests per second, the general client costs four
 * times the processor time and 1.5 times the memory (docs/decisions/0040-replay-http-client.md).
 */

import type { Exchange } from './exchange.ts';

/** The received bytes are not HTTP/1.1. The connection cannot be used any more. */
export class BadResponse extends Error {
  override readonly name = 'BadResponse';
}

/** Receives a response in parts. */
type ResponseSink = Pick<Exchange, 'onHead' | 'onBody' | 'onEnd'>;

/** Node's limit of 16 KB is too close to the headers of SageMaker replies with long custom attributes. */
const MAX_HEAD_BYTES = 64 * 1024;
/** Limit of a chunk-size line: 16 hex digits and extensions. */
const MAX_LINE_BYTES = 4 * 1024;

/** Two line ends, which end a head. */
const HEAD_END_BYTES = 4;
const CR = 0x0d;
const LF = 0x0a;
const STATUS_LINE = /^HTTP\/1\.([01]) (\d{3})(?: (.*))?$/;

type State = 'head' | 'length' | 'chunk-size' | 'chunk-data' | 'chunk-end' | 'trailer' | 'until-close' | 'done';

export class ResponseParser {
  #state: State = 'head';
  /** The incomplete head or line of earlier pieces: the first `#heldBytes` of a buffer that grows by doubling. */
  #held: Buffer = Buffer.alloc(0);
  #heldBytes = 0;
  /** Remaining body bytes, in the states that count them. */
  #left = 0;
  /** Whether the connection may carry another request after this response. */
  keepAlive = true;
  /** Seconds of the server's `Keep-Alive: timeout=`, if it sent one. */
  keepAliveSeconds: number | undefined;

  /** Prepares for the next response. */
  reset(): void {
    this.#state = 'head';
    this.#heldBytes = 0;
    this.#left = 0;
    this.keepAlive = true;
  }

  /**
   * Parses the next bytes.
   *
   * @throws BadResponse
   */
  feed(buffer: Buffer, length: number, sink: ResponseSink): void {
    let at = 0;
    while (at < length) {
      switch (this.#state) {
        case 'head':
          at = this.#readHead(buffer, at, length, sink);
          break;
        case 'length':
        case 'chunk-data': {
          const end = Math.min(length, at + this.#left);
          sink.onBody(buffer, at, end);
          this.#left -= end - at;
          at = end;
          if (this.#left === 0) {
            if (this.#state === 'length') this.#finish(sink);
            else this.#state = 'chunk-end';
          }
          break;
        }
        case 'chunk-size':
        case 'chunk-end':
        case 'trailer':
          at = this.#readLine(buffer, at, length, sink);
          break;
        case 'until-close':
          sink.onBody(buffer, at, length);
          at = length;
          break;
        case 'done':
          throw new BadResponse(`${length - at} bytes after the end of the response`);
      }
    }
  }

  /** Handles the server's close, which may delimit the response. @returns whether the response is complete */
  end(sink: ResponseSink): boolean {
    if (this.#state === 'until-close') this.#finish(sink);
    return this.#state === 'done';
  }

  #finish(sink: ResponseSink): void {
    this.#state = 'done';
    sink.onEnd();
  }

  /** Joins the held bytes with `buffer[at, length)`, without copying the held bytes again. */
  #joined(buffer: Buffer, at: number, length: number): Buffer {
    const before = this.#heldBytes;
    if (before === 0) return buffer.subarray(at, length);
    this.#hold(buffer, at, length);
    return this.#held.subarray(0, this.#heldBytes);
  }

  #hold(buffer: Buffer, at: number, length: number): void {
    const bytes = this.#heldBytes + length - at;
    if (bytes > this.#held.length) {
      const grown = Buffer.allocUnsafe(Math.max(2 * this.#held.length, bytes));
      this.#held.copy(grown, 0, 0, this.#heldBytes);
      this.#held = grown;
    }
    buffer.copy(this.#held, this.#heldBytes, at, length);
    this.#heldBytes = bytes;
  }

  #readHead(buffer: Buffer, at: number, length: number, sink: ResponseSink): number {
    const before = this.#heldBytes;
    const text = this.#joined(buffer, at, length);
    // If the held bytes do not contain the end, it can start at the earliest in the last of them.
    const end = headEnd(text, Math.max(0, before - HEAD_END_BYTES));
    if (end < 0) {
      if (text.length > MAX_HEAD_BYTES) throw new BadResponse(`response headers of more than ${MAX_HEAD_BYTES} bytes`);
      if (before === 0) this.#hold(buffer, at, length);
      return length;
    }
    this.#heldBytes = 0;
    this.#parseHead(text.toString('latin1', 0, end), sink);
    return at + end - before;
  }

  #parseHead(text: string, sink: ResponseSink): void {
    const lines = text.split(/\r?\n/);
    // Ignore empty lines before the status line.
    const first = lines.findIndex((line) => line !== '');
    if (first < 0) return;
    const line = lines[first] ?? '';
    const status = STATUS_LINE.exec(line);
    if (!status) throw new BadResponse(`not an HTTP/1.1 status line: ${JSON.stringify(line.slice(0, 80))}`);
    const code = Number(status[2]);
    const headers = new Map<string, string>();
    for (let i = first + 1; i < lines.length; i++) {
      const header = lines[i] ?? '';
      const colon = header.indexOf(':');
      if (colon <= 0) continue;
      const name = header.slice(0, colon).toLowerCase();
      // Parsers disagree about such a header, so the end of the reply would be a guess (RFC 9112, 5.1).
      if (name.endsWith(' ') || name.endsWith('\t'))
        throw new BadResponse('white space between a header’s name and its colon');
      const value = header.slice(colon + 1).trim();
      const other = headers.get(name);
      headers.set(name, other === undefined ? value : `${other}, ${value}`);
    }
    // 1xx responses are interim: the final response follows.
    if (code < 200) {
      if (code === 101) throw new BadResponse('the server switched protocols');
      return;
    }
    this.#frame(code, status[1] === '1', headers);
    sink.onHead(code, headers, status[3] ?? '');
    if (this.#state === 'done') sink.onEnd();
  }

  /** Decides how the body is delimited (RFC 9112, section 6.3). */
  #frame(status: number, http11: boolean, headers: Map<string, string>): void {
    const connection = headers.get('connection')?.toLowerCase() ?? '';
    this.keepAlive = http11 ? !connection.includes('close') : connection.includes('keep-alive');
    const hint = /timeout=(\d+)/.exec(headers.get('keep-alive') ?? '')?.[1];
    if (hint !== undefined) this.keepAliveSeconds = Number(hint);

    const codings = headers.get('transfer-encoding')?.toLowerCase().split(',');
    const encoding = codings
      ?.map((one) => one.trim())
      .filter((one) => one !== 'identity')
      .at(-1);
    const announced = headers.get('content-length');
    if (status === 204 || status === 304) {
      this.#state = 'done';
    } else if (encoding === 'chunked') {
      this.#state = 'chunk-size';
    } else if (announced !== undefined && encoding === undefined) {
      // Repeating the same length is allowed.
      const lengths = new Set(announced.split(',').map((value) => value.trim()));
      const [value = ''] = lengths;
      if (lengths.size !== 1 || !/^\d+$/.test(value)) throw new BadResponse(`content-length is ${announced}`);
      this.#left = Number(value);
      this.#state = this.#left === 0 ? 'done' : 'length';
    } else {
      this.keepAlive = false;
      this.#state = 'until-close';
    }
  }

  #readLine(buffer: Buffer, at: number, length: number, sink: ResponseSink): number {
    const newline = buffer.indexOf(LF, at);
    const complete = newline >= 0 && newline < length;
    const limit = this.#state === 'trailer' ? MAX_HEAD_BYTES : MAX_LINE_BYTES;
    if (this.#heldBytes + (complete ? newline : length) - at > limit)
      throw new BadResponse(`a line of more than ${limit} bytes`);
    if (!complete) {
      this.#hold(buffer, at, length);
      return length;
    }
    const line = this.#joined(buffer, at, newline);
    this.#heldBytes = 0;
    const end = line.length > 0 && line[line.length - 1] === CR ? line.length - 1 : line.length;
    this.#parseLine(line.toString('latin1', 0, end), sink);
    return newline + 1;
  }

  #parseLine(line: string, sink: ResponseSink): void {
    if (this.#state === 'chunk-end') {
      if (line !== '') throw new BadResponse('a chunk is longer than it announced');
      this.#state = 'chunk-size';
    } else if (this.#state === 'trailer') {
      if (line === '') this.#finish(sink);
    } else {
      // Some servers write all 16 digits of a size.
      const size = /^\s*([0-9a-fA-F]{1,16})\s*(?:;.*)?$/.exec(line)?.[1];
      if (size === undefined || !Number.isSafeInteger(Number.parseInt(size, 16)))
        throw new BadResponse(`not a chunk size: ${JSON.stringify(line.slice(0, 40))}`);
      this.#left = Number.parseInt(size, 16);
      this.#state = this.#left === 0 ? 'trailer' : 'chunk-data';
    }
  }
}

/** Finds the blank line that ends a head. @returns the offset after it; -1 if it is missing. Bare line feeds are accepted. */
function headEnd(text: Buffer, from: number): number {
  for (let newline = text.indexOf(LF, from); newline >= 0; newline = text.indexOf(LF, newline + 1)) {
    if (text[newline + 1] === LF) return newline + 2;
    if (text[newline + 1] === CR && text[newline + 2] === LF) return newline + 3;
  }
  return -1;
}
