/**
 * Jest's `testSequencer`: the files that take longest start first, so that none runs alone at the end. Jest itself knows the
 * durations of an earlier run. On a fresh clone it sorts by size, and would start the largest suites last, because their
 * files only import them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import TestSequencer from '@jest/test-sequencer';

/** Levels in the order in which they start: deployments wait for servers, and units fill both cores to the end. */
const LEVELS = ['slow', 'faults', 'memory', 'matrix', 'integration', 'infra', 'unit'];

const levelOf = ({ context }) => LEVELS.indexOf(context.config.displayName?.name);

/**
 * Files that take long whatever their length, the longest first: their time is in what they start, wait for or repeat. It
 * is worth a line here when a file of more than 15 s starts among the last.
 */
const LONG = [
  'slow/deployed-batch.test.ts',
  'slow/canary.test.ts',
  'slow/hostile.test.ts',
  'slow/cfn-lint.test.ts',
  'slow/replay-evaluation/replay-evaluation.test.ts',
  'integration/deployed-policies.test.ts',
  'integration/deployed-replay.test.ts',
  'integration/deployed-start.test.ts',
  'integration/deployed.test.ts',
  'integration/capture-client.test.ts',
  'infra/cfn-lint.test.ts',
  'integration/mlflow-newest.test.ts',
  'integration/bin/operate.test.ts',
  'integration/package.test.ts',
  'integration/replay-evaluation/replay-evaluation.test.ts',
  'integration/mlflow-managed.test.ts',
  'integration/judge/asking.test.ts',
  'unit/monitoring/planning-faults.test.ts',
  'unit/expressions.test.ts',
];

const TESTS = join(import.meta.dirname, '..');
const gone = LONG.filter((name) => !existsSync(join(TESTS, name)));
if (gone.length > 0)
  throw new Error(
    `Test files are gone; got: ${gone.join(', ')}; expected: files; where: LONG in ${import.meta.filename}`,
  );

/** @returns the place in the list, or the place after it for any other file */
function rankOf({ path }) {
  const place = LONG.findIndex((name) => path.endsWith(name));
  return place === -1 ? LONG.length : place;
}

/** The length of a test file with the suites that it imports for their tests alone, in characters. */
function lengthOf(file) {
  const text = readFileSync(file, 'utf8');
  const suites = [...text.matchAll(/^import '(\..+)';$/gm)].map(([, suite]) => join(dirname(file), suite));
  return suites.filter(existsSync).reduce((sum, suite) => sum + lengthOf(suite), text.length);
}

export default class LongestFirst extends TestSequencer {
  /** @returns the tests in jest's order if all durations are known, else the long ones, then by level and length */
  sort(tests) {
    const sorted = super.sort(tests);
    if (sorted.every(({ duration }) => duration !== undefined)) return sorted;
    const lengths = new Map(sorted.map(({ path }) => [path, lengthOf(path)]));
    return sorted.toSorted(
      (a, b) => rankOf(a) - rankOf(b) || levelOf(a) - levelOf(b) || lengths.get(b.path) - lengths.get(a.path),
    );
  }
}
