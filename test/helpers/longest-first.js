/**
 * Jest's `testSequencer`: the files that take longest start first, so that none runs alone at the end. Jest itself knows the
 * durations of an earlier run. On a fresh clone it sorts by size, and would start the largest suites last, because their
 * files only import them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import TestSequencer from '@jest/test-sequencer';

/** Levels in the order in which they start: deployments wait for servers, and units fill both cores to the end. */
const LEVELS = ['faults', 'memory', 'matrix', 'integration', 'infra', 'unit'];

const levelOf = ({ context }) => LEVELS.indexOf(context.config.displayName?.name);

/** Files of more than 15 s that are short: their work is in what they start, or in the number of their inputs. */
const SHORT_BUT_LONG = [
  'integration/hostile.test.ts',
  'integration/canary.test.ts',
  'integration/mlflow-newest.test.ts',
  'integration/mlflow-managed.test.ts',
  'integration/mlflow-app.test.ts',
  'integration/deployed-start.test.ts',
  'infra/cfn-lint.test.ts',
  'unit/expressions.test.ts',
];

const takesLong = ({ path }) => SHORT_BUT_LONG.some((name) => path.endsWith(name));

/** The length of a test file with the suites that it imports for their tests alone, in characters. */
function lengthOf(file) {
  const text = readFileSync(file, 'utf8');
  const suites = [...text.matchAll(/^import '(\..+)';$/gm)].map(([, suite]) => join(dirname(file), suite));
  return suites.filter(existsSync).reduce((sum, suite) => sum + lengthOf(suite), text.length);
}

export default class LongestFirst extends TestSequencer {
  /** @returns the tests in jest's order if all durations are known, else by level and length */
  sort(tests) {
    const sorted = super.sort(tests);
    if (sorted.every(({ duration }) => duration !== undefined)) return sorted;
    const lengths = new Map(sorted.map(({ path }) => [path, lengthOf(path)]));
    return sorted.toSorted(
      (a, b) => levelOf(a) - levelOf(b) || takesLong(b) - takesLong(a) || lengths.get(b.path) - lengths.get(a.path),
    );
  }
}
