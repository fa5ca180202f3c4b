/** What a canary has done and seen so far, in `.local/canary/<prefix>.json`: it can be left and resumed. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { AssertionId, StepName } from './assertions.ts';

export interface CanaryFinding {
  outcome: 'seen' | 'failed' | 'skipped';
  /** The figures that were seen, or the reason. */
  detail: string;
}

export interface CanaryState {
  prefix: string;
  region: string;
  startedAt: string;
  /** Settings of the deployed stack, named as in `.env.example`, without the capture bucket. */
  settings: Record<string, string>;
  /** The target of replays; without both, the canary makes one. */
  endpoint?: string | undefined;
  url?: string | undefined;
  batch: boolean;
  done: StepName[];
  findings: Partial<Record<AssertionId, CanaryFinding>>;
  /** What later steps need: names of resources and of executions. */
  facts: Record<string, string>;
}

export const statePath = (prefix: string): string => packagePath('.local', 'canary', `${prefix}.json`);
export const reportPath = (prefix: string): string => packagePath('.local', 'canary', `${prefix}.md`);

export function saveState(state: CanaryState): void {
  const path = statePath(state.prefix);
  mkdirSync(dirname(path), { recursive: true });
  // A process that is killed while it writes must not lose the names of what it has made.
  writeFileSync(`${path}.new`, `${JSON.stringify(state, null, 2)}\n`);
  renameSync(`${path}.new`, path);
}

/** @throws Error if there is no canary of this prefix */
export function loadState(prefix: string): CanaryState {
  const path = statePath(prefix);
  if (existsSync(path)) return JSON.parse(readFileSync(path, 'utf8')) as CanaryState;
  throw new Error(
    `There is no canary to continue; got: no file ${path}; expected: the --prefix of a canary that was started in this folder`,
  );
}

export const removeState = (prefix: string): void => rmSync(statePath(prefix), { force: true });
