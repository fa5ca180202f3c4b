/** Server-sent events, incrementally: https://html.spec.whatwg.org/multipage/server-sent-events.html */

import { MAX_KEPT_BYTES } from '../http/exchange.ts';
import { LineSplitter } from './line-splitter.ts';

/** Splits bytes into lines and joins the `data` lines of each event. */
export class EventSourceParser {
  readonly #onEvent: (data: string, name: string) => void;
  readonly #onTooLong: () => void;
  readonly #splitter: LineSplitter;
  #data: string[] = [];
  #dataLength = 0;
  #name = '';

  /**
   * @param onEvent takes an event's data and its name, which is empty for those that have none
   * @param onTooLong called for an event that is longer than what is kept
   */
  constructor(onEvent: (data: string, name: string) => void, onTooLong: () => void = () => {}) {
    this.#onEvent = onEvent;
    this.#onTooLong = onTooLong;
    this.#splitter = new LineSplitter((line) => this.#lines(line), onTooLong);
  }

  feed(bytes: Buffer): void {
    this.#splitter.feed(bytes);
  }

  /** The stream ended: an event without its blank line is still an event for us. */
  end(): void {
    this.#splitter.end();
    this.#dispatch();
  }

  /** One line, or several of a server that ends them with carriage returns alone. */
  #lines(text: string): void {
    const line = text.endsWith('\r') ? text.slice(0, -1) : text;
    if (line.includes('\r')) for (const one of line.split('\r')) this.#line(one);
    else this.#line(line);
  }

  #line(line: string): void {
    if (line === '') {
      this.#dispatch();
    } else if (line.startsWith('data:')) {
      const value = line.charCodeAt(5) === 0x20 ? line.slice(6) : line.slice(5);
      this.#dataLength += value.length;
      if (this.#dataLength > MAX_KEPT_BYTES) this.#data = [];
      this.#data.push(value);
    } else if (line.startsWith('event:')) {
      this.#name = line.slice(6).trim();
    }
    // Comments, `id:` and `retry:` carry no part of a reply.
  }

  #dispatch(): void {
    const [data, length, name] = [this.#data, this.#dataLength, this.#name];
    this.#data = [];
    this.#dataLength = 0;
    this.#name = '';
    if (length > MAX_KEPT_BYTES) this.#onTooLong();
    else if (data.length > 0) this.#onEvent(data.join('\n'), name);
  }
}
