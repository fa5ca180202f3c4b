/** A replay of the captures that is left to its end, and one that is stopped. */
import { join } from 'node:path';
import { StopExecutionCommand } from '@aws-sdk/client-sfn';
import { areaOf, replayKeys } from '../../../src/core/contract/work-keys.ts';
import { replayState } from '../../../src/replay/cloud/summarize/stop-shards.ts';
import { readPlan } from '../../../src/replay/cloud/work-bucket/stored-plan.ts';
import { jsonLines } from '../../../src/replay/compare/json-lines.ts';
import { openRun } from '../../../src/replay/compare/open-run.ts';
import { FILES } from '../../../src/replay/results/result-set.ts';
import type { Canary } from '../canary.ts';
import { JUDGED } from '../captures.ts';
import { replayUrl } from '../stack.ts';
import { judgedKey } from './judge.ts';

const ON_TIME_MS = 500;
/** Time for the first requests of the stopped replay. */
const SENT_MS = 2_000;
const SHARD_LIMIT_MS = 300_000;
const RESULTS_LIMIT_MS = 120_000;
/** Shards look for the order every few seconds. */
const STILL_SENDS_MS = 15_000;
/** Ten seconds of captures become three minutes. */
const SLOW = 0.05;

interface Figures {
  sent: number;
  requests: number;
}

interface ReplayRecord {
  metadata: { request_start_ns: number };
  error?: unknown;
}

const targetOf = ({ state }: Canary) => (state.endpoint ? { endpoint: state.endpoint } : { url: replayUrl(state) });

async function startReplay(canary: Canary, name: string, more: object): Promise<{ arn: string; run: string }> {
  const machine = await canary.machine('replayStateMachineArn');
  const run = `${canary.state.prefix}-${name}-${Date.now()}`;
  const source = { prefix: judgedKey(canary) };
  const arn = await canary.start(
    machine,
    { source, target: targetOf(canary), fixedScheduleAutoOffset: true, ...more },
    run,
  );
  return { arn, run };
}

export async function replayStep(canary: Canary): Promise<void> {
  const { arn, run } = await startReplay(canary, 'replay', {});
  const { status, error } = await canary.ended(arn);
  const { figures, records } = await results(canary, run);
  const failed = records.filter((record) => record.error).length;
  canary.note(
    'replay-sent',
    status === 'SUCCEEDED' && figures.sent >= JUDGED && figures.sent === figures.requests && failed === 0,
    `${status} ${error}: ${figures.sent} of ${figures.requests} sent, ${failed} failed`,
  );
  const { workBucket } = await canary.outputs();
  const summary = await canary.storage.getJson<Record<string, { p99?: number }>>(
    workBucket,
    `${areaOf('replayResults', run)}${FILES.summaryJson}`,
  );
  const lag = summary?.credit_to_start_latency?.p99 ?? Number.POSITIVE_INFINITY;
  canary.note('replay-on-time', lag <= ON_TIME_MS, `p99 ${lag.toFixed(0)} ms late`);
}

export async function stopStep(canary: Canary): Promise<void> {
  const { workBucket } = await canary.outputs();
  const { arn, run } = await startReplay(canary, 'stopped', { speedup: SLOW });
  await canary.until('requests that are sent', SHARD_LIMIT_MS, async () => {
    const plan = await readPlan(canary.storage, workBucket, run);
    return Date.now() > (plan?.startAtEpochMs ?? Number.POSITIVE_INFINITY) + SENT_MS ? true : undefined;
  });
  const stoppedAt = Date.now();
  await canary.clients.sfn.send(new StopExecutionCommand({ executionArn: arn }));
  const probe = async () => {
    const { end } = await replayState(canary.storage, workBucket, run, false);
    return end === 'summarized' ? true : undefined;
  };
  await canary.until('the results of the stopped replay', RESULTS_LIMIT_MS, probe);
  const { figures, records } = await results(canary, run);
  const took = Math.round((Date.now() - stoppedAt) / 1000);
  canary.note(
    'stop-arrives',
    figures.sent < figures.requests,
    `results after ${took} s: ${figures.sent} of ${figures.requests} sent`,
  );
  const last = Math.max(0, ...records.map(({ metadata }) => metadata.request_start_ns / 1e6));
  const after = Math.round((last - stoppedAt) / 1000);
  canary.note(
    'stop-stops',
    last <= stoppedAt + STILL_SENDS_MS,
    last ? `the last request ${after} s after the stop` : 'no request was sent',
  );
}

async function results(canary: Canary, run: string): Promise<{ figures: Figures; records: ReplayRecord[] }> {
  const { workBucket } = await canary.outputs();
  const figures = await canary.storage.getJson<Figures>(workBucket, replayKeys.figures(run));
  const records: ReplayRecord[] = [];
  if (figures !== undefined && figures.sent > 0) {
    const location = `s3://${workBucket}/${replayKeys.prefix(run)}`;
    const { directory, dispose } = await openRun(location, async () => canary.storage);
    for await (const { value } of jsonLines(join(directory, FILES.records))) records.push(value as ReplayRecord);
    await dispose();
  }
  return { figures: figures ?? { sent: 0, requests: 0 }, records };
}
