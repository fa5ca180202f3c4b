/** The alarms of the template, fed with series of data points, as CloudWatch evaluates them: when they are raised, and how often. */
import { resourcesOfType, templateOf } from '../helpers/synth.ts';

interface Alarm {
  Threshold: number;
  EvaluationPeriods: number;
  DatapointsToAlarm?: number;
  Period?: number;
  Metrics?: { MetricStat?: { Period: number } }[];
}

const alarmOf = (id: string, settings: Record<string, string> = {}): Alarm => {
  const all = Object.values(resourcesOfType(templateOf(settings), 'AWS::CloudWatch::Alarm'));
  const found = all.find(({ Properties }) => Properties.AlarmName === `sagemaker-monitoring-test-${id}`);
  if (found === undefined) throw new Error(`No alarm ${id}`);
  return found.Properties as unknown as Alarm;
};

const periodOf = ({ Period, Metrics = [] }: Alarm): number =>
  Period ?? Metrics.flatMap(({ MetricStat }) => MetricStat?.Period ?? [])[0] ?? 0;

interface Point {
  atSeconds: number;
  value: number;
}

/** Returns the seconds at which the alarm changes to ALARM. A period is summed; one without data does not breach. */
function ringsOf(alarm: Alarm, points: readonly Point[], phase: number, untilSeconds: number): number[] {
  const period = periodOf(alarm);
  const { Threshold, EvaluationPeriods: all, DatapointsToAlarm: needed = all } = alarm;
  const sums = new Map<number, number>();
  for (const { atSeconds, value } of points) {
    const n = Math.floor((atSeconds + phase) / period);
    sums.set(n, (sums.get(n) ?? 0) + value);
  }
  const rings: number[] = [];
  let isRinging = false;
  for (let n = 0; n * period < untilSeconds; n += 1) {
    const last = Array.from({ length: all }, (_, back) => sums.get(n - back) ?? 0);
    const now = last.filter((sum) => sum > Threshold).length >= needed;
    if (now && !isRinging) rings.push((n + 1) * period - phase);
    isRinging = now;
  }
  return rings;
}

const DAY = 86_400;
const PHASES = Array.from({ length: 300 }, (_, phase) => phase);
const every = (seconds: number, value = 1, until = DAY): Point[] =>
  Array.from({ length: Math.floor(until / seconds) }, (_, n) => ({ atSeconds: n * seconds, value }));

describe('one batch of events that fails all day', () => {
  const LATE = [0, 30, 60];

  test.each([0, 90, 300])('raises FunctionErrors within half an hour, at a window of %d s', (window) => {
    const settings = { BATCH_WINDOW_SECONDS: String(window) };
    const queues = Object.values(resourcesOfType(templateOf(settings), 'AWS::SQS::Queue'));
    const hidden = queues.map(({ Properties }) => Number(Properties.VisibilityTimeout ?? 0));
    expect(Math.max(...hidden)).toBe(360 + window);
    const alarm = alarmOf('FunctionErrors', settings);
    for (const late of LATE) {
      const points = every(360 + window + late);
      const rings = PHASES.map((phase) => ringsOf(alarm, points, phase, DAY)[0] ?? Number.POSITIVE_INFINITY);
      expect(Math.max(...rings)).toBeLessThanOrEqual(1800);
    }
  });

  test('is not raised by an error whose retry succeeds, nor by one an hour', () => {
    const alarm = alarmOf('FunctionErrors');
    for (const phase of PHASES) {
      expect(ringsOf(alarm, [{ atSeconds: 0, value: 1 }], phase, DAY)).toEqual([]);
      expect(ringsOf(alarm, every(3600), phase, DAY)).toEqual([]);
    }
  });

  test('is also raised by the batch of label files', () => {
    const template = JSON.stringify(alarmOf('FunctionErrors', { GROUND_TRUTH_S3_PREFIX: 's3://labels/' }));
    expect(template).toMatch(/GroundTruthStartRuns\w*Function/);
  });
});

describe.each(['VerdictsHeld', 'LinesQuarantined', 'VerdictsFailed', 'JudgeModelEnding'])('%s', (id) => {
  test('is one message, however often a run finds it again', () => {
    const alarm = alarmOf(id);
    for (const seconds of [60, 900, 3600, 12 * 3600]) {
      for (const phase of PHASES.filter((each) => each % 150 === 0)) {
        expect(ringsOf(alarm, every(seconds, 1, 7 * DAY), phase, 7 * DAY)).toHaveLength(1);
      }
    }
  });

  test('is raised within a period of the first run, and again after more than a day without', () => {
    const alarm = alarmOf(id);
    const twice = [0, 2 * DAY].map((atSeconds) => ({ atSeconds, value: 1 }));
    expect(ringsOf(alarm, twice, 0, 3 * DAY)).toEqual([300, 2 * DAY + 300]);
  });
});

describe('ChunksWaiting', () => {
  /** Chunks that wait for 225 s each time, as the longest wait for a permit is on average. Their number at each hour of two days. */
  const waiting = (chunksAt: (hour: number) => number): Point[] =>
    Array.from({ length: (2 * DAY) / 225 }, (_, n) => {
      const atSeconds = n * 225;
      // The alarm's expression divides by the period.
      return { atSeconds, value: (chunksAt(Math.floor(atSeconds / 3600)) * 225) / 3600 };
    });
  const alarm = alarmOf('ChunksWaiting');
  const rings = (chunksAt: (hour: number) => number) => ringsOf(alarm, waiting(chunksAt), 0, 2 * DAY);

  test('is raised once within two hours when more than a hundred wait, and not for fewer', () => {
    expect(rings(() => 110)).toEqual([3600]);
    expect(rings(() => 90)).toEqual([]);
    // An overload: each minute brings a chunk more.
    expect(rings((hour) => hour * 60)).toEqual([3 * 3600]);
  });

  test('is one message for an overload that ends by night, and another a day later', () => {
    expect(rings((hour) => (hour % 24 >= 8 && hour % 24 < 20 ? 200 : 0))).toHaveLength(2);
    expect(rings((hour) => (hour % 2 === 0 ? 200 : 0))).toHaveLength(1);
  });
});

test('every alarm looks back for as long as CloudWatch allows: a day, or seven with periods of an hour and more', () => {
  const settings = { GROUND_TRUTH_S3_PREFIX: 's3://labels/', MISSING_LABELS_HOURS: '168' };
  const all = Object.values(resourcesOfType(templateOf(settings), 'AWS::CloudWatch::Alarm'));
  const tooLong = all.filter(({ Properties }) => {
    const alarm = Properties as unknown as Alarm;
    const period = periodOf(alarm);
    return period * alarm.EvaluationPeriods > (period < 3600 ? DAY : 7 * DAY);
  });
  expect(all.length).toBeGreaterThan(15);
  expect(tooLong).toEqual([]);
});
