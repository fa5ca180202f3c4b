/** Calibration with scikit-learn as the reference, a real MLflow server, and a stand-in judge with Bedrock's protocol. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectPath } from '../../local/project-root.ts';
import {
  DEFAULT_MLFLOW_VERSION,
  defaultPythonEnvironment,
  MANAGED_MLFLOW_VERSION,
} from '../../local/python/python-presets.ts';
import { type MlflowServer, startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { pseudoRandom } from '../../local/stand-in-judge/behavior.ts';
import { type StandInJudge, startStandInJudge } from '../../local/stand-in-judge/server.ts';
import { pickedFilter } from '../../src/calibration/label-tag.ts';
import type { LabelPicks } from '../../src/calibration/pick-labels.ts';
import { calibrationReport } from '../../src/calibration/report.ts';
import { queueName } from '../../src/calibration/review-queue.ts';
import { terminalReport } from '../../src/calibration/terminal-report.ts';
import type { CalibrationReport, LabeledVerdict, ScorerReport } from '../../src/calibration/types.ts';
import { labelsByCell, readWindowLabels } from '../../src/calibration/window-labels.ts';
import { isJudgeScorer, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import type { ScorerValues } from '../../src/judge/types.ts';
import { createMlflowClient, type MlflowClient } from '../../src/mlflow/client.ts';
import { cohensKappa } from '../../src/shared/statistics/agreement.ts';
import type { Estimate } from '../../src/shared/statistics/share.ts';
import { chatTrace, verdict } from '../helpers/mlflow-traces.ts';

const run = promisify(execFile);

/** Seven kinds of traces, three each. */
const TRACES = 21;

let python: string;
let folder: string;

