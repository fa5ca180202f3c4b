/**
 * Measures the functions of a replay in the cloud against the limits in `limits.ts`: ReplayShard at a shard's maximum rate and
 * at full speed, SummarizeReplay over the results of many shards, PlanReplay over an hour of captures.
 *
 * `--only=bursts`, `--only=shard`, `--only=summary`, `--only=plan` select parts; `--no-bare` omits the baseline of the bursts.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ONE_VCPU_MB } from '../lib/replay-functions.ts';
import type { Log } from '../local/python/python-environment.ts';
import { REPLAYER_TIMEOUT_SECONDS } from '../src/core/contract/replay.ts';
import { MAX_CONNECTIONS, MAX_PER_SECOND, SCHEDULE_RESERVE_MS, SHARD_LEAD_MS } from '../src/replay/cloud/limits.ts';
import { MAX_RECORDS } from '../src/replay/source/sorted-index.ts';
import { measureRun } from './replay-support/measure.ts';
import { planRun, scheduleRun } from './replay-support/plan-runs.ts';
import { MeasuredFunctions } from './replay-support/replay-functions.ts';
import { type Server, startServer } from './replay-support/server.ts';
import { planShard, putShardCaptures, runShard, SHARD, type ShardRun } from './replay-support/shard-runs.ts';
import { bareCommand, bareLatency } from './replay-support/sides.ts';
import { DISTANCE_MS, summarizeRun } from './replay-support/summary-runs.ts';
import { atLeast, atMost, type BenchResult, type Check, machine, round } from './support/result.ts';

const PARTS = ['bursts', 'shard', 'summary', 'plan'] as const;
/** Multiples of a shard's planned rate, tried in turn until it lags. */
const FASTER = [4, 6, 8, 10, 12, 16];
/** Requests of such a run: four seconds, or as many as there are captures. */
const LADDER_SECONDS = 4;
/** Replies with this latency keep every connection of a shard busy at its planned rate. */
const SLOW_MS = (MAX_CONNECTIONS / MAX_PER_SECOND) * 1000;
const SLOW_SECONDS = 10;
const MANY_SHARDS = 400;
const PLANNED_RECORDS = 800_000;
const REPEATED = 100;
/** MB/s at which planning reads 10 GB of captures in its time. */
const NEEDED_PLAN_RATE = 10_000 / (REPLAYER_TIMEOUT_SECONDS - SCHEDULE_RESERVE_MS / 1000);
/** The product reports its client as too slow if 1% of the requests are sent at least this late. */
const MAX_LAG_MS = 10;
const MAX_LAG_SHARE = 0.1;
/** Encrypting and writing takes time per request, so the last of several requests with the same due time waits for all others. */
const BURST_MS_A_REQUEST = 0.1;
/** Twice the planned rate must be possible on a CPU half as fast as this one. */
const HEADROOM = 4;
/** Share of a function's memory that a measured run may use. The rest is for larger bodies and later garbage collection. */
const MEMORY_SHARE = 0.5;
/** Share of its time that a summary may take. The rest is for slower processors. */
const TIME_SHARE = 0.1;

interface Report {
  ours: BenchResult['ours'];
  peer: BenchResult['peer'];
  checks: Check[];
  ratio: number;
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const only = flags.filter((flag) => flag.startsWith('--only=')).map((flag) => flag.slice('--only='.length));
  const unknown = only.filter((name) => !PARTS.some((part) => part === name));
  if (unknown.length > 0)
    throw new Error(`The part is unknown; got: ${unknown.join(', ')}; expected: ${PARTS.join(', ')}`);
  const wanted = (part: (typeof PARTS)[number]): boolean => only.length === 0 || only.includes(part);
  const report: Report = { ours: {}, peer: {}, checks: [], ratio: Number.NaN };
  const functions = await MeasuredFunctions.start(log);
  let server: Server | undefined;
  try {
    server = await startServer(functions.directory, { tls: functions.tls });
    await functions.aside(server.process.pid);
    const captures = await putShardCaptures(functions);
    if (wanted('bursts')) await burstsPart(functions, server, captures, !flags.includes('--no-bare'), report, log);
    if (wanted('shard')) await shardPart(functions, server, report, log);
    if (wanted('summary')) await summaryPart(functions, server, report, log);
    if (wanted('plan')) await planPart(functions, report, log);
    return {
      name: 'replay-shard',
      ...report,
      machine: machine(),
      versions: { node: process.version },
      notes: [
        'ratio: lateness p99 at the server of a bare Node sender (timers, node:https, nothing signed or recorded) over the shard’s, both with a burst of 200 every second',
        functions.pinned
          ? 'each function has a dedicated CPU, as with 1,769 MB on Lambda; the server and the emulated S3 share the other one'
          : 'functions share the CPUs with the server and the emulated S3, because taskset is missing',
        'maximum requests/s: the rate at which the shard, or the server on the other CPU, falls behind',
        'the endpoint uses TLS and checks signatures; S3 is plain HTTP on this machine',
        `the emulated S3 is faster than S3: "${DISTANCE_MS} ms away" is the emulator behind a proxy that delays each request by that`,
      ],
    };
  } finally {
    await server?.process.stop();
    await functions.stop();
  }
}

