/** When new captures start a run for labels that wait. */
import { truthKeys } from '../../../src/core/contract/work-keys.ts';
import { startForWaiting } from '../../../src/ground-truth/start-waiting.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

const at = (time: string): number => Date.parse(`2026-11-20T${time}Z`);

function starter(windowSeconds: number, ...keys: string[]) {
  const memory = new MemoryStorage();
  for (const key of keys) memory.put(key, '');
  const started = new Map<string, object>();
  const start = async (name: string, input: object): Promise<void> => void started.set(name, input);
  const deps = { storage: memory.storage, workBucket: 'work', windowSeconds, start };
  return { started, on: (run: string, time = '10:00:00') => startForWaiting(run, deps, at(time)) };
}

it('starts nothing if no label waits', async () => {
  const { started, on } = starter(0, truthKeys.labeled('2026-11-20T10'), truthKeys.file('1'));
  expect(await on('run')).toBeUndefined();
  expect(started.size).toBe(0);
});

it.each([[truthKeys.waiting('1')], [truthKeys.toPublish('2026-11-20T10', 'e')]])('starts a run for %s', async (key) => {
  const { started, on } = starter(0, key);
  const name = await on('run');
  // A retry of SummarizeRun has the same name, and another run another one.
  expect(await on('run')).toBe(name);
  expect(await on('other')).not.toBe(name);
  expect([...started.values()]).toEqual([{ waiting: true }, { waiting: true }]);
});

it('starts one for all runs of the window, after its end', async () => {
  const { started, on } = starter(600, truthKeys.waiting('1'));
  await on('a', '10:00:00');
  await on('b', '10:09:59.999');
  await on('c', '10:10:00');
  expect(Object.fromEntries(started)).toEqual({
    'waiting-until-2026-11-20T10-10-00': { waiting: true, notBefore: '2026-11-20T10:11:00.000Z' },
    'waiting-until-2026-11-20T10-20-00': { waiting: true, notBefore: '2026-11-20T10:21:00.000Z' },
  });
});
