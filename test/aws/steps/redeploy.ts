/** A deployment that changes every function, while runs are under way. */
import type { Canary } from '../canary.ts';
import { deployStack } from '../stack.ts';
import { judgedKey } from './judge.ts';
import { eventInput } from './refusals.ts';

/** A setting that all functions have, and that changes nothing for the canary's captures. */
const OTHER_SETTINGS = { MAX_LINE_BYTES: '60000000' };

/** An error of ours has a name; one of Lambda's has a dot in it. */
const isNamed = (error: string): boolean => error !== '' && !error.includes('.');

export async function redeployStep(canary: Canary): Promise<void> {
  const machine = await canary.machine('stateMachineArn');
  const { captureBucket } = await canary.outputs();
  const input = eventInput(captureBucket, judgedKey(canary), { evaluate: false });
  let isDeploying = true;
  const deployed = deployStack(canary, OTHER_SETTINGS).finally(() => {
    isDeploying = false;
  });
  deployed.catch(() => {});
  const ends: string[] = [];
  let good = true;
  while (isDeploying) {
    const { status, error } = await canary.ended(await canary.start(machine, input));
    ends.push(error || status);
    good &&= status === 'SUCCEEDED' || isNamed(error);
  }
  await deployed;
  const counts = [...new Set(ends)].map((end) => `${ends.filter((one) => one === end).length} ${end}`);
  canary.note('redeploy-in-a-run', good && ends.length > 0, `${ends.length} runs: ${counts.join(', ')}`);
}
