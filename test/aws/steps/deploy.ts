/** The bucket, the endpoint and the stack. */
import type { Canary } from '../canary.ts';
import { makeGround } from '../ground.ts';
import { assertBootstrapped, deployStack } from '../stack.ts';
import { putBatchFile } from './batch.ts';

export async function deployStep(canary: Canary): Promise<void> {
  await assertBootstrapped(canary);
  // A canary that was left while it deployed has them.
  if (!canary.fact('captureBucket')) await makeGround(canary);
  await putBatchFile(canary);
  const at = Date.now();
  await deployStack(canary);
  const outputs = await canary.outputs();
  canary.note(
    'stack-deploys',
    true,
    `${Object.keys(outputs).length} outputs after ${Math.round((Date.now() - at) / 1000)} s`,
  );
}
