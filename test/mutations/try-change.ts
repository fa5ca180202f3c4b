/** Makes a change in a copy of the project, and runs unit tests there. The copy is a working tree of git's at `<folder>/copy`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Change } from './changes.ts';
import { NOTHING_YET, type Progress, progressIn } from './progress.ts';

export const OUTCOMES = ['caught', 'caught by time', 'survived', 'not decided in time', 'without a unit test'] as const;

export interface Result {
  outcome: (typeof OUTCOMES)[number];
  /** The test that failed or hangs. Its name is empty if the file failed outside of its tests. */
  testFile?: string;
  test?: string;
}

/** A change makes a test hang if without the change its whole file passes this many times faster. */
export const HANGS = 5;

const JEST = [
  // In one process, which also ends if a test leaves a server open.
  ...['node_modules/jest/bin/jest.js', '--selectProjects', 'unit', '--runInBand', '--forceExit', '--silent'],
  `--testSequencer=${join(import.meta.dirname, 'as-listed.js')}`,
  `--reporters=${join(import.meta.dirname, 'progress.ts')}`,
  '--runTestsByPath',
];

/** Stops all tests. */
export const stop = new AbortController();

/**
 * Runs test files in this order until a test fails or the time is up, in milliseconds.
 *
 * @returns the progress, and when it was made, in milliseconds since 1970
 */
export async function runTests(folder: string, tests: string[], timeout?: number): Promise<Progress & { at: number }> {
  // Without a list, jest runs all.
  if (tests.length === 0) return { ...NOTHING_YET, state: 'passed', at: 0 };
  const progress = progressIn(folder);
  writeFileSync(progress, JSON.stringify(NOTHING_YET));
  const jest = spawn(process.execPath, [...JEST, ...tests], {
    cwd: join(folder, 'copy'),
    // What killed tests leave in it goes with the copy.
    env: { ...process.env, TMPDIR: folder },
    stdio: 'ignore',
    // With a group of processes, which those that tests start belong to.
    detached: true,
    timeout,
    killSignal: 'SIGKILL',
    signal: stop.signal,
  });
  try {
    await once(jest, 'exit');
  } finally {
    try {
      process.kill(-Number(jest.pid), 'SIGKILL');
    } catch {
      // The group is empty.
    }
  }
  return { ...JSON.parse(readFileSync(progress, 'utf8')), at: statSync(progress).mtimeMs };
}

/** Makes the change, runs the tests, and undoes it. */
export async function tryChange(folder: string, change: Change, tests: string[], timeout: number): Promise<Result> {
  if (tests.length === 0) return { outcome: 'without a unit test' };
  const path = join(folder, 'copy', change.file);
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, text.split('\n').with(change.line, change.after).join('\n'));
  const start = Date.now();
  const { state, at, ...last } = await runTests(folder, tests, timeout);
  const end = Date.now();
  writeFileSync(path, text);
  if (state === 'passed') return { outcome: 'survived' };
  if (state === 'failed') return { outcome: 'caught', ...last };
  // The process ended early, or its time was up. Is the change the cause, or a busy machine?
  const early = end - start < timeout;
  const unchanged = await runTests(folder, [last.testFile], early ? timeout : Math.ceil((end - at) / HANGS));
  if (unchanged.state !== 'passed') return { outcome: 'not decided in time' };
  return { outcome: early ? 'caught' : 'caught by time', ...last };
}
