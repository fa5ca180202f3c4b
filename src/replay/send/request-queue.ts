/** Prepared requests in the order of their due times. */
import type { PreparedRequest } from '../request/prepared.ts';
import { Fifo } from './fifo.ts';

export class RequestQueue extends Fifo<PreparedRequest> {
  /** Total size of the waiting requests. */
  bytes = 0;

  override push(request: PreparedRequest): void {
    super.push(request);
    this.bytes += request.wire.length;
  }

  override shift(): PreparedRequest | undefined {
    const request = super.shift();
    if (request) this.bytes -= request.wire.length;
    return request;
  }

  override clear(): void {
    super.clear();
    this.bytes = 0;
  }

  /** A copy of the waiting requests, the next one first. */
  waiting(): PreparedRequest[] {
    return this.items.slice(this.head);
  }

  /** Replaces the encoded form of a request that may still be waiting. */
  replaceWire(request: PreparedRequest, { wire, bodyAt }: { wire: Buffer; bodyAt: number }): void {
    if (wire.length !== request.wire.length && this.items.includes(request, this.head))
      this.bytes += wire.length - request.wire.length;
    request.wire = wire;
    request.bodyAt = bodyAt;
  }

  /** Number of requests that are due until `untilMs`, including those without a time. */
  dueBefore(untilMs: number): number {
    let at = this.head;
    while (at < this.items.length && !((this.items[at]?.dueMs ?? 0) > untilMs)) at++;
    return at - this.head;
  }

  /**
   * The largest number of requests that are due within any `windowMs`, among those due before `untilMs`: the number of
   * connections that are busy at the same time if a reply takes that long.
   */
  peak(windowMs: number, untilMs: number): number {
    let most = 0;
    let from = this.head;
    for (let to = this.head; to < this.items.length; to++) {
      const due = this.items[to]?.dueMs ?? 0;
      if (due > untilMs) break;
      while (due - (this.items[from]?.dueMs ?? 0) > windowMs) from++;
      most = Math.max(most, to - from + 1);
    }
    return most;
  }
}
