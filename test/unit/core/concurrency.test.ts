/** Tests of bounded concurrency. */
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { forEachConcurrently, inTime, Semaphore, yieldToEventLoop } from '../../../src/core/process/concurrency.ts';
import { LoopRounds } from '../../helpers/loop-rounds.ts';

/** Counts how many calls run at the same time. */
function counter() {
  const seen = { running: 0, most: 0 };
  const count = async (): Promise<void> => {
    seen.running += 1;
    seen.most = Math.max(seen.most, seen.running);
    await sleep(20);
    seen.running -= 1;
  };
  return { seen, count };
}

async function* streamed(items: readonly number[]): AsyncGenerator<number> {
  for (const item of items) {
    await sleep(0);
    yield item;
  }
}

describe.each([
  ['a list', (items: readonly number[]) => items],
  ['a stream', streamed],
])('forEachConcurrently over %s', (_, from) => {
  test('works on every item once, at most the limit at a time', async () => {
    const { seen, count } = counter();
    const done: number[] = [];
    await forEachConcurrently(3, from([0, 1, 2, 3, 4, 5, 6]), async (item) => {
      await count();
      done.push(item);
    });
    expect(done.sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(seen.most).toBe(3);
  });

  test('after a failure waits for the items in flight, starts no other and throws the first failure', async () => {
    const started: number[] = [];
    const finished: number[] = [];
    const work = async (item: number): Promise<void> => {
      started.push(item);
      if (item === 1) throw new Error('first');
      await sleep(5);
      finished.push(item);
    };
    await expect(forEachConcurrently(2, from([0, 1, 2, 3]), work)).rejects.toThrow('first');
    expect(started).toEqual([0, 1]);
    expect(finished).toEqual([0]);
  });
});

test('a failing source ends the loop with its error', async () => {
  async function* broken(): AsyncGenerator<number> {
    yield 1;
    throw new Error('source');
  }
  await expect(forEachConcurrently(2, broken(), async () => {})).rejects.toThrow('source');
});

test('a semaphore runs tasks in order, at most its count at a time, and frees the slot of a failed task', async () => {
  const { seen, count } = counter();
  const semaphore = new Semaphore(2);
  const started: number[] = [];
  const tasks = [0, 1, 2, 3, 4].map((task) =>
    semaphore.run(async () => {
      started.push(task);
      await count();
      if (task === 1) throw new Error('failed');
    }),
  );
  const ends = await Promise.allSettled(tasks);
  expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  expect(started).toEqual([0, 1, 2, 3, 4]);
  expect(seen.most).toBe(2);
});

test('tasks that resume at the same moment do so in different rounds of the event loop', async () => {
  const rounds = new LoopRounds();
  const seenIn = await Promise.all(Array.from({ length: 5 }, () => yieldToEventLoop().then(() => rounds.now)));
  rounds.stop();
  expect(new Set(seenIn).size).toBe(5);
});

test.each([
  ['that comes while the process stands still is in time', () => stat('.'), 250, 'answer'],
  ['that never comes is late', () => new Promise<never>(() => {}), 0, 'TimeoutError'],
])('an answer %s', async (_, ask, stillMs, expected) => {
  const answered = inTime<unknown>(ask(), 100).then(
    () => 'answer',
    ({ name }: Error) => name,
  );
  for (const start = performance.now(); performance.now() < start + stillMs; );
  expect(await answered).toBe(expected);
});
