import { Random } from '../../../src/core/values/random.ts';
import {
  createDetector,
  type DetectorState,
  feed,
  newState,
  type ObjectiveChange,
  rateOf,
} from '../../../src/quality/detector.ts';
import { readObjectives } from '../../../src/quality/objectives.ts';

const [objective] = readObjectives([{ errorReplies: { atMost: 0.05 }, over: '2h' }], { scorers: [], sampleRate: 1 });
if (objective === undefined) throw new Error('no objective');
const detector = createDetector(objective);

/** Feeds one capture a minute. */
function feedAll(
  state: DetectorState,
  from: number,
  failing: readonly boolean[],
): { minute: number; change: ObjectiveChange }[] {
  return failing.flatMap((isFailed, index) =>
    feed(detector, state, [60 * (from + index), 1, isFailed ? 1 : 0]).map((change) => ({
      minute: from + index,
      change,
    })),
  );
}

const each = (count: number, share: number, seed: number): boolean[] => {
  const random = new Random(seed);
  return Array.from({ length: count }, () => random.next() < share);
};

test('reports a drop, with the rate before, and the recovery', () => {
  const state = newState();
  const before = each(3000, 0.03, 1);
  const bad = each(400, 0.2, 2);
  const after = each(3000, 0.02, 3);
  const changes = feedAll(state, 0, [...before, ...bad, ...after]);
  expect(changes.map(({ change }) => change.isMissed)).toEqual([true, false]);
  const [rang, ended] = changes;
  expect(rang?.minute).toBeGreaterThan(3000);
  expect(rang?.minute).toBeLessThan(3200);
  // The change is dated within half an hour, and the rates are those of the captures.
  expect(Math.abs((rang?.change.evidence.since ?? 0) / 60 - 3000)).toBeLessThan(30);
  const { evidence, before: window } = rang?.change ??
    ended?.change ?? { evidence: newState().evidence, before: newState().evidence };
  expect(evidence.failed / evidence.cases).toBeGreaterThan(0.12);
  expect(window.cases).toBeGreaterThan(30);
  expect(window.cases).toBeLessThan(180);
  expect(window.failed / window.cases).toBeLessThan(0.1);
  expect(ended?.minute).toBeGreaterThan(3400);
  expect(ended?.minute).toBeLessThan(4000);
  expect(ended?.change.evidence.failed).toBeLessThan(20);
  expect(state.missed).toBeUndefined();
});

test('three of four failures are no evidence', () => {
  const state = newState();
  expect(feedAll(state, 0, [true, true, true, false])).toEqual([]);
  expect(state.sum).toBeGreaterThan(0);
});

test('captures of the same second are spread, so that their order raises no alarm', () => {
  const state = newState();
  // 5% of 1,000 captures in each of 10 seconds.
  for (let second = 0; second < 10; second += 1) expect(feed(detector, state, [second, 1000, 50])).toEqual([]);
  // Half of them.
  expect(feed(detector, state, [10, 1000, 500]).map(({ isMissed }) => isMissed)).toEqual([true]);
});

test('the rate that is shown is that of the window', () => {
  const state = newState();
  feed(detector, state, [0, 10, 1]);
  feed(detector, state, [3600, 20, 1]);
  expect(rateOf(state, objective)).toEqual({ since: 0, cases: 30, failed: 2 });
  feed(detector, state, [7200, 30, 1]);
  expect(rateOf(state, objective)).toEqual({ since: 3600, cases: 50, failed: 2 });
  // A late capture counts now.
  feed(detector, state, [10, 1, 0]);
  expect(rateOf(state, objective)).toEqual({ since: 3600, cases: 51, failed: 2 });
  expect(state.hours).toHaveLength(2);
});

test('captures that fail together need as much more', () => {
  const together = createDetector({ ...objective, together: 5 });
  expect(together.missed.limit).toBeGreaterThan(4 * detector.missed.limit);
  expect(feed(detector, newState(), [0, 40, 40])).toHaveLength(1);
  expect(feed(together, newState(), [0, 40, 40])).toEqual([]);
});
