/** What the limits promise, over a table of DynamoDB: in memory, and in the emulator. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Clock } from '../../src/limits/clock.ts';
import { Lock } from '../../src/limits/lock.ts';
import { BudgetTable } from '../../src/limits/table.ts';

/** A new and empty table. */
export interface TestTable {
  client: DynamoDBClient;
  name: string;
}

const NOON = Date.UTC(2026, 10, 20, 12);

/** A clock whose sleepers wait a hundredth of the time. */
class FastClock implements Clock {
  readonly #startedAt = performance.now();
  /** Milliseconds to add. */
  ahead = 0;

  now = (): number => Math.floor(NOON + this.ahead + 100 * (performance.now() - this.#startedAt));

  sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, ms / 100).unref();
      const cancel = (): void => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', cancel, { once: true });
    });
}

export function limitsSuite(newTable: () => Promise<TestTable>): void {
  let table: BudgetTable;
  let clock: FastClock;
  beforeEach(async () => {
    const { client, name } = await newTable();
    table = new BudgetTable(client, name);
    clock = new FastClock();
  });

  describe('a lock', () => {
    const lockOf = (owner: string) => new Lock({ table, owner, clock });
    const nothing = async (): Promise<void> => undefined;

    test('is taken if it is free, one’s own, released, or over, and renewed only by its owner', async () => {
      const [one, other] = [lockOf('one'), lockOf('other')];
      expect(await one.take('a')).toBeUndefined();
      expect(await one.take('a', 90_000)).toBeUndefined();
      const held = { owner: 'one', untilMs: expect.any(Number) };
      expect(await other.take('a')).toEqual(held);
      await other.release('a');
      expect(await other.renew('a')).toBe(false);
      expect(await other.take('a')).toEqual(held);
      await one.release('a');
      expect(await one.renew('a')).toBe(false);
      expect(await other.take('a')).toBeUndefined();
      clock.ahead += 61_000;
      expect(await other.renew('a')).toBe(true);
      clock.ahead += 61_000;
      expect(await one.take('a')).toBeUndefined();
    });

    test('is held by one of many that need several, and each gets its turn', async () => {
      const inside = new Set<string>();
      const names = ['a', 'b', 'c', 'd'];
      const owners = Array.from({ length: 8 }, (_, index) => ({ lock: lockOf(`${index}`), first: index % 4 }));
      await Promise.all(
        owners.map(async ({ lock, first }) => {
          for (let turn = 0; turn < 3; turn += 1) {
            const wanted = [names[first], names[(first + 1 + turn) % 4]] as string[];
            await lock.during(wanted, async (assertHeld) => {
              for (const name of new Set(wanted)) {
                expect(inside.has(name)).toBe(false);
                inside.add(name);
              }
              await clock.sleep(100);
              assertHeld();
              for (const name of wanted) inside.delete(name);
            });
          }
        }),
      );
    });

    test('is not kept while another one is waited for', async () => {
      await lockOf('one').take('b');
      const waiting = lockOf('two').during(['a', 'b', 'c'], nothing);
      await lockOf('three').during(['a', 'c'], nothing);
      await lockOf('one').release('b');
      await waiting;
      for (const name of 'abc') expect(await lockOf('four').take(name)).toBeUndefined();
    });

    test('is renewed while the work lasts, shared by work of one function, and given back after the last', async () => {
      const lock = lockOf('one');
      const ends = [200_000, 100_000];
      const works = ends.map((ms) =>
        lock.during(['a'], async (assertHeld) => {
          await clock.sleep(ms);
          assertHeld();
        }),
      );
      await clock.sleep(150_000);
      expect(await lockOf('two').take('a')).toMatchObject({ owner: 'one' });
      await Promise.all(works);
      expect(await lockOf('two').take('a')).toBeUndefined();
    });

    test('that was lost is noticed right before a write', async () => {
      const late = lockOf('late').during(['a'], async (assertHeld) => {
        assertHeld();
        clock.ahead += 61_000;
        expect(await lockOf('other').take('a', 1_000_000)).toBeUndefined();
        expect(assertHeld).toThrow(expect.objectContaining({ name: 'LockLost' }));
        // The renewal finds the other owner.
        await clock.sleep(25_000);
        assertHeld();
      });
      await expect(late).rejects.toMatchObject({ name: 'LockLost' });
      expect(await lockOf('third').take('a')).toMatchObject({ owner: 'other' });
    });

    test('without it nothing is done, and the wait ends in time', async () => {
      await lockOf('one').take('a');
      const work = jest.fn(nothing);
      const inVain = lockOf('two').during(['a', 'b'], work, clock.now() + 5_000);
      await expect(inVain).rejects.toMatchObject({ name: 'LockTaken', message: expect.stringContaining('one') });
      const gone = new Lock({
        table: new BudgetTable({ send: () => Promise.reject(new Error('gone')) } as never, 't'),
        owner: 'x',
      });
      await expect(gone.during(['a'], work)).rejects.toMatchObject({ name: 'BudgetTableUnavailable' });
      expect(work).not.toHaveBeenCalled();
      expect(await lockOf('three').take('b')).toBeUndefined();
    });

    test('of a function that was killed is free after a minute', async () => {
      const killed = lockOf('killed');
      void killed.during(['a'], () => new Promise(() => undefined)).catch(nothing);
      await clock.sleep(1_000);
      clock.ahead += 61_000;
      await lockOf('other').during(['a'], nothing);
    });
  });
}
