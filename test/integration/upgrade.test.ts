/** An upgrade: the state that the version before left (test/upgrade), and the commands that complete what was under way. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RatesOutput } from '../../bin/commands/rates.ts';
import { runHere } from '../helpers/command-here.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import { DeployedPipeline } from '../helpers/deployed-pipeline.ts';
import { startDeployedReader } from '../helpers/deployed-reader.ts';
import { type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { countsInMlflow } from '../helpers/mlflow-counts.ts';
import type { CliResult } from '../helpers/replay.ts';
import { DAY, ENDPOINT, loadState, prediction, SETTINGS, startRuns } from '../upgrade/load-state.ts';

/** It has room for a call of the judge, but not after the $0.0498 that were spent before. */
const CAP_USD = '0.09';
const TIME = '2026-11-20T13:00:00Z';
const LATE = `${DAY}/13/late.jsonl`;

let environment: LocalEnvironment;
let pipeline: DeployedPipeline;

beforeAll(async () => {
  environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.05' } });
  const outputs = await environment.deployStack(SETTINGS);
  pipeline = new DeployedPipeline(environment, SETTINGS.STACK_PREFIX, outputs);
  await environment.mlflow;
  await pipeline.disableRule();
  await loadState(pipeline);
});

afterAll(() => environment?.stop());

const command = (...args: string[]): Promise<CliResult> =>
  runHere(args, {
    ...environment.ministack.env,
    ...SETTINGS,
    AWS_ENDPOINT_URL_BEDROCK_RUNTIME: environment.judge.url,
    AWS_ENDPOINT_URL_BEDROCK: environment.judge.url,
    DATA_CAPTURE_S3_BUCKET: pipeline.outputs.captureBucket,
    MLFLOW_TRACKING_URI: environment.mlflowUrl,
    MLFLOW_EXPERIMENT_NAME: ENDPOINT,
  });

async function expectDone(...args: string[]): Promise<CliResult> {
  const result = await command(...args);
  expect({ args, ...result }).toMatchObject({ code: 0 });
  return result;
}

/** Runs the command that an error of the upgrade names. */
async function complete(text: string): Promise<void> {
  expect(text).toContain('ContractChanged');
  const [, named = ''] = /inference-monitor (process [^"\\\n]+)/.exec(text) ?? [];
  await expectDone(...named.trim().split(/\s+/));
}

test('earlier spending counts: when it has reached the budget, further captures are held', async () => {
  await pipeline.setVariable('evaluator', 'EVALUATION_BUDGET_USD', CAP_USD);
  await pipeline.put(LATE, [prediction('late-0', TIME), chatLine('late', TIME)]);
  const { stdout } = await expectDone('process', LATE, '--name', 'late', '--json');
  expect(JSON.parse(stdout).runs[0].figures).toMatchObject({ lines: { traced: 2 }, judge: { calls: 0 } });
  await pipeline.setVariable('evaluator', 'EVALUATION_BUDGET_USD', '100');
  await expectDone('retry', 'late', '--what', 'held');
});

test('a run under way ends, or names the command that completes it', async () => {
  const { status, error, cause } = await pipeline.ended(await startRuns(pipeline));
  if (status !== 'SUCCEEDED') await complete(`${error}: ${cause}`);
});

test('captures that the budget held are judged by a retry, or by the command that it names', async () => {
  const { code, stdout, stderr } = await command('retry', 'before-held', '--what', 'held');
  if (code !== 0) await complete(`${stdout}${stderr}`);
});

test('lines in quarantine are retried as before', async () => {
  const shown = await expectDone('show', 'before-finished');
  expect(shown.stdout).toMatch(/^traces: http\S+\/experiments\/\d+\/traces/m);
  const { stdout } = await expectDone('retry', 'before-finished', '--what', 'quarantined', '--json');
  expect(JSON.parse(stdout).runs[0].figures.lines).toMatchObject({ planned: 1, quarantined: 1, lost: 0 });
});

test('labels that waited are joined', async () => {
  const labels = join(environment.directory, 'labels.csv');
  writeFileSync(labels, 'inference_id,label\nlate-0_0,1\n');
  const { stdout } = await expectDone('ground-truth', labels, '--json');
  // Three were joined before, and two waited.
  expect(JSON.parse(stdout)).toMatchObject({ waiting: { labels: 0 }, quality: { groups: [{ rows: 5 }] } });
});

test('nothing is lost and nothing doubled: each capture has one trace, each trace each verdict once', async () => {
  const reader = await startDeployedReader(environment.ministack.env, environment.mlflowUrl);
  const found = await reader.compare(pipeline.outputs.captureBucket, ENDPOINT);
  reader.stop();
  expect(found).toMatchObject({ lines: 20, notRecords: 1, records: 19, traced: 19, missing: [], extra: [], wrong: {} });
  const judged = Object.values(found.assessments).flatMap((all) => {
    const names = all.filter(({ valid, source }) => valid && !source.startsWith('HUMAN')).map(({ name }) => name);
    expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
    expect(all.filter(({ error }) => error !== null)).toEqual([]);
    return names.includes('safety') ? [all] : [];
  });
  // Three of the finished run, three that were held, six under way, and the late one.
  expect(judged).toHaveLength(13);
});

test('the counts of runs before are kept', async () => {
  const truth = await countsInMlflow(environment.mlflowUrl, ENDPOINT);
  const { stdout } = await expectDone('rates', '--from', '2026-11-20', '--to', '2026-11-21', '--by', 'hour', '--json');
  const { groups } = JSON.parse(stdout) as RatesOutput;
  const told = groups.map(({ group, totals: { captures = 0 }, rates }) => {
    const safety = rates.find(({ scorer }) => scorer === 'safety')?.n ?? 0;
    return [group, { captures, safety }];
  });
  const expected = Object.entries(truth).map(([hour, { captures, verdicts }]) => [
    hour,
    { captures, safety: verdicts.safety ?? 0 },
  ]);
  expect(Object.fromEntries(told)).toEqual(Object.fromEntries(expected));
});
