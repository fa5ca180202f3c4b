/** The run of the monitoring that a finished replay starts for its exchanges. */
import type { ExchangesInput } from '../../../../src/core/contract/input.ts';
import { areaOf, replayKeys } from '../../../../src/core/contract/work-keys.ts';
import { RetryableError } from '../../../../src/core/errors/errors.ts';
import { writeSummary } from '../../../../src/replay/cloud/summarize/write-summary.ts';
import type { StoredPlan } from '../../../../src/replay/cloud/work-bucket/stored-plan.ts';
import { ReportCollector } from '../../../../src/replay/measure/report-collector.ts';
import { RunStats } from '../../../../src/replay/measure/run-stats.ts';
import { S3Wire } from '../../../doubles/s3-wire.ts';
import { storedPlan } from '../../../helpers/stored-plan.ts';

const RUN = 'run';
const START = 1_795_000_000_000;
const ARN = 'arn:aws:states:eu-central-1:1:execution:monitoring:replay-run';

let wire: S3Wire;
beforeEach(async () => {
  wire = await S3Wire.start();
});
afterEach(() => wire.stop());

const experiment = { id: '99', name: 'replays', artifactLocation: '' };
const mlflow = { experiment, runId: 'mlflow-run', monitoringRun: 'replay-run' };

/** Summarizes a replay of one request. @returns the runs that it started, and `replay.json` */
async function summarized(planned: Partial<StoredPlan>, { sent = 1, stopped = false, fails = false } = {}) {
  const stats = new RunStats();
  stats.succeeded = sent;
  stats.firstStartMs = START;
  stats.lastEndMs = START + 5;
  const put = (key: string, content: object): void => wire.put('work', key, JSON.stringify(content));
  if (stopped) put(replayKeys.stop(RUN), {});
  put(`${replayKeys.shardPrefix(RUN, 0)}result.json`, {
    ...{ shard: 0, endedAtMs: START + 5, lateMs: 0, sent, unsent: 1 - sent, stopped },
    ...{ maxConnections: 1, warmFailures: 0, skipped: {}, stats: stats.toJSON() },
    report: new ReportCollector().toJSON(),
  });
  const started: [string, ExchangesInput][] = [];
  const result = await writeSummary(RUN, storedPlan([1], { mlflow, ...planned }), undefined, {
    storage: wire.storage,
    workBucket: 'work',
    startMonitoring: async (name, input) => {
      started.push([name, input]);
      if (fails) throw new RetryableError('StepFunctionsUnavailable', 'Step Functions did not start an execution');
      return ARN;
    },
  });
  const key = `${areaOf('replayResults', RUN)}replay.json`;
  return { result, started, facts: wire.json<Record<string, unknown>>('work', key) };
}

const judge = (budgetUsd: number) => ({ judge: { model: 'm', budgetUsd } });
const replay = { run: RUN, experimentId: '99' };

test.each<[string, Partial<StoredPlan>, ExchangesInput]>([
  ['with MLflow', {}, { replay, evaluate: false }],
  ['with a judge', judge(20), { replay, evaluate: true, budgetUsd: 20 }],
  ['with a judge and no budget of its own', judge(0), { replay, evaluate: true }],
])('a replay %s starts one, and names it and its summary', async (_, planned, input) => {
  const { result, started, facts } = await summarized(planned);
  expect(started).toEqual([['replay-run', input]]);
  expect(result).toMatchObject({ ok: true, monitoringRun: 'replay-run' });
  const verdicts = `s3://work/replays/${RUN}/verdicts/`;
  expect(facts).toMatchObject({ monitoring_run: { name: 'replay-run', arn: ARN, verdicts } });
});

test.each<[string, Partial<StoredPlan>, { sent?: number; stopped?: boolean }]>([
  ['without MLflow', { mlflow: null }, {}],
  ['that sent nothing', judge(20), { sent: 0 }],
  ['that was stopped', judge(20), { stopped: true }],
])('a replay %s starts none', async (_, planned, how) => {
  const { result, started, facts } = await summarized(planned, how);
  expect(started).toEqual([]);
  expect(result).not.toHaveProperty('monitoringRun');
  expect(facts).not.toHaveProperty('monitoring_run');
});

test('a replay whose run cannot be started has its results, and fails by name', async () => {
  const { result, facts } = await summarized({}, { fails: true });
  expect(result).toMatchObject({ ok: false, error: 'StepFunctionsUnavailable' });
  expect(result.cause).toContain('No run traces and judges the exchanges');
  expect(facts).toMatchObject({ sent: 1 });
  expect(facts).not.toHaveProperty('monitoring_run');
});