beforeAll(async () => {
  ({ python } = await defaultPythonEnvironment());
  folder = mkdtempSync(join(tmpdir(), 'calibration-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Reference {
  agreement: number[] | null;
  accuracy: number;
  confusion: number[][];
  tpr: number[] | null;
  tnr: number[] | null;
  recall: number;
  f1: number[];
  kappa_none: [number, number] | null;
  kappa_linear: [number, number] | null;
  kappa_quadratic: [number, number] | null;
}
interface Case {
  labels: string[];
  verdicts: string[];
  values: string[];
}

const reference = (cases: Case[]): Reference[] =>
  JSON.parse(
    execFileSync(python, [projectPath('test', 'helpers', 'agreement.py')], {
      input: JSON.stringify(cases),
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    }),
  );

function near(ours: Estimate | null | undefined, theirs: number[] | null): void {
  if (theirs === null) {
    expect(ours ?? null).toBeNull();
    return;
  }
  [ours?.value, ours?.low, ours?.high].forEach((figure, index) => {
    expect(figure).toBeCloseTo(theirs[index] as number, 9);
  });
}

function nearKappa(ours: Estimate | null | undefined, theirs: [number, number] | null, n: number): void {
  if (theirs === null) {
    expect(ours ?? null).toBeNull();
    return;
  }
  const [value, error] = theirs;
  expect(ours?.value).toBeCloseTo(value, 9);
  // The reference interval uses the jackknife, another method. They agree for hundreds of labels.
  if (n < 300) return;
  const half = ((ours?.high as number) - (ours?.low as number)) / 2;
  if ((ours?.high as number) < 1 && (ours?.low as number) > -1) {
    expect(half / 1.96).toBeGreaterThan(error * 0.9);
    expect(half / 1.96).toBeLessThan(error * 1.1);
  }
}

/** Compares every figure of a scorer's report with scikit-learn's. */
function compare(report: ScorerReport, theirs: Reference): void {
  near(report.agreement, theirs.agreement);
  expect(report.agreement?.value).toBeCloseTo(theirs.accuracy, 12);
  expect(report.confusion?.counts).toEqual(theirs.confusion);
  near(report.tpr, theirs.tpr);
  near(report.tnr, theirs.tnr);
  if (report.tpr !== null) expect(report.tpr.value).toBeCloseTo(theirs.recall, 12);
  report.classes.forEach(({ f1 }, index) => {
    expect(f1 ?? 0).toBeCloseTo(theirs.f1[index] as number, 12);
  });
  nearKappa(report.kappa, theirs.kappa_none, report.n);
  if (report.weightedKappa !== null) nearKappa(report.weightedKappa, theirs.kappa_linear, report.n);
}

test('computes the same figures as scikit-learn', () => {
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
    const { scorers } = calibrationReport({
      source: { kind: 'labels', where: '' },
      scorers: [{ name: 's', version: '1', values: scorer }],
      pairs,
      unanswered: [],
    });
    reports.push(scorers[0] as ScorerReport);
  }
  const theirs = reference(cases);
  reports.forEach((report, index) => {
    compare(report, theirs[index] as Reference);
    if (report.confusion !== null)
      nearKappa(cohensKappa(report.confusion, 'quadratic'), (theirs[index] as Reference).kappa_quadratic, report.n);
  });
});

/** Runs the command and returns the report that it wrote. */
async function calibrate(
  args: string[],
  env: Record<string, string>,
  cwd = projectPath(),
): Promise<{ report: CalibrationReport; stdout: string; stderr: string }> {
  const json = join(folder, 'report.json');
  const page = join(folder, 'report.html');
  const script = projectPath('bin', 'inference-monitor.ts');
  // Ignores the .env of the person who runs the tests.
  const clean = { PATH: process.env.PATH ?? '', DOTENV_CONFIG_PATH: join(folder, 'none'), ...env };
  const { stdout, stderr } = await run(
    process.execPath,
    [script, 'calibrate', ...args, '--json', json, '--html', page],
    {
      env: clean,
      cwd,
    },
  );
  expect(readFileSync(page, 'utf8')).toContain('<h1>Judge calibration</h1>');
  return { report: JSON.parse(readFileSync(json, 'utf8')) as CalibrationReport, stdout, stderr };
}

/** Writes 40 traces of which the judge fails every fifth. @returns the id of the experiment “to-label” */
async function judgedTraces(client: MlflowClient): Promise<string> {
  const experiment = await client.resolveExperiment('to-label');
  const traces = Array.from({ length: 40 }, (_, n) => chatTrace(experiment.id, `record ${n}`));
  const assessments = traces.map(({ traceId }, n) => {
    const metadata = { 'monitoring.sample': '0.5' };
    return [verdict(traceId, 'safety', { value: n % 5 === 0 ? 'no' : 'yes', metadata })];
  });
  await client.writeTraces(
    experiment,
    traces,
    new Map(traces.map(({ traceId }, n) => [traceId, assessments[n] ?? []])),
  );
  return experiment.id;
}

/** The command `label`, and what people do with what it picks. */
class LabelQueue {
  readonly #url: string;
  readonly window: { experimentId: string; fromMs: number; toMs: number };

  constructor(url: string, experimentId: string) {
    this.#url = url;
    this.window = { experimentId, fromMs: Date.parse('2026-11-20'), toMs: Date.parse('2026-11-21') };
  }

  async label(args: string[] = []): Promise<LabelPicks> {
    const script = projectPath('bin', 'inference-monitor.ts');
    const window = ['--from', '2026-11-20', '--to', '2026-11-21'];
    const own = ['label', '--next', '10', '--scorer', 'safety', '--experiment', 'to-label', ...window, '--json'];
    const env = {
      PATH: process.env.PATH ?? '',
      DOTENV_CONFIG_PATH: join(folder, 'none'),
      MLFLOW_TRACKING_URI: this.#url,
    };
    const { stdout } = await run(process.execPath, [script, ...own, ...args], { env });
    return JSON.parse(stdout)[0];
  }

  async #call<T>(method: string, path: string, json?: unknown): Promise<T> {
    const body =
      json === undefined ? {} : { body: JSON.stringify(json), headers: { 'content-type': 'application/json' } };
    const reply = await fetch(`${this.#url}/api/3.0/mlflow/${path}`, { method, ...body });
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
    return (await reply.json()) as T;
  }

  /** Searches with the filter that the command prints. */
  async tagged(): Promise<{ trace_id: string; tags: Record<string, string> }[]> {
    const { experimentId } = this.window;
    const found = await this.#call<{ traces: { trace_id: string; tags: Record<string, string> }[] }>(
      'POST',
      'traces/search',
      {
        locations: [{ type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: experimentId } }],
        filter: pickedFilter('safety'),
        max_results: 100,
      },
    );
    return found.traces;
  }

  async assess(traceId: string, value: string): Promise<void> {
    const source = { source_type: 'HUMAN', source_id: 'person@example.com' };
    const now = new Date().toISOString();
    const assessment = {
      assessment_name: 'safety',
      trace_id: traceId,
      source,
      feedback: { value },
      create_time: now,
      last_update_time: now,
    };
    await this.#call('POST', `traces/${traceId}/assessments`, { assessment });
  }

  /** A trace that was taken out of the queue, as if the command had been killed before it put it in, comes back. */
  async expectReviewQueue(traceIds: readonly string[]): Promise<void> {
    const name = encodeURIComponent(queueName('safety'));
    const { review_queue: queue } = await this.#call<{ review_queue: { queue_id: string; schema_ids: string[] } }>(
      'GET',
      `review-queues/get-by-name?experiment_id=${this.window.experimentId}&name=${name}`,
    );
    const items = async () => {
      const path = `review-queues/items/list?queue_id=${queue.queue_id}`;
      const { items: found } = await this.#call<{ items: { item_id: string }[] }>('GET', path);
      return found.map(({ item_id: id }) => id).sort();
    };
    expect(await items()).toEqual(traceIds.toSorted());
    const { label_schema: schema } = await this.#call<{ label_schema: { name: string; input: unknown } }>(
      'GET',
      `label-schemas/get?schema_id=${queue.schema_ids[0]}`,
    );
    expect(schema).toMatchObject({ name: 'safety', input: { categorical: { options: ['yes', 'no'] } } });
    await this.#call('POST', 'review-queues/items/remove', {
      queue_id: queue.queue_id,
      item_ids: traceIds.slice(0, 2),
    });
    await this.label();
    expect(await items()).toEqual(traceIds.toSorted());
    // What people set aside is not asked again; another trace is picked.
    const [first = ''] = traceIds;
    const aside = { queue_id: queue.queue_id, item_id: first, status: 'DECLINED', completed_by: 'person' };
    await this.#call('POST', 'review-queues/items/set-status', aside);
    const other = await this.label();
    expect([other.picked, other.waiting.includes(first)]).toEqual([1, false]);
  }
}

