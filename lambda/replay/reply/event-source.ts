/** Server-sent events, incrementally: https://html.spec.whatwg.org/multipage/server-sent-events.html */

const LF = 0x0a;

/** Splits bytes into lines and joins the `data` lines of each event. */
export class EventSourceParser {
  readonly #onEvent: (data: string) => void;
  #partial: Buffer | undefined;
  #data: string | undefined;

  constructor(onEvent: (data: string) => void) {
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
      this.#line(line.toString('utf8'));
    }
    if (at < bytes.length) {
      const rest = Buffer.from(bytes.subarray(at));
      this.#partial = this.#partial ? Buffer.concat([this.#partial, rest]) : rest;
    }
  }

  /** The stream ended: an event without its blank line is still an event for us. */
  end(): void {
    if (this.#partial) this.#line(this.#partial.toString('utf8'));
    this.#partial = undefined;
    this.#dispatch();
  }

  #line(text: string): void {
    const line = text.endsWith('\r') ? text.slice(0, -1) : text;
    if (line === '') {
      this.#dispatch();
    } else if (line.startsWith('data:')) {
      const value = line.charCodeAt(5) === 0x20 ? line.slice(6) : line.slice(5);
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    }
    // Comments, `event:`, `id:` and `retry:` carry no part of a reply.
  }

  #dispatch(): void {
    if (this.#data === undefined) return;
    const data = this.#data;
    this.#data = undefined;
    this.#onEvent(data);
  }
}
