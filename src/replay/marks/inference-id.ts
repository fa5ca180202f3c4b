/** The inference ids of a replay's requests. The captures have them, and name by them the registration of the replay. */
import { hash } from 'node:crypto';

export const REPLAY_ID_PREFIX = 'replay-';
const FORM = new RegExp(`^${REPLAY_ID_PREFIX}(?<mark>[0-9a-f]{16})?[0-9a-f]{32}$`);

/**
 * Derives the inference id of a request: the registration, and 32 hex digits of SHA-256 over the run, the event id and, from the
 * second pass on, the pass.
 *
 * @param mark the id of the registration; empty if the replay is not registered
 */
export const replayInferenceId = (mark: string, run: string, eventKey: string, pass: number): string =>
  `${REPLAY_ID_PREFIX}${mark}${hash('sha256', pass === 0 ? `${run}\n${eventKey}` : `${run}\n${eventKey}\n${pass}`).slice(0, 32)}`;

/** Whether an inference id claims to be a replay's. */
export const isReplayId = (inferenceId: string): boolean => FORM.test(inferenceId);

/** Returns the registration that an inference id names. */
export const markOf = (inferenceId: string): string | undefined => FORM.exec(inferenceId)?.groups?.mark;