/** Compares every scorer's figures with scikit-learn's, in one Python process for all of them. */
function compareAll({ scorers, pairs }: CalibrationReport): void {
  const cases = scorers.map(({ name, confusion }) => {
    const own = pairs.filter(({ scorer }) => scorer === name);
    return {
      labels: own.map(({ label }) => String(label)),
      verdicts: own.map(({ verdict }) => String(verdict)),
      values: confusion?.values ?? [],
    };
  });
  const theirs = reference(cases);
  expect(theirs).toHaveLength(scorers.length);
  scorers.forEach((scorer, index) => {
    compare(scorer, theirs[index] as Reference);
  });
}

describe.each([DEFAULT_MLFLOW_VERSION, MANAGED_MLFLOW_VERSION])(
  'people and judge on the same traces, MLflow %s',
  (version) => {
    let mlflow: MlflowServer;
    beforeAll(async () => {
      mlflow = await startMlflowServer({ version });
    });
    afterAll(() => mlflow?.stop());

    test('reads labels, overrides, majorities and ties that MLflow’s client wrote', async () => {
      const { stdout } = await run(
        python,
        [projectPath('test', 'helpers', 'assessed_traces.py'), mlflow.url, 'my-endpoint', String(TRACES), '3'],
        { maxBuffer: 1 << 26 },
      );
      const made = JSON.parse(stdout.trim().split('\n').at(-1) as string) as {
        traces: number;
        pairs: Record<string, [string | boolean, string | boolean][]>;
      };
      expect(made.traces).toBe(TRACES);
      const { report, stdout: text } = await calibrate(['--experiment', 'my-endpoint'], {
        MLFLOW_TRACKING_URI: mlflow.url,
      });
      expect(report.source).toEqual({ kind: 'mlflow', where: `experiment my-endpoint (${TRACES} traces)` });
      expect(new Set(report.scorers.map(({ name }) => name))).toEqual(new Set(Object.keys(made.pairs)));
      for (const scorer of report.scorers) {
        const own = report.pairs.filter(({ scorer: name }) => name === scorer.name);
        const expected = made.pairs[scorer.name] ?? [];
        const sorted = (list: unknown[][]) => list.map(String).sort();
        expect(sorted(own.map(({ label, verdict }) => [label, verdict]))).toEqual(sorted(expected));
        // On every seventh trace, two people disagree.
        expect(scorer.unanswered).toEqual({ peopleDisagree: TRACES / 7 });
      }
      compareAll(report);
      const corrected = report.pairs.find(({ labelRationale }) => labelRationale?.startsWith('corrected'));
      expect(corrected).toMatchObject({ verdictRationale: 'by the judge', traceId: expect.stringMatching(/^tr-/) });
      expect(corrected?.request).toContain('question');
      expect(Object.keys(report.judges)).toEqual(['bedrock:/test-judge version 1']);
      expect(text).toContain("Cohen's κ");
    });

    test('picks traces to label, continues, and reads the labels back with their weights', async () => {
      const client = createMlflowClient({ trackingUri: mlflow.url });
      const queue = new LabelQueue(mlflow.url, await judgedTraces(client));
      try {
        const [first, again] = [await queue.label(), await queue.label()];
        expect(first).toMatchObject({ scorer: 'safety', picked: 10 });
        expect(new Set(again.waiting)).toEqual(new Set(first.waiting));
        expect(again.picked).toBe(0);
        // Both verdicts are picked, those that fail more often; what nobody else knows is no stratum.
        expect(first.strata.map(({ name, judged }) => [name, judged])).toEqual([
          ['passes', 32],
          ['fails', 8],
        ]);
        const [passes, fails] = first.strata;
        expect(fails?.probability).toBeGreaterThan(passes?.probability ?? 1);
        expect(passes?.picked).toBeGreaterThan(0);
        const tagged = await queue.tagged();
        expect(tagged.map(({ trace_id: id }) => id).sort()).toEqual(first.waiting.toSorted());
        for (const { tags } of tagged) {
          const pick = JSON.parse(tags.label_safety ?? '');
          expect(pick.probability).toBeCloseTo((pick.stratum === 'passes' ? passes : fails)?.probability ?? 0, 12);
          // A person's own tag is untouched.
          expect(tags.event_id).toMatch(/^event-/);
        }
        if (version === DEFAULT_MLFLOW_VERSION) await queue.expectReviewQueue(first.waiting);
        else expect(first.queue).toBeNull();

        const labelled = first.waiting.slice(1, 5);
        for (const id of labelled) await queue.assess(id, 'no');
        const next = await queue.label();
        expect(next.picked).toBe(4);
        expect(next.waiting.filter((id) => labelled.includes(id))).toEqual([]);
        for (const id of next.waiting) await queue.assess(id, 'yes');
        const { labels } = await readWindowLabels(client.rest, {
          ...queue.window,
          scorers: scorersFor().filter(isJudgeScorer),
        });
        expect(labels).toHaveLength(14);
        expect(labels[0]).toMatchObject({ scorer: 'safety', hour: '2026-11-20T09', variant: 'AllTraffic' });
        // The labels of each verdict stand for all captures with it, of which half were judged.
        const weightOf = (passed: boolean): number =>
          labels.filter((label) => label.passed === passed).reduce((sum, { weight }) => sum + weight, 0);
        expect([weightOf(true), weightOf(false)].map((weight) => Number(weight.toFixed(9)))).toEqual([64, 16]);
        const cells = labelsByCell(labels)('safety', [{ hour: '2026-11-20T09', variant: 'AllTraffic' }]);
        expect([cells.labels.length, cells.others.length]).toEqual([14, 0]);
        expect(labelsByCell(labels)('safety', []).others).toHaveLength(14);
      } finally {
        client.close();
      }
    });

    test('names scorers that cannot be labelled, and windows without judged traces', async () => {
      const queue = new LabelQueue(mlflow.url, 'to-label');
      await expect(queue.label(['--scorer', 'safty'])).rejects.toMatchObject({
        stderr: expect.stringMatching(/UnknownName.*did you mean safety\?/),
      });
      await expect(queue.label(['--from', '2020-01-01', '--to', '2020-01-02'])).rejects.toMatchObject({
        stderr: expect.stringContaining('NothingToLabel'),
      });
    });

    test('does not create a missing experiment', async () => {
      // Reads it twice, because the first read must not create it.
      for (let times = 0; times < 2; times += 1) {
        const asked = calibrate(['--experiment', 'another'], { MLFLOW_TRACKING_URI: mlflow.url });
        await expect(asked).rejects.toMatchObject({ stderr: expect.stringContaining('MlflowExperimentMissing') });
      }
    });
  },
);

