/**
 * Makes control traces: valid traces that are written to check whether the server accepts any, and then deleted. Their name
 * and a tag explain what they are, in case the process ends before it has deleted them.
 */
import { randomBytes } from 'node:crypto';
import type { TraceRecord } from '../captures/trace/types.ts';
import { deleteTraces } from './delete-traces.ts';
import type { MlflowRest } from './rest.ts';
import type { Experiment } from './types.ts';

const NAME = 'write check of the inference monitor, may be deleted';
/** If every second request fails, 16 in a row fail in 1 of 65,000 cases. The waits are 14 s at most. */
const DELETE_RETRY = { attempts: 16, capMs: 1_000 };

export class ControlTraces {
  readonly #rest: MlflowRest;
  readonly #experiment: Experiment;
  #made: string[] = [];

  constructor(rest: MlflowRest, experiment: Experiment) {
    this.#rest = rest;
    this.#experiment = experiment;
  }

  /** Returns a new control trace. It counts as written, whatever the outcome of the request. */
  make(): TraceRecord {
    const digits = randomBytes(24).toString('hex');
    const traceId = `tr-${digits.slice(0, 32)}`;
    this.#made.push(traceId);
    const now = Date.now();
    const time = { startTimeMs: now, endTimeMs: now };
    return {
      traceId,
      name: NAME,
      ...time,
      state: 'OK',
      requestPreview: '',
      responsePreview: '',
      tags: { write_check: 'true' },
      spans: [
        {
          spanId: digits.slice(32, 48),
          name: NAME,
          spanType: 'UNKNOWN',
          ...time,
          attributes: {},
          status: { code: 'OK' },
        },
      ],
    };
  }

  /** Deletes all control traces. */
  async remove(): Promise<void> {
    const { retry } = this.#rest;
    const patient = { ...retry, ...DELETE_RETRY, capMs: Math.min(retry.capMs, DELETE_RETRY.capMs) };
    await deleteTraces(this.#rest, this.#experiment.id, this.#made, patient);
    this.#made = [];
  }
}
