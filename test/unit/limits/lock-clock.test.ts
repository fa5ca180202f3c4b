/** Locks of functions whose clocks are wrong. */
import { HOLD_MS, Lock } from '../../../src/limits/lock.ts';
import { memoryLimits } from '../../doubles/memory-table.ts';

const HOUR_MS = 3_600_000;

test('the lock of a killed function whose clock was an hour ahead does not stay for an hour', async () => {
  const table = memoryLimits();
  const lockOf = (owner: string, aheadMs: number) =>
    new Lock({ table, owner, clock: { now: () => Date.now() + aheadMs, sleep: () => Promise.resolve() } });
  expect(await lockOf('killed', HOUR_MS).acquire('name')).toHaveProperty('item');
  expect(await lockOf('next', 0).acquire('name')).toHaveProperty('item');
  // A clock that is a little ahead is nothing wrong.
  expect(await lockOf('third', HOLD_MS / 2).acquire('other')).toHaveProperty('item');
  expect(await lockOf('fourth', 0).acquire('other')).toMatchObject({ other: { owner: 'third' } });
});
