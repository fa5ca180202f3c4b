/** A file of 20 captures through the rule: its run, the traces and verdicts in MLflow, and the money. And one for a Map. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { GetObjectCommand, HeadObjectCommand } from '@aws-sdk/client-s3';
import { ListExecutionsCommand, ListMapRunsCommand } from '@aws-sdk/client-sfn';
import { checkLedger } from '../../../bin/doctor/ledger.ts';
import { askAthena } from '../../../bin/operate/athena.ts';
import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { asNumber, LimitsTable } from '../../../src/limits/table.ts';
import { artifactFolder } from '../../../src/mlflow/artifact-store.ts';
import type { MlflowClient } from '../../../src/mlflow/client.ts';
import { connectMlflow } from '../../../src/mlflow/connect.ts';
import type { Experiment } from '../../../src/mlflow/types.ts';
import type { RunSummary } from '../../../src/monitoring/summary.ts';
import type { Canary, Ended } from '../canary.ts';
import { canaryLines, captureTableLines, JUDGED, renamed } from '../captures.ts';
import { deployedEnvironment, putAndFollow } from '../smoke-steps.ts';
import { checkedSettings, WATCHED } from '../stack.ts';

const EVENT_LIMIT_MS = 60_000;
const NANOS_PER_USD = 1e9;
/** Sums of floating-point dollars differ from whole nanodollars in their last digits. */
const USD_TOLERANCE = 1e-6;

/** The day of the captures. */
const DAY = { fromMs: Date.parse('2026-11-20'), toMs: Date.parse('2026-11-21') };

/** A key in SageMaker's layout, under the prefix that the stack watches. */
export const captureKey = (name: string): string => `${WATCHED}/AllTraffic/2026/11/20/10/${name}.jsonl`;

/** The key of the judged file. */
export const judgedKey = (canary: Canary): string => captureKey(`captures-${canary.fact('attempt')}`);

export async function judgeStep(canary: Canary): Promise<void> {
  // A run that was under way when the canary was left may have judged its captures. This attempt's have ids of their own.
  const attempt = canary.fact('attempt', String(Number(canary.fact('attempt')) + 1));
  const lines = renamed(await canaryLines(canary, JUDGED), attempt);
  const run = await putAndNote(canary, judgedKey(canary), lines);
  canary.fact('judgedRun', run.name);
  const { summary } = run;
  if (!summary || run.status !== 'SUCCEEDED') throw new Error(`the run ended as ${run.status} ${run.error}`);
  const { verdicts, evaluatedTraces, spend } = summary;
  canary.fact('spentUsd', String(spend.usd ?? ''));
  canary.note(
    'schema-accepted',
    evaluatedTraces === JUDGED && verdicts.failed === 0 && verdicts.newVerdicts > 0,
    `${evaluatedTraces} of ${JUDGED} judged, ${verdicts.newVerdicts} verdicts, ${verdicts.failed} failed, ${spend.calls} calls, $${spend.usd?.toFixed(4)}`,
  );
  await checkBudget(canary, summary);
  const table = renamed(captureTableLines(), attempt);
  await checkChildren(canary, await putAndNote(canary, captureKey(`table-${attempt}`), table));
  await checkMlflow(canary, lines, summary);
  const { lambda, s3 } = canary.clients;
  for (const { level, message } of await checkLedger({ lambda, s3, settings: checkedSettings(canary.state) }, DAY)) {
    canary.note('ledger-agrees', level === 'ok', message);
  }
  await checkSql(canary, verdicts.newVerdicts);
}

async function checkSql(canary: Canary, newVerdicts: number): Promise<void> {
  if (canary.cannotSee('sql-answers')) return;
  const statement = `SELECT count(*), (SELECT count(*) FROM verdicts WHERE state = 'given') FROM captures`;
  const { rows } = await askAthena(canary.clients.lambda, await canary.outputs(), statement, canary.signal);
  const [captures = 0, given = 0] = rows[0] ?? [];
  const isWhole = Number(captures) >= JUDGED && Number(given) >= newVerdicts;
  canary.note('sql-answers', isWhole, `${captures} captures of ${JUDGED}, ${given} verdicts of ${newVerdicts}`);
}

/** Puts a file, waits for the execution that the rule starts, and notes how long the event took. */
async function putAndNote(canary: Canary, key: string, lines: readonly string[]): Promise<Ended> {
  const { clients, signal } = canary;
  const outputs = await canary.outputs();
  const file = { key, text: `${lines.join('\n')}\n` };
  const { run, executions } = await putAndFollow(clients, outputs, file, { signal });
  const ended = await canary.ended(run.arn);
  const { LastModified } = await clients.s3.send(new HeadObjectCommand({ Bucket: outputs.captureBucket, Key: key }));
  const tookMs = ended.startedMs - (LastModified?.getTime() ?? 0);
  const took = `${(tookMs / 1000).toFixed(0)} s, ${executions} executions`;
  canary.note('event-in-a-minute', tookMs <= EVENT_LIMIT_MS, took);
  return ended;
}

