/** The emulated AWS for the tests in this folder, started once. */
import { CloudReplays } from '../../helpers/replay-cloud.ts';

const START_MS = 5 * 60_000;
/** Time limit of a test. */
export const TEST_MS = 5 * 60_000;

export let cloud: CloudReplays;

beforeAll(async () => {
  cloud = await CloudReplays.start();
}, START_MS);
afterAll(() => cloud?.stop());