const lagCheck = (what: string, { ownLagP99, latencyP50 }: ShardRun): Check =>
  atMost(`${what}: own lag p99, ms`, ownLagP99, Math.max(MAX_LAG_MS, round(MAX_LAG_SHARE * latencyP50)));

const memoryCheck = (what: string, megabytes: number): Check =>
  atMost(`${what}: share of a function’s ${ONE_VCPU_MB} MB`, megabytes / ONE_VCPU_MB, MEMORY_SHARE);

function addShard(report: Report, name: string, run: ShardRun): void {
  report.ours[`${name}: lateness p99 ms`] = round(run.latenessP99);
  report.ours[`${name}: own lag p99 ms`] = round(run.ownLagP99);
  report.ours[`${name}: latency p50 ms`] = round(run.latencyP50);
  report.ours[`${name}: MB`] = round(run.megabytes, 0);
  report.ours[`${name}: connections`] = run.connections;
  report.ours[`${name}: CPU ms per request`] = round(run.cpuMs);
}

const say = (log: Log, name: string, run: ShardRun): void =>
  log(
    `${name}: ${run.arrived.toFixed(0)} requests/s arrived, lateness p99 ${run.latenessP99.toFixed(1)} ms, own lag p99 ${run.ownLagP99.toFixed(1)} ms, ${run.megabytes.toFixed(0)} MB, ${run.connections} connections`,
  );

/** Runs a full shard with captured times: all requests of a second are due at its beginning. */
async function burstsPart(
  functions: MeasuredFunctions,
  server: Server,
  captures: string,
  withBare: boolean,
  report: Report,
  log: Log,
): Promise<void> {
  await planShard(functions, 'bursts', {});
  const bursts = await runShard(functions, 'bursts', 'run-bursts', server.url);
  const name = `${MAX_PER_SECOND}/s in bursts for ${SHARD.seconds} s`;
  say(log, name, bursts);
  addShard(report, name, bursts);
  report.ours['files stored, MB/s'] = round(bursts.storedBytes / 1e6 / bursts.storeSeconds);
  report.checks.push(
    atMost(`${name}: own lag p99, ms`, bursts.ownLagP99, MAX_PER_SECOND * BURST_MS_A_REQUEST),
    memoryCheck(name, bursts.megabytes),
  );
  if (!withBare) return;
  const bare = await bareRun(functions, server, captures);
  log(`${name}, bare: lateness p99 ${bare.latenessP99.toFixed(1)} ms`);
  report.peer[`${name}, bare: lateness p99 ms`] = round(bare.latenessP99);
  report.peer[`${name}, bare: latency p50 ms`] = round(bare.latencyP50);
  report.peer[`${name}, bare: MB`] = round(bare.megabytes, 0);
  report.ratio = round(bare.latenessP99 / bursts.latenessP99);
  report.checks.push(atMost(`${name}: lateness p99 over the bare sender’s`, bursts.latenessP99 / bare.latenessP99, 1));
}