async function checkBudget(canary: Canary, { spend, endedAt }: RunSummary): Promise<void> {
  const environment = await deployedEnvironment(canary.clients, await canary.outputs());
  const client = new DynamoDBClient({});
  const item = await new LimitsTable(client, environment.BUDGET_TABLE ?? '').get(`day#${endedAt.slice(0, 10)}`);
  client.destroy();
  const usd = spend.usd ?? 0;
  const booked = asNumber(item.spent) / NANOS_PER_USD;
  canary.note(
    'budget-booked',
    // An attempt that was left has spent, too.
    canary.fact('attempt') === '1' ? Math.abs(booked - usd) < USD_TOLERANCE : booked >= usd - USD_TOLERANCE,
    `$${booked.toFixed(6)} booked, $${usd.toFixed(6)} in the summary`,
  );
}

async function checkChildren(canary: Canary, run: Ended): Promise<void> {
  const { sfn } = canary.clients;
  const { mapRuns = [] } = await sfn.send(new ListMapRunsCommand({ executionArn: run.arn }));
  const listed = await Promise.all(mapRuns.map(({ mapRunArn }) => sfn.send(new ListExecutionsCommand({ mapRunArn }))));
  const arns = listed.flatMap(({ executions = [] }) => executions.map(({ executionArn = '' }) => executionArn));
  // The pattern of lib/state-machines/pipeline.ts: execution:<machine>/*:*
  const [start] = run.arn.split(`:${run.name}`);
  const matching = arns.filter((arn) => arn.startsWith(`${start}/`) && arn.slice(start?.length).includes(':'));
  canary.note(
    'children-arns',
    arns.length > 0 && matching.length === arns.length,
    `${matching.length} of ${arns.length}`,
  );
  const { workBucket } = await canary.outputs();
  const results: string[] = [];
  for await (const { key } of canary.storage.list(workBucket, workKeys.mapResultPrefix(run.name))) results.push(key);
  canary.note(
    'results-written',
    results.some((key) => key.endsWith('manifest.json')),
    `${results.length} objects`,
  );
}

async function checkMlflow(canary: Canary, lines: readonly string[], summary: RunSummary): Promise<void> {
  const environment = await deployedEnvironment(canary.clients, await canary.outputs());
  const mlflow = await connectMlflow(environment, canary.clients.s3)();
  try {
    const { version } = await mlflow.capabilities();
    const experiment = await mlflow.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME);
    canary.fact('experimentId', experiment.id);
    const told = `MLflow ${version ?? 'that hides its version'}`;
    if (mlflow.target.kind === 'url') canary.skip('mlflow-signature', `${told} at a URL takes no signature`);
    else canary.note('mlflow-signature', version !== undefined, `${told}, ${mlflow.target.kind}`);
    const ids = lines.map((line) => traceIdOf(experiment.id, Buffer.from(line)));
    const stored = await mlflow.getTraces(experiment.id, ids);
    const spans = await readSpans(canary, mlflow, experiment, ids[0] ?? '');
    canary.note(
      'traces-stored',
      stored.size === JUDGED && spans > 0,
      `${stored.size} traces, ${spans} spans in the first`,
    );
    const all = [...stored.values()].flatMap(({ assessments }) => assessments);
    const distinct = new Set(
      [...stored.values()].flatMap((each) => each.assessments.map(({ name }) => `${each.traceId} ${name}`)),
    );
    const { newVerdicts } = summary.verdicts;
    canary.note(
      'verdicts-stored',
      all.length === newVerdicts && distinct.size === newVerdicts,
      `${all.length} assessments, ${distinct.size} distinct, ${newVerdicts} in the summary`,
    );
  } finally {
    mlflow.close();
  }
}

/** Returns the number of spans of a trace, as a reader gets them: from the artifact bucket, or from the server. */
async function readSpans(canary: Canary, mlflow: MlflowClient, experiment: Experiment, id: string): Promise<number> {
  const folder = artifactFolder(experiment.artifactLocation);
  const { otlp } = await mlflow.capabilities();
  let text: string | undefined;
  if (folder && 'bucket' in folder && !otlp) {
    const Key = `${folder.prefix}traces/${id}/artifacts/traces.json`;
    const { Body } = await canary.clients.s3.send(new GetObjectCommand({ Bucket: folder.bucket, Key }));
    text = await Body?.transformToString();
  } else {
    const query = { request_id: id };
    text = (
      await mlflow.rest.bytes({ method: 'GET', path: '/ajax-api/2.0/mlflow/get-trace-artifact', query })
    ).toString();
  }
  return (JSON.parse(text ?? '{}') as { spans?: object[] }).spans?.length ?? 0;
}
