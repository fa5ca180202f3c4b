/** Bounds the memory of all calls that run or wait to be written: over the bound, the largest lose their contents. */
import type { Call, Side } from './call.ts';
import type { Settings } from './options.ts';

/** Memory of a call without its contents, of a piece's time, and of a kept piece beside its bytes. */
const OVERHEAD = 2048;
const TIME = 56;
const PIECE = 200;
/** Contents go until this share of the bound is free, so that the largest need not be looked for with each piece. */
const FREED = 1 / 8;

export class Memory {
  used = 0;
  readonly calls = new Set<Call>();
  /** Contents that are not kept. */
  withoutContent = 0;
  readonly #settings: Settings;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /**
   * Copies bytes to a side of a call: the application may change its own afterwards.
   *
   * @param bytes `undefined` if they cannot be read
   * @throws RangeError if there is no room for a new call
   */
  add(call: Call, side: Side, bytes: Uint8Array | undefined): void {
    const most = this.#settings.memoryBytes;
    if (this.used > most && !this.calls.has(call))
      throw new RangeError(`Captures are over their bound; got: ${this.used} bytes; expected: at most ${most}`);
    side.total += bytes?.byteLength ?? 0;
    if (bytes === undefined) this.#leaveOut(side, 'unreadable');
    else if (side.total > this.#settings.maxBodyBytes) this.#leaveOut(side, 'too-large');
    else if (side.left === undefined && bytes.byteLength > 0) {
      const copy = Buffer.allocUnsafeSlow(bytes.byteLength);
      copy.set(bytes);
      side.kept.push(copy);
      side.held += bytes.byteLength + PIECE;
    }
    this.#count(call);
    if (this.used > most && side.kept.length > 0) this.#free(most * (1 - FREED));
  }

  /** Forgets a call, whose stream the application may hold for long. */
  release(call: Call): void {
    call.request.kept = call.reply.kept = [];
    this.used -= call.size;
    this.calls.delete(call);
  }

  #free(most: number): void {
    for (const call of [...this.calls].sort((a, b) => b.size - a.size)) {
      if (this.used <= most) break;
      for (const side of [call.request, call.reply]) if (side.kept.length > 0) this.#leaveOut(side, 'memory');
      call.mostPieces = call.pieces.length;
      this.#count(call);
    }
  }

  #leaveOut(side: Side, why: NonNullable<Side['left']>): void {
    if (side.left !== undefined) return;
    side.left = why;
    side.kept = [];
    side.held = 0;
    this.withoutContent += 1;
  }

  #count(call: Call): void {
    const size = OVERHEAD + call.about.length + TIME * call.pieces.length + call.request.held + call.reply.held;
    this.used += size - call.size;
    call.size = size;
    this.calls.add(call);
  }
}