async function shardPart(functions: MeasuredFunctions, server: Server, report: Report, log: Log): Promise<void> {
  await planShard(functions, 'even', { spreadSameSecond: 'even' });
  const ready = await runShard(functions, 'even', 'run-ready', server.url, { requests: MAX_PER_SECOND, leadMs: 0 });
  report.ours['ready after s'] = round(ready.lateMs / 1000);
  report.checks.push(
    atMost('share of its lead time that a shard needs to be ready', ready.lateMs / SHARD_LEAD_MS, MEMORY_SHARE),
  );

  let most = 0;
  for (const faster of FASTER) {
    const requests = Math.min(SHARD.requests, MAX_PER_SECOND * faster * LADDER_SECONDS);
    const run = await runShard(functions, 'even', `run-${faster}`, server.url, { faster, requests });
    say(log, `${run.asked}/s, even`, run);
    if (run.bottleneck !== undefined || run.failed > 0) break;
    most = run.asked;
    report.ours[`${run.asked}/s, even: own lag p99 ms`] = round(run.ownLagP99);
  }
  report.ours['maximum requests/s'] = most;
  report.checks.push(atLeast('maximum requests/s over a shard’s planned rate', most / MAX_PER_SECOND, HEADROOM));

  const slow = await startServer(functions.directory, { tls: functions.tls, latencyMs: SLOW_MS });
  try {
    await functions.aside(slow.process.pid);
    const requests = MAX_PER_SECOND * SLOW_SECONDS;
    const run = await runShard(functions, 'even', 'run-slow', slow.url, { requests });
    const what = `${MAX_PER_SECOND}/s, replies after ${SLOW_MS / 1000} s`;
    say(log, what, run);
    addShard(report, what, run);
    report.checks.push(
      atMost(`${what}: failed requests`, run.failed, 0),
      lagCheck(what, run),
      memoryCheck(what, run.megabytes),
    );
  } finally {
    await slow.process.stop();
  }
}

/** Sends the same bursts with a few lines of Node on the function's CPU. */
async function bareRun(functions: MeasuredFunctions, server: Server, captures: string) {
  const out = join(functions.directory, 'bare');
  mkdirSync(out, { recursive: true });
  const command = bareCommand(captures, server.url, out);
  const measured = await measureRun(server.url, SHARD, functions.limited(command));
  return { ...measured, latencyP50: bareLatency(out) };
}

async function summaryPart(functions: MeasuredFunctions, server: Server, report: Report, log: Log): Promise<void> {
  const { ours, checks } = report;
  await planShard(functions, 'everything', { spreadSameSecond: 'even', compare: true });
  const sent = await runShard(functions, 'everything', 'run-everything', server.url, { requests: MAX_PER_SECOND * 20 });
  addShard(report, `${MAX_PER_SECOND}/s, even and compare`, sent);
  checks.push(lagCheck(`${MAX_PER_SECOND}/s, even and compare`, sent));
  const { seconds, maxRssMb } = await summarizeRun(functions, 'run-everything', MANY_SHARDS);
  const what = `summary of ${MANY_SHARDS} shards, S3 ${DISTANCE_MS} ms away`;
  log(`${what}: ${seconds.toFixed(1)} s, ${maxRssMb.toFixed(0)} MB`);
  ours[`${what}: s`] = round(seconds, 1);
  checks.push(
    atMost(`${what}: share of its time`, seconds / REPLAYER_TIMEOUT_SECONDS, TIME_SHARE),
    memoryCheck(what, maxRssMb),
  );
}

async function planPart(functions: MeasuredFunctions, { ours, peer, checks }: Report, log: Log): Promise<void> {
  const plan = await planRun(functions, PLANNED_RECORDS);
  const what = `${(plan.bytes / 1e9).toFixed(1)} GB, ${plan.records} chats`;
  log(`${what}: planned as ${plan.shards} shards at ${plan.rate.toFixed(1)} MB/s, ${plan.megabytes.toFixed(0)} MB`);
  ours[`${what}: s`] = round(plan.seconds, 1);
  ours[`${what}: MB/s planned`] = round(plan.rate, 1);
  ours[`${what}: shards`] = plan.shards;
  ours[`${what}: MB`] = round(plan.megabytes, 0);
  peer['bare read of captures, MB/s'] = round(plan.readRate, 1);
  checks.push(
    atLeast('MB/s planned, over the rate that 10 GB need', plan.rate / NEEDED_PLAN_RATE, 1),
    memoryCheck(what, plan.megabytes),
  );
  const schedule = await scheduleRun(functions, REPEATED);
  const written = `schedule of ${schedule.requests} requests`;
  log(`${written}: ${schedule.seconds.toFixed(1)} s, ${schedule.megabytes.toFixed(0)} MB`);
  ours[`${written}: s`] = round(schedule.seconds, 1);
  ours[`${written}: MB`] = round(schedule.megabytes, 0);
  const ofAll = (schedule.seconds * MAX_RECORDS) / schedule.requests;
  checks.push(
    atMost(
      'schedule of the maximum number of records: share of its reserved time',
      (ofAll * 1000) / SCHEDULE_RESERVE_MS,
      1,
    ),
    memoryCheck(written, schedule.megabytes),
  );
}
