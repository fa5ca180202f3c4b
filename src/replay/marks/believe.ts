/**
 * Identifies captures of replayed requests. Callers of the endpoint choose the inference id and the attributes, and
 * could disguise their requests as a replay. Only ids with a registration in the work bucket are therefore accepted.
 */

import { hash, randomBytes } from 'node:crypto';
import type { RecordFacts } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import { markKeys } from '../../core/contract/work-keys.ts';

/** How long after its registration an id is accepted, by the time of the capture. */
const BELIEVED_MS = 24 * 3_600_000;
/** Maximum number of registrations to look up for a chunk or a file. It bounds the cost of made-up ids. */
const MOST_LOOK_UPS = 10;

/** A request that may be one of a replay. Its time is NaN if the capture has none. */
export type MarkedRequest = Pick<RecordFacts, 'capturedInferenceId' | 'inferenceTimeMs'>;

/** Looks up the registrations named in the captures of one chunk or file. */
export class Marks {
  readonly #storage: Storage;
  readonly #bucket: string;
  readonly #known = new Map<string, Promise<Partial<Mark> | undefined>>();

  constructor(storage: Storage, workBucket: string) {
    this.#storage = storage;
    this.#bucket = workBucket;
  }

  /** Returns the run of the replay that sent the request. Returns `undefined` if the request counts as traffic. */
  async runOf({ capturedInferenceId: inferenceId, inferenceTimeMs }: MarkedRequest): Promise<string | undefined> {
    const id = inferenceId === undefined ? undefined : markOf(inferenceId);
    if (id === undefined) return undefined;
    if (!this.#known.has(id)) {
      if (this.#known.size >= MOST_LOOK_UPS) return undefined;
      this.#known.set(id, this.#storage.getJson(this.#bucket, markKeys.mark(id)));
    }
    const { run, atMs = Number.NaN } = (await this.#known.get(id)) ?? {};
    return inferenceTimeMs <= atMs + BELIEVED_MS ? run : undefined;
  }
}

// ---------------------------------------------------------------------------- inference ids of a replay's requests
// The captures have them, and name by them the registration of the replay.

export const REPLAY_ID_PREFIX = 'replay-';
const FORM = new RegExp(`^${REPLAY_ID_PREFIX}(?<mark>[0-9a-f]{16})[0-9a-f]{32}$`);

/**
 * Derives the inference id of a request: the registration, and 32 hex digits of SHA-256 over the run, the event id and, from the
 * second pass on, the pass.
 *
 * @param mark the id of the registration; empty if the replay is not registered
 */
export const replayInferenceId = (mark: string, run: string, eventKey: string, pass: number): string =>
  `${REPLAY_ID_PREFIX}${mark}${hash('sha256', pass === 0 ? `${run}\n${eventKey}` : `${run}\n${eventKey}\n${pass}`).slice(0, 32)}`;

/** Whether an inference id has the form of an id of a registered replay. */
export const isReplayId = (inferenceId: string): boolean => FORM.test(inferenceId);

/** Returns the registration that an inference id names. */
const markOf = (inferenceId: string): string | undefined => FORM.exec(inferenceId)?.groups?.mark;

// ------------------------------------------------------------------------------------------------------- registrations
// Registers a replay in the work bucket before it sends, so that captures of its requests do not count as traffic.

/** Longer replays renew their registration. Readers accept one for an hour after it expires. */
export const MARK_MS = 23 * 3_600_000;

/** A registration, as stored in the work bucket. */
export interface Mark {
  run: string;
  /** Earliest time of its requests, epoch ms. */
  atMs: number;
}

/** A registration, and from when on requests may be sent under it. */
export type Registration = Pick<Mark, 'atMs'> & { id: string };

/** Registers a replay under 64 random bits, which cannot be guessed without seeing the requests. */
export async function registerReplay(storage: Storage, workBucket: string, mark: Mark): Promise<Registration> {
  const id = randomBytes(8).toString('hex');
  await storage.putJson(workBucket, markKeys.mark(id), mark);
  return { id, atMs: mark.atMs };
}
