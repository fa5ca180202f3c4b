/**
 * Starts a run for labels that came before their captures, once there are new captures. The runs of captures of some minutes share
 * one, which begins when these minutes are over: labels that wait for days would otherwise be looked for every minute.
 */
import { hash } from 'node:crypto';
import type { Work } from '../core/aws/storage.ts';
import type { TruthInput } from '../core/contract/ground-truth.ts';
import { areaOf } from '../core/contract/work-keys.ts';

/**
 * `windowSeconds`: the length of the time that shares a run; 0: each run of captures starts its own. `start` starts an execution, or does
 * nothing if an execution of that name was already started.
 */
type WaitingDependencies = Work & { windowSeconds: number; start(name: string, input: TruthInput): Promise<void> };

/** The share of the window that the run begins later, for starts that were under way at its end. */
const MARGIN = 0.1;
const NAME_DIGITS = 16;

/**
 * Starts a run of labels if labels wait. Call it when a run of captures has written predictions.
 *
 * @returns the name of the run of labels; `undefined` if no labels wait, for captures or for MLflow
 */
export async function startForWaiting(run: string, deps: WaitingDependencies, nowMs = Date.now()) {
  const { storage, workBucket, windowSeconds, start } = deps;
  const prefixes = [areaOf('truthWaiting'), areaOf('truthOpen')];
  const found = await Promise.all(prefixes.map((prefix) => storage.hasAny(workBucket, prefix)));
  if (!found.includes(true)) return undefined;
  const windowMs = windowSeconds * 1000;
  const iso = (ms: number): string => new Date(ms).toISOString();
  const endMs = windowMs && (Math.floor(nowMs / windowMs) + 1) * windowMs;
  const shared = windowMs && `until-${iso(endMs).slice(0, 19).replaceAll(':', '-')}`;
  const name = `waiting-${shared || hash('sha256', run).slice(0, NAME_DIGITS)}`;
  await start(name, { waiting: true, ...(shared && { notBefore: iso(endMs + MARGIN * windowMs) }) });
  return name;
}