describe('asking the judge', () => {
  let judge: StandInJudge;
  let env: Record<string, string>;
  beforeAll(async () => {
    judge = await startStandInJudge();
    env = {
      AWS_ENDPOINT_URL_BEDROCK_RUNTIME: judge.url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    };
  });
  afterAll(() => judge?.close());

  test('makes one call per exchange of a labels file, and computes the same figures as scikit-learn', async () => {
    const file = join(folder, 'labels.jsonl');
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
      return JSON.stringify({
        request: 'How long do parcels take?',
        reply,
        scorer,
        label: index % 4 === 0 ? 'no' : 'yes',
        reason: `case ${index}`,
      });
    });
    writeFileSync(file, `${lines.join('\n')}\n`);
    const { report, stderr } = await calibrate(['--labels', file], env);
    expect(stderr).toContain('dollars at most');
    // 5 replies × 4 numbers are 20 exchanges with 3 labels each.
    expect(report.spend?.calls).toBe(20);
    expect(report.spend?.usd).toBeGreaterThan(0);
    expect(report.pairs).toHaveLength(60);
    compareAll(report);
  });

  test('detects drift of a changed judge on the anchor set, and none of the same judge', async () => {
    const baseline = join(folder, 'baseline.json');
    const first = await calibrate(['--anchors', '--save-baseline', baseline], env);
    expect(first.report.overall.n).toBe(80);
    const second = await calibrate(['--anchors', '--baseline', baseline], env);
    expect(second.report.drift).toMatchObject({ verdict: 'none', items: 80, changed: [] });
    const kept = JSON.parse(readFileSync(baseline, 'utf8')) as CalibrationReport;
    const opposite = kept.pairs.map((pair) => ({ ...pair, verdict: pair.label }));
    writeFileSync(baseline, JSON.stringify({ ...kept, pairs: opposite }));
    await expect(calibrate(['--anchors', '--baseline', baseline], env)).rejects.toMatchObject({
      code: 1,
      stdout: expect.stringContaining('The judge has drifted'),
    });
  });

  test('asks in each way, and prints agreement and price side by side', async () => {
    const cheap = { ...env, JUDGE_CASCADE: 'global.anthropic.claude-haiku-4-5-20251001-v1:0' };
    const { report } = await calibrate(['--anchors', '--ways'], cheap);
    const ways = report.ways ?? [];
    expect(ways).toHaveLength(6);
    expect(ways.map(({ n, captures }) => [n, captures])).toEqual(ways.map(() => [80, 80]));
    const [own, plain] = ways;
    expect(own?.name).toContain('JUDGE_CASCADE');
    expect(own?.usdPer1000).toBeCloseTo(((report.spend?.usd ?? 0) / 80) * 1000, 9);
    // By the stand-in’s rules no way changes a verdict.
    expect(new Set(ways.map(({ agreement }) => agreement?.value)).size).toBe(1);
    const terse = ways.find(({ name }) => name === 'JUDGE_RATIONALES=failures JUDGE_PREFIX=short');
    expect(terse?.usdPer1000).toBeLessThan((plain?.usdPer1000 ?? 0) * 0.8);
    const table = terminalReport(report);
    expect(table).toMatch(/JUDGE_RATIONALES=failures JUDGE_PREFIX=short +80 +\d+\.\d%.* \d+\.\d\d$/m);
  });

  test('shows the judge corrected mistakes in later runs', async () => {
    // The command writes into its project, which is a copy here.
    const project = join(folder, 'project');
    mkdirSync(join(project, 'src', 'judge', 'scorers'), { recursive: true });
    writeFileSync(join(project, 'package.json'), '{"name": "sagemaker-inference-monitor"}');
    const file = join(folder, 'corrected.jsonl');
    const line = {
      request: 'Where is my parcel?',
      reply: 'Hm, dunno, look for it yourself.',
      scorer: 'professional_tone',
    };
    writeFileSync(file, JSON.stringify({ ...line, label: 'no', reason: 'It brushes the customer off.' }));
    const { stderr, report } = await calibrate(['--labels', file, '--add-examples'], env, project);
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
    const { report } = await calibrate(['--anchors', '--budget-usd', '0.2'], env);
    expect(report.spend?.usd).toBeLessThanOrEqual(0.2);
    expect(report.unanswered.filter(({ reason }) => reason === 'held').length).toBeGreaterThan(0);
    await expect(calibrate(['--anchors', '--model', 'vendor.new-model'], env)).rejects.toMatchObject({
      stderr: expect.stringContaining('JudgePriceUnknown'),
    });
  });
});
