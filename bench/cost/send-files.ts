/** Puts the capture files of one window into the bucket, and has them processed as their events would be. */
import { PutObjectCommand } from '@aws-sdk/client-s3';
import type { QuotaEnvironment } from '../../test/helpers/quota-environment.ts';

/** @returns whether the events went through a queue */
export async function sendWindow(
  stack: QuotaEnvironment,
  name: string,
  bodies: readonly string[],
): Promise<{ queued: boolean; keys: string[] }> {
  const { pipeline, environment } = stack;
  const keys = bodies.map((_, n) => stack.key(`${name}-${n}`));
  for (const [n, Body] of bodies.entries()) {
    const Bucket = pipeline.outputs.captureBucket;
    await environment.clients.s3.send(new PutObjectCommand({ Bucket, Key: keys[n], Body }));
  }
  return { queued: false, keys };
}
