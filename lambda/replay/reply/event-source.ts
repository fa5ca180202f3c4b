/** Server-sent events, incrementally: https://html.spec.whatwg.org/multipage/server-sent-events.html */

const LF = 0x0a;

/** Splits bytes into lines and joins the `data` lines of each event. */
export class EventSourceParser {
  readonly #onEvent: (data: string, name: string) => void;
  #partial: Buffer | undefined;
  #data: string | undefined;
  #name = '';

  /** @param onEvent takes an event's data and its name, which is empty for those that have none */
  constructor(onEvent: (data: string, name: string) => void) {
    this.#onEvent = onEvent;
  }

  feed(bytes: Buffer): void {
    let at = 0;
    for (let newline = bytes.indexOf(LF); newline >= 0; newline = bytes.indexOf(LF, at)) {
      let line = bytes.subarray(at, newline);
      if (this.#partial) {
        line = Buffer.concat([this.#partial, line]);
        this.#partial = undefined;
      }
      at = newline + 1;
      this.#lines(line.toString('utf8'));
    }
    if (at < bytes.length) {
      const rest = Buffer.from(bytes.subarray(at));
      this.#partial = this.#partial ? Buffer.concat([this.#partial, rest]) : rest;
    }
  }

  /** The stream ended: an event without its blank line is still an event for us. */
  end(): void {
    if (this.#partial) this.#lines(this.#partial.toString('utf8'));
    this.#partial = undefined;
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
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    } else if (line.startsWith('event:')) {
      this.#name = line.slice(6).trim();
    }
    // Comments, `id:` and `retry:` carry no part of a reply.
  }

  #dispatch(): void {
    const data = this.#data;
    const name = this.#name;
    this.#data = undefined;
    this.#name = '';
    if (data !== undefined) this.#onEvent(data, name);
  }
}
