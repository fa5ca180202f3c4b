/** Processing items within a shared time limit. */

import { PermanentError } from '../../../src/core/errors/errors.ts';
import { eachWithin } from '../../../src/monitoring/evaluate/each-within.ts';

const items = ['a', 'b', 'c'].map((name) => ({ name }));
const failed = ({ name }: { name: string }, fault: string): string => `${name}: ${fault}`;

function endless(): never {
  for (;;) Math.random();
}

test('keeps the results that were ready in time; the others report the item that took the time', () => {
  const work = ({ name }: { name: string }): string => (name === 'b' ? endless() : name);
  const fault = 'OutOfTime: b took the rest of 0.05 s';
  expect(eachWithin(50, items, work, failed)).toEqual(['a', `b: ${fault}`, `c: ${fault}`]);
  expect(eachWithin(50, [], endless, endless)).toEqual([]);
});

test('continues after an item that throws, and throws a named error', () => {
  const throwing =
    (error: Error) =>
    ({ name }: { name: string }): string => {
      if (name === 'b') throw error;
      return name;
    };
  expect(eachWithin(1_000, items, throwing(new TypeError('quotes a capture')), failed)).toEqual([
    'a',
    expect.stringMatching(/^b: TypeError(?!.*quotes)/),
    'c',
  ]);
  const named = new PermanentError('StorageRefused', 'It concerns every item');
  expect(() => eachWithin(1_000, items, throwing(named), failed)).toThrow(named);
});
