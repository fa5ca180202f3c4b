/** Reads the traces that are being written, many in a request and again before a read is too old to write by it. */
import type { StoredTrace } from './types.ts';

/**
 * A trace is posted at most this long after a read that did not find it: every version from 3.4 on overwrites one that
 * exists, with what people have changed in it. At 40 traces a second, a read for 100 traces lasts for all of them.
 */
const RECENT_MS = 5_000;
/** The request of an older read is made for this many traces, the one that is next and those that follow it. */
const IDS_AT_ONCE = 100;

type Read = (traceIds: readonly string[]) => Promise<ReadonlyMap<string, StoredTrace>>;

export class RecentReads {
  readonly #read: Read;
  readonly #ids: readonly string[];
  readonly #position: ReadonlyMap<string, number>;
  readonly #readAtMs = new Map<string, number>();
  readonly #found = new Map<string, StoredTrace>();
  #reading: Promise<void> | undefined;

  /**
   * @param traceIds in the order in which they are written
   * @param areAbsent whether the caller has just read them, and found none
   */
  constructor(read: Read, traceIds: readonly string[], areAbsent: boolean) {
    this.#read = read;
    this.#ids = traceIds;
    this.#position = new Map(traceIds.map((id, position) => [id, position]));
    if (areAbsent) for (const id of traceIds) this.#readAtMs.set(id, Date.now());
  }

  /** Returns those of the traces that existed at most 5 s ago; `now`: those that exist now. */
  async of(traceIds: readonly string[], now: boolean): Promise<StoredTrace[]> {
    if (now) await this.#readAll(traceIds);
    for (let outdated = this.#outdated(traceIds); outdated !== undefined; outdated = this.#outdated(traceIds)) {
      const from = this.#position.get(outdated) ?? 0;
      this.#reading ??= this.#readAll(this.#ids.slice(from, from + IDS_AT_ONCE)).finally(() => {
        this.#reading = undefined;
      });
      await this.#reading;
    }
    return traceIds.flatMap((id) => this.#found.get(id) ?? []);
  }

  #outdated(traceIds: readonly string[]): string | undefined {
    return traceIds.find((id) => !(Date.now() - (this.#readAtMs.get(id) ?? 0) < RECENT_MS));
  }

  async #readAll(traceIds: readonly string[]): Promise<void> {
    const found = await this.#read(traceIds);
    for (const id of traceIds) {
      const stored = found.get(id);
      if (stored === undefined) this.#found.delete(id);
      else this.#found.set(id, stored);
      this.#readAtMs.set(id, Date.now());
    }
  }
}
