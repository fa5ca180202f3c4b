/** The emulated AWS for the tests in this folder, started once. */
import { CloudReplays } from '../../helpers/replay-cloud.ts';

export let cloud: CloudReplays;

beforeAll(async () => {
  cloud = await CloudReplays.start();
});
afterAll(() => cloud?.stop());
