/** Combines single reads of traces into requests for many. */

import { Semaphore } from '../shared/concurrency.ts';
import type { CapabilityProbe } from './capabilities.ts';
import { readTraces } from './read-traces.ts';
import type { MlflowRest } from './rest.ts';
import type { StoredTrace } from './types.ts';

/**
 * Reads within this time share a request, and those that arrive while it is in flight share the next one. The delay is short
 * compared with a judge's answer, which takes seconds.
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

  /** Returns the current trace; `undefined` if it does not exist. */
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
