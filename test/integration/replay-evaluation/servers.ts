/** The servers for the tests in this folder. Each test file starts them once for all the suites that it imports. */
import { EvaluatedReplays } from '../../helpers/replay-evaluation.ts';

const START_MS = 6 * 60_000;

export let all: EvaluatedReplays;

beforeAll(async () => {
  all = await EvaluatedReplays.start();
}, START_MS);
afterAll(() => all?.stop());
beforeEach(() => all.heal());
