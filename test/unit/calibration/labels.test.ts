/** Tests of the traces that are picked to be labelled, and of the weights of their labels. */
import { type LabelStratum, labelQuotas } from '../../../src/calibration/label-quotas.ts';
import { labelWeights, type PickedLabel, pickOf } from '../../../src/calibration/label-tag.ts';
import { pickLabels } from '../../../src/calibration/pick-labels.ts';
import { calibrationReport } from '../../../src/calibration/report.ts';
import type { LabeledVerdict } from '../../../src/calibration/types.ts';
import { labelsByCell, type WindowLabel } from '../../../src/calibration/window-labels.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../../src/judge/types.ts';
import { Random } from '../../../src/shared/random.ts';

const stratum = (passed: boolean, judged: number, more: Partial<LabelStratum> = {}): LabelStratum => ({
  passed,
  judged,
  labelled: 0,
  good: 0,
  taken: 0,
  ...more,
});
const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

describe('quotas', () => {
  test('give the rarer verdict more than its share while nothing is known', () => {
    const quotas = labelQuotas([stratum(true, 1720), stratum(false, 280)], 50);
    expect(sum(quotas)).toBe(50);
    expect(quotas[1]).toBeGreaterThan(12);
    expect(quotas[1]).toBeLessThan(20);
    // The same for a judge that fails most.
    expect(labelQuotas([stratum(true, 280), stratum(false, 1720)], 50)).toEqual(quotas.toReversed());
  });

  test('follow the labels so far', () => {
    // All that passes is good; half of what fails is good too.
    const [passes = 0, fails = 0] = labelQuotas(
      [
        stratum(true, 1000, { labelled: 100, good: 100, taken: 100 }),
        stratum(false, 1000, { labelled: 100, good: 50, taken: 100 }),
      ],
      50,
    );
    expect([passes, fails]).toEqual([0, 50]);
  });

  test('go on with a verdict that was always right so far', () => {
    const [passes = 0] = labelQuotas(
      [
        stratum(true, 1720, { labelled: 80, good: 80, taken: 80 }),
        stratum(false, 280, { labelled: 70, good: 20, taken: 70 }),
      ],
      100,
    );
    // Its spread may be √(0.5 · 80)/81 as far as 80 labels tell: 0.5 of all labels, which are then 250.
    expect(passes).toBeGreaterThan(30);
    expect(passes).toBeLessThan(70);
  });

  test('never leave out a stratum, and pick no more than there is', () => {
    expect(labelQuotas([stratum(true, 100_000), stratum(false, 3)], 10)[1]).toBeGreaterThan(0);
    expect(labelQuotas([stratum(true, 5, { taken: 2 }), stratum(false, 1)], 50)).toEqual([3, 1]);
    expect(labelQuotas([stratum(true, 5), stratum(false, 1)], 0)).toEqual([0, 0]);
  });
});

describe('weights', () => {
  const label = (verdict: string, stratumName?: string, probability = 1, judgedWeight = 1): PickedLabel => ({
    verdict,
    judgedWeight,
    pick: stratumName === undefined ? undefined : { stratum: stratumName, probability, picked: '' },
  });

  test('are those of the sample where nobody picked', () => {
    expect(labelWeights([label('yes', undefined, 1, 20), label('no')], new Map([['yes', 7]]))).toEqual([20, 1]);
  });

  test('estimate without bias what strata with different probabilities have in common', () => {
    const random = new Random(4);
    // 900 of the verdicts are of one kind, all good; 100 of another kind, all bad; half of these are picked.
    const [runs, found] = [400, [] as number[]];
    for (let run = 0; run < runs; run++) {
      const usual = Array.from({ length: random.binomial(900, 0.05) }, () => label('yes', 'usual', 0.05));
      const odd = Array.from({ length: random.binomial(100, 0.5) }, () => label('yes', 'odd', 0.5));
      const weights = labelWeights([...usual, ...odd], new Map([['yes', 1000]]));
      expect(sum(weights)).toBeCloseTo(1000, 6);
      found.push(sum(weights.slice(usual.length)) / 1000);
    }
    expect(sum(found) / runs).toBeCloseTo(0.1, 2);
  });

  test('take the latest probability of a stratum, and count labels that nobody picked like the others', () => {
    // The stratum was picked at 10%, then up to 20%; another label of the verdict was given without a pick.
    const labels = [label('yes', 'a', 0.2), label('yes', 'a', 0.1), label('yes'), label('no', 'b', 0.5)];
    const weights = labelWeights(
      labels,
      new Map([
        ['yes', 30],
        ['no', 4],
      ]),
    ).map((weight) => Number(weight.toFixed(9)));
    expect(weights).toEqual([10, 10, 10, 4]);
  });

  test('take the latest probability whatever the order of the labels', () => {
    const labels = [label('yes', 'a', 0.2), label('yes', 'a', 0.1), label('yes', 'b', 0.1)];
    const weights = labelWeights(labels, new Map([['yes', 20]])).map((weight) => Number(weight.toFixed(9)));
    expect(weights).toEqual([5, 5, 10]);
  });

  test('ignore a tag that a person changed', () => {
    for (const tag of ['', 'mine', '{"probability":0,"stratum":"a","picked":""}', '{"probability":"x"}', '[]', 'null'])
      expect(pickOf({ label_safety: tag }, 'safety')).toBeUndefined();
    const picked = { probability: 0.5, stratum: 'passes', picked: '2026-11-20T00:00:00Z' };
    expect(pickOf({ label_safety: JSON.stringify(picked) }, 'safety')).toEqual(picked);
  });
});

