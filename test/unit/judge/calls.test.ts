/** Calls to the judge: how many run at the same time, which wait, and the form of answer that they ask for. */
import { setTimeout as sleep, setImmediate as tick } from 'node:timers/promises';
import { AdaptiveLimiter, type CallOutcome } from '../../../src/judge/calls/limiter.ts';
import { ModelCapabilities } from '../../../src/judge/calls/model-capabilities.ts';
import { CallFailure } from '../../../src/judge/errors.ts';
import { type ModelProperties, propertiesOf } from '../../../src/judge/models/model-properties.ts';
import { scriptedJudge } from '../../doubles/scripted-judge.ts';
import { chatCapture, YES_NO_SCORERS } from './captures.ts';

/** Runs calls against a service. `outcome` decides how a call ends by the number of concurrent calls. */
async function run(limiter: AdaptiveLimiter, calls: number, outcome: (served: number) => CallOutcome): Promise<number> {
  let served = 0;
  let most = 0;
  await Promise.all(
    Array.from({ length: calls }, async () => {
      const release = await limiter.acquire();
      most = Math.max(most, limiter.active);
      served += 1;
      const end = outcome(served);
      // A refusal is immediate, an answer takes time.
      for (let ticks = end === 'throttled' ? 1 : 4; ticks > 0; ticks -= 1) await tick();
      served -= 1;
      release(end);
    }),
  );
  return most;
}

const answered = (): CallOutcome => 'answered';
const throttled = (): CallOutcome => 'throttled';

test('grows quickly to its bound while calls are answered, and never exceeds it', async () => {
  const subject = new AdaptiveLimiter();
  expect(subject.limit).toBe(16);
  const most = await run(subject, 200, answered);
  expect(subject.limit).toBe(32);
  expect(most).toBe(32);
  expect(subject.active).toBe(0);
});

test('calls resume after the bound was 0 for a while, during which those in flight were answered', async () => {
  const subject = new AdaptiveLimiter();
  const releases = await Promise.all(Array.from({ length: 4 }, () => subject.acquire()));
  subject.max = 0;
  for (const release of releases) release('answered');
  const waiting = subject.acquire();
  subject.max = 16;
  (await Promise.race([waiting, sleep(1_000)]))?.('answered');
  expect([subject.limit, subject.active]).toEqual([16, 0]);
});

test('shrinks to its minimum under heavy throttling, and recovers afterward', async () => {
  const subject = new AdaptiveLimiter();
  await run(subject, 200, throttled);
  expect(subject.limit).toBe(2);
  await run(subject, 600, answered);
  expect(subject.limit).toBe(32);
});

test('shrinks little after a few refusals', async () => {
  const subject = new AdaptiveLimiter();
  await run(subject, 64, answered);
  let call = 0;
  await run(subject, 320, () => (call++ % 32 === 0 ? 'throttled' : 'answered'));
  expect(subject.limit).toBeGreaterThanOrEqual(30);
});

test('settles near the capacity of the service', async () => {
  const CAPACITY = 12;
  const subject = new AdaptiveLimiter();
  await run(subject, 1000, (served) => (served > CAPACITY ? 'throttled' : 'answered'));
  expect(subject.limit).toBeGreaterThanOrEqual(8);
  expect(subject.limit).toBeLessThanOrEqual(CAPACITY + 4);
});

test('ignores other failures', async () => {
  const subject = new AdaptiveLimiter();
  await run(subject, 50, () => 'other');
  expect(subject.limit).toBe(16);
});

test('removes an aborted call from the queue, and lets the others continue', async () => {
  const subject = new AdaptiveLimiter();
  subject.max = 1;
  const release = await subject.acquire();
  const abort = new AbortController();
  const gone = subject.acquire(abort.signal);
  const next = subject.acquire();
  abort.abort(new Error('enough'));
  await expect(gone).rejects.toThrow('enough');
  release('answered');
  release('answered');
  (await next)('answered');
  await sleep(1);
  expect(subject.active).toBe(0);
  await expect(async () => subject.acquire(abort.signal)).rejects.toThrow('enough');
});

test.each([
  [80, 75],
  [5_000, 0],
])('a service that demands a wait of %d ms stops all calls for at least %d ms', async (retryAfterMs, least) => {
  const limiter = new AdaptiveLimiter();
  const { judge } = scriptedJudge(
    () => {
      throw new CallFailure('throttled', 'slow down', { retryAfterMs });
    },
    { limiter, retry: { attempts: 1, longestRetryAfterMs: 1_000 } },
  );
  const before = performance.now();
  await judge.judge(chatCapture(), YES_NO_SCORERS).catch(() => undefined);
  (await limiter.acquire())('answered');
  expect(performance.now() - before).toBeGreaterThanOrEqual(least);
  expect(performance.now() - before).toBeLessThan(4_000);
});

test('the strictest form that a model may accept', () => {
  const { refuses, ...rest } = propertiesOf('global.anthropic.claude-sonnet-5-5') as ModelProperties;
  const known = new ModelCapabilities({ ...rest, refuses });
  expect([known.rungFrom('json-schema'), known.rungFrom('tool')]).toEqual(['json-schema', 'prompt']);
  expect(new ModelCapabilities(undefined).rungFrom('tool')).toBe('tool');
  known.refuseRung('json-schema');
  expect(known.rungFrom('json-schema')).toBe('prompt');
});
