/** Reads traces one by one for the caller, and together for the server. */

import { Semaphore } from '../shared/concurrency.ts';
import type { CapabilityProbe } from './capabilities.ts';
import { readTraces } from './read-traces.ts';
import type { MlflowRest } from './rest.ts';
import type { StoredTrace } from './types.ts';

/**
 * Reads that are asked for within this time go in one request, and those that are asked for while it is under way go in
 * the next one. It is little beside a judge's answer, seconds away.
 */
const GATHER_MS = 5;

interface Waiting {
  traceId: string;
  resolve: (trace: StoredTrace | undefined) => void;
  reject: (error: unknown) => void;
}

export class FreshReads {
  readonly #rest: MlflowRest;
  readonly #probe: CapabilityProbe;
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #slot = new Semaphore(1);

  constructor(rest: MlflowRest, probe: CapabilityProbe) {
    this.#rest = rest;
    this.#probe = probe;
  }

  /** The trace as it is now; `undefined` when it does not exist. */
  read(experimentId: string, traceId: string): Promise<StoredTrace | undefined> {
    return new Promise((resolve, reject) => {
      const waiting = { traceId, resolve, reject };
      const others = this.#waiting.get(experimentId);
      if (others) {
        others.push(waiting);
        return;
      }
      this.#waiting.set(experimentId, [waiting]);
      setTimeout(() => this.#slot.run(() => this.#readAll(experimentId)), GATHER_MS);
    });
  }

  async #readAll(experimentId: string): Promise<void> {
    const waiting = this.#waiting.get(experimentId) ?? [];
    this.#waiting.delete(experimentId);
    try {
      const ids = waiting.map(({ traceId }) => traceId);
      const traces = await readTraces(this.#rest, this.#probe, experimentId, ids);
      for (const { traceId, resolve } of waiting) resolve(traces.get(traceId));
    } catch (error) {
      for (const { reject } of waiting) reject(error);
    }
  }
}
