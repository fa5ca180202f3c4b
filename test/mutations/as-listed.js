/** Jest's `testSequencer`: the test files run in the order in which the command line lists them. */
import { relative } from 'node:path';
import TestSequencer from '@jest/test-sequencer';

const placeOf = ({ path, context }) => process.argv.indexOf(relative(context.config.rootDir, path));

export default class AsListed extends TestSequencer {
  sort(tests) {
    return tests.toSorted((a, b) => placeOf(a) - placeOf(b));
  }
}
