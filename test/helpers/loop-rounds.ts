/** Counts the rounds of the event loop. */
export class LoopRounds {
  now = 0;
  #next = setImmediate(() => this.#count());

  #count(): void {
    this.now += 1;
    this.#next = setImmediate(() => this.#count());
  }

  stop(): void {
    clearImmediate(this.#next);
  }
}
