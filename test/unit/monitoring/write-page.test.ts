/** The page that runs write to the work bucket. */
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { writePage } from '../../../src/monitoring/write-page.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { askedStackIn, useAskedStack } from '../../helpers/asked-stack.ts';
import { HOUR_MS, NOW_MS } from '../../helpers/example-month.ts';

useAskedStack();

const LATEST = workKeys.report('latest');
const functionArn = 'arn:aws:lambda:us-east-1:000000000000:function:summarizer';

test('is written once an hour, and when an objective changes, by one of several runs', async () => {
  const memory = new MemoryStorage();
  const stack = await askedStackIn({ storage: memory });
  const write = async (afterMs: number, changed = false) => {
    const nowMs = NOW_MS + afterMs;
    await writePage(changed, { ...stack, functionArn, nowMs });
    return memory.objects.get(LATEST)?.toString() ?? '';
  };
  const [one, other] = await Promise.all([write(0), write(0)]);
  expect(one).toMatch(/<h1>garden-helpdesk<\/h1>.*✓ <bdi>healthy: no scorer is [^<]*; 6,760 captures/s);
  expect(other).toBe(one);
  expect(memory.objects.get(workKeys.report('2026-11-30'))?.toString()).toBe(one);
  memory.writtenMs.set(LATEST, NOW_MS);
  expect(await write(HOUR_MS - 1)).toBe(one);
  const turned = await write(HOUR_MS - 1, true);
  expect(turned).not.toBe(one);
  expect(await write(HOUR_MS)).not.toBe(turned);
});

test('a bucket that does not answer delays no run', async () => {
  const memory = new MemoryStorage();
  const stack = await askedStackIn({ storage: memory });
  stack.storage.getText = () => new Promise(() => {});
  await writePage(false, { ...stack, functionArn, nowMs: NOW_MS, limitMs: 20 });
  expect(memory.objects.has(LATEST)).toBe(false);
});

test('a page that cannot be written fails no run', async () => {
  const memory = new MemoryStorage();
  const stack = await askedStackIn({ storage: memory });
  memory.putIf = () => Promise.reject(new Error('no'));
  await writePage(false, { ...stack, functionArn, nowMs: NOW_MS });
  expect(memory.objects.has(LATEST)).toBe(false);
});