test('calibrate counts a label for the captures that it stands for', () => {
  const pair = (label: string, verdict: string, weight: number): LabeledVerdict => ({
    ...{ id: '', scorer: 'safety', label, verdict, weight, agrees: label === verdict, request: '', reply: '' },
  });
  // Of 1000 verdicts, 100 fail; half of the labels are of them.
  const pairs = [
    ...Array.from({ length: 45 }, () => pair('yes', 'yes', 18)),
    ...Array.from({ length: 5 }, () => pair('no', 'yes', 18)),
    ...Array.from({ length: 30 }, () => pair('yes', 'no', 2)),
    ...Array.from({ length: 20 }, () => pair('no', 'no', 2)),
  ];
  const of = (given: LabeledVerdict[]) =>
    calibrationReport({ source: { kind: 'mlflow', where: '' }, scorers: [], pairs: given, unanswered: [] }).scorers[0];
  const [weighted, even] = [of(pairs), of(pairs.map((one) => ({ ...one, weight: 7 })))];
  expect(weighted?.agreement?.value).toBeCloseTo((45 * 18 + 20 * 2) / 1000, 12);
  const tprs = [weighted, even].map(
    (report) => report?.classes.find(({ value }) => value === 'yes')?.sensitivity?.value,
  );
  expect(tprs[0]).toBeCloseTo((45 * 18) / (45 * 18 + 30 * 2), 12);
  expect(tprs[1]).toBeCloseTo(45 / 75, 12);
  expect(weighted?.notes.join()).toContain('stands for');
  expect(even?.notes.join()).not.toContain('stands for');
  expect(even?.agreement).toMatchObject({ hits: 65, of: 100 });
  // The table is of labels, and its intervals are of as many as would tell as much.
  expect(weighted?.confusion?.counts.flat().reduce((a, b) => a + b)).toBe(100);
  expect(weighted?.agreement?.of).toBeCloseTo(1000 ** 2 / (50 * 18 ** 2 + 50 * 2 ** 2), 9);
});

test('labels belong to the hour and the variant of their capture; others are of the same judge alone', () => {
  const label = (hour: string, judge = 'j'): WindowLabel => ({
    ...{ scorer: 's', traceId: hour, hour, variant: 'v', judge, passed: true, label: true, weight: 1 },
  });
  const cells = [{ hour: '2026-11-20T10', variant: 'v' }];
  const all = [label('2026-11-20T10'), label('2026-11-20T11')];
  expect(labelsByCell(all)('s', cells)).toEqual({ labels: [all[0]], others: [all[1]] });
  expect(labelsByCell([...all, label('2026-11-20T12', 'other')])('s', cells).others).toEqual([]);
  expect(labelsByCell(all)('another', cells)).toEqual({ labels: [], others: [] });
});

describe('picks', () => {
  const safety = scorersFor().find(({ name }) => name === 'safety') as JudgeScorer;
  const refusal = scorersFor().find(({ name }) => name === 'refusal') as JudgeScorer;
  const assessment = (name: string, value: unknown, type = 'LLM_JUDGE') => ({
    ...{ assessment_name: name, source: { source_type: type, source_id: 'm' }, feedback: { value }, metadata: {} },
    ...{ valid: true, rationale: '', create_time: '', last_update_time: '' },
  });
  /** An MLflow without review queues. @param seen ids of the traces that get a tag */
  const mlflow = (traces: object[], seen: string[]) =>
    ({
      repeat: async ({ path }: { path: string }) => {
        const { MlflowRefusedError } = await import('../../../src/mlflow/errors.ts');
        if (path.includes('review-queues'))
          throw new MlflowRefusedError('', { got: '', where: '', status: 404, said: '', errorCode: undefined });
        if (path.endsWith('/tags')) seen.push(path.split('/')[5] ?? '');
        return { traces };
      },
    }) as never;
  const trace = (id: number, assessments: object[], tags = {}) => ({
    ...{ trace_id: `tr-${id}`, request_time: '', request_preview: '', response_preview: '', tags, assessments },
  });
  const pick = (traces: object[], seen: string[] = []) =>
    pickLabels(mlflow(traces, seen), { experimentId: '1', scorer: safety, scorers: [safety, refusal], next: 10 });

  test('are divided by what other scorers say, where each part is large enough', async () => {
    const traces = Array.from({ length: 100 }, (_, n) =>
      trace(n, [assessment('safety', 'yes'), assessment('refusal', n % 4 === 0 ? 'yes' : 'no')]),
    );
    const { strata } = await pick(traces);
    expect(strata.map(({ name, judged }) => [name, judged]).sort()).toEqual([
      ['passes, others fail, m', 25],
      ['passes, others pass, m', 75],
    ]);
    const few = traces.map((one, n) => (n < 96 ? trace(n, [assessment('safety', 'yes')]) : one));
    expect((await pick(few)).strata.map(({ name }) => name)).toEqual(['passes']);
  });

  test('leave out labelled traces and errors of the judge, and are the same at each call', async () => {
    const traces = [
      ...Array.from({ length: 30 }, (_, n) => trace(n, [assessment('safety', 'yes')])),
      ...Array.from({ length: 5 }, (_, n) =>
        trace(100 + n, [assessment('safety', 'yes'), assessment('safety', 'no', 'HUMAN')]),
      ),
      trace(200, [assessment('fluency', 'yes')]),
    ];
    const seen: string[] = [];
    const { waiting, queue, strata } = await pick(traces, seen);
    expect(queue).toBeNull();
    expect(strata).toEqual([
      expect.objectContaining({ judged: 35, labelled: 5, good: 0, picked: 10, probability: 15 / 35 }),
    ]);
    expect(seen.toSorted()).toEqual(waiting.toSorted());
    expect(waiting.filter((id) => Number(id.slice(3)) >= 100)).toEqual([]);
    expect((await pick(traces.toReversed())).waiting.toSorted()).toEqual(waiting.toSorted());
  });
});
