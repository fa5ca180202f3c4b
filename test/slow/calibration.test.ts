/** Calibration with scikit-learn as the reference, a real MLflow server, and a stand-in judge with Bedrock's protocol. */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEFAULT_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import { cohensKappa } from '../../src/core/statistics/agreement.ts';
import type { ScorerValues } from '../../src/core/values/scorer-values.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import type { ScorerReport } from '../../src/quality/calibration/report.ts';
import { calibrationReport } from '../../src/quality/calibration/report.ts';
import type { LabeledVerdict } from '../../src/quality/calibration/types.ts';
import { pseudoRandom } from '../doubles/faulty-judge/behavior.ts';
import { type StandInJudge, startStandInJudge } from '../doubles/faulty-judge/server.ts';
import { Calibration, type Case, compare, nearKappa, type Reference } from '../helpers/calibration.ts';
import { testPeopleAndJudge } from '../helpers/people-and-judge.ts';

let calibration: Calibration;
beforeAll(async () => {
  calibration = await Calibration.start();
});
afterAll(() => calibration?.stop());

testPeopleAndJudge(DEFAULT_MLFLOW_VERSION, () => calibration);

test('computes the same figures as scikit-learn', async () => {
  const random = pseudoRandom(7);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const sets: { values: string[]; scorer: ScorerValues; n: number; accuracy: number }[] = [];
  for (const n of [20, 300, 2000]) {
    for (const accuracy of [0.05, 0.5, 0.8, 0.97]) {
      sets.push({ values: ['yes', 'no'], scorer: { kind: 'yes-no' }, n, accuracy });
      const categories = ['coherent', 'somewhat coherent', 'incoherent'];
      sets.push({ values: categories, scorer: { kind: 'categories', values: categories }, n, accuracy });
    }
  }
  const cases: Case[] = [];
  const reports: ScorerReport[] = [];
  for (const { values, scorer, n, accuracy } of sets) {
    const pairs: LabeledVerdict[] = Array.from({ length: n }, (_, index) => {
      // Skewed like real labels.
      const label = random() < 0.6 ? (values[0] as string) : pick(values);
      const verdict = random() < accuracy ? label : pick(values.filter((value) => value !== label));
      return { id: String(index), scorer: 's', label, verdict, agrees: label === verdict, request: '', reply: '' };
    });
    cases.push({
      labels: pairs.map(({ label }) => String(label)),
      verdicts: pairs.map(({ verdict }) => String(verdict)),
      values,
    });
    const one = [{ name: 's', version: '1', values: scorer }];
    const source = { kind: 'labels', where: '' } as const;
    const { scorers } = calibrationReport({ source, scorers: one, pairs, unanswered: [] });
    reports.push(scorers[0] as ScorerReport);
  }
  const theirs = await calibration.reference(cases);
  reports.forEach((report, index) => {
    compare(report, theirs[index] as Reference);
    if (report.confusion !== null)
      nearKappa(cohensKappa(report.confusion, 'quadratic'), (theirs[index] as Reference).kappa_quadratic, report.n);
  });
});

describe('asking the judge', () => {
  let judge: StandInJudge;
  let env: Record<string, string>;
  beforeAll(async () => {
    judge = await startStandInJudge();
    const keys = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
    env = { ...keys, AWS_ENDPOINT_URL_BEDROCK_RUNTIME: judge.url, AWS_REGION: 'us-east-1' };
  });
  afterAll(() => judge?.close());

  test('makes one call per exchange of a labels file, and computes the same figures as scikit-learn', async () => {
    const file = join(calibration.folder, 'labels.jsonl');
    const replies = [
      'Parcels take three to five days.',
      'You idiot, parcels take as long as they take.',
      'I cannot help with that.',
      'Parcels parcels parcels parcels take take days days.',
      'The weather is nice.',
    ];
    const lines = Array.from({ length: 60 }, (_, index) => {
      const scorer = ['professional_tone', 'refusal', 'fluency'][index % 3];
      const reply = `${replies[index % 5]} (${Math.floor(index / 15)})`;
      const label = index % 4 === 0 ? 'no' : 'yes';
      return JSON.stringify({ request: 'How long do parcels take?', reply, scorer, label, reason: `case ${index}` });
    });
    writeFileSync(file, `${lines.join('\n')}\n`);
    const { report, stderr } = await calibration.calibrate(['--labels', file], env);
    expect(stderr).toContain('which costs at most $');
    // 5 replies × 4 numbers are 20 exchanges with 3 labels each.
    expect(report.spend?.calls).toBe(20);
    expect(report.spend?.usd).toBeGreaterThan(0);
    expect(report.pairs).toHaveLength(60);
    await calibration.compareAll(report);
  });

  test('detects drift of a changed judge on the anchor set, and none of the same judge', async () => {
    const baseline = join(calibration.folder, 'baseline.json');
    const first = await calibration.calibrate(['--anchors'], env);
    writeFileSync(baseline, first.stdout);
    expect(first.report.overall.n).toBe(80);
    const second = await calibration.calibrate(['--anchors', '--baseline', baseline], env);
    expect(second.report.drift).toMatchObject({ verdict: 'none', items: 80, changed: [] });
    const kept = first.report;
    const opposite = kept.pairs.map((pair) => ({ ...pair, verdict: pair.label }));
    writeFileSync(baseline, JSON.stringify({ ...kept, pairs: opposite }));
    await expect(calibration.calibrate(['--anchors', '--baseline', baseline], env)).rejects.toMatchObject({
      code: 1,
      stdout: expect.stringContaining('"verdict": "drifted"'),
    });
  });

  test('shows the judge corrected mistakes in later runs', async () => {
    // The command writes into its project, which is a copy here.
    const project = join(calibration.folder, 'project');
    mkdirSync(join(project, 'src', 'judge', 'scorers'), { recursive: true });
    writeFileSync(join(project, 'package.json'), '{"name": "sagemaker-inference-monitor"}');
    const file = join(calibration.folder, 'corrected.jsonl');
    const exchange = { request: 'Where is my parcel?', reply: 'Hm, dunno, look for it yourself.' };
    const line = { ...exchange, scorer: 'professional_tone' };
    writeFileSync(file, JSON.stringify({ ...line, label: 'no', reason: 'It brushes the customer off.' }));
    const { stderr, report } = await calibration.calibrate(['--labels', file, '--add-examples'], env, project);
    expect(report.pairs).toEqual([expect.objectContaining({ verdict: 'yes', agrees: false })]);
    expect(stderr).toMatch(/professional_tone: 1 example added, version 1\+ex-[0-9a-f]{8}/);
    const examples = JSON.parse(readFileSync(join(project, 'src', 'judge', 'scorers', 'scorer-examples.json'), 'utf8'));
    expect(examples).toEqual({
      professional_tone: [
        { request: line.request, reply: line.reply, value: 'no', rationale: 'It brushes the customer off.' },
      ],
    });
    const tone = scorersFor({ examples }).find(({ name }) => name === 'professional_tone');
    expect(stderr).toContain(`version ${tone?.version}`);
  });

  test('stays within the budget, and refuses a judge with an unknown price', async () => {
    const { report } = await calibration.calibrate(['--anchors', '--budget', '0.2'], env);
    expect(report.spend?.usd).toBeLessThanOrEqual(0.2);
    expect(report.unanswered.filter(({ reason }) => reason === 'held').length).toBeGreaterThan(0);
    await expect(calibration.calibrate(['--anchors', '--judge-model', 'vendor.new-model'], env)).rejects.toMatchObject({
      stderr: expect.stringContaining('JudgePriceUnknown'),
    });
  });
});
