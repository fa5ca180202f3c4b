/** Runs ReplayShard's bundle with one shard's schedule at the planned rate and beyond it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ReplayPlanResult } from '../../src/core/contract/replay.ts';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import { MAX_PER_SECOND } from '../../src/replay/cloud/limits.ts';
import type { ShardResult } from '../../src/replay/cloud/shard/shard-result.ts';
import type { StoredPlan } from '../../src/replay/cloud/work-bucket/stored-plan.ts';
import { clientBottleneck } from '../../src/replay/finished.ts';
import { RunStats } from '../../src/replay/measure/run-stats.ts';
import { CAPTURES, ENDPOINT, type SideReport, WORK } from '../support/bench-stack.ts';
import { latenessOf, takeArrivals } from './measure.ts';
import { execution, type MeasuredFunctions } from './replay-functions.ts';
import { CAPTURES_FILE, type Scenario, writeScenario } from './scenarios.ts';

/** The requests of one shard at its maximum planned rate. */
export const SHARD_SECONDS = 60;
export const SHARD: Scenario = {
  name: 'one shard',
  requests: MAX_PER_SECOND * SHARD_SECONDS,
  seconds: SHARD_SECONDS,
};
export const CAPTURES_KEY = `${ENDPOINT}/AllTraffic/2026/11/20/10/${CAPTURES_FILE}`;
/** Time from the call to the start of the clock. A shard is ready in half of it. */
const LEAD_MS = 4_000;

/** Writes the captures to a folder and to the bucket. @returns the folder */
export async function putShardCaptures(functions: MeasuredFunctions): Promise<string> {
  const directory = writeScenario(functions.directory, SHARD);
  await functions.put(CAPTURES, CAPTURES_KEY, readFileSync(join(directory, CAPTURES_FILE)));
  return directory;
}

/** Plans the captures as one shard with PlanReplay's bundle. @param options further fields of the execution's input */
export async function planShard(functions: MeasuredFunctions, name: string, options: object): Promise<void> {
  const input = { source: { prefix: CAPTURES_KEY }, target: { endpoint: ENDPOINT }, ...options };
  const { result } = await functions.call('plan-replay', { input, run: execution(name) }, 'https://127.0.0.1');
  const { shards } = result as unknown as ReplayPlanResult;
  if (shards !== 1) throw new Error(`The captures must fit one shard; got: ${shards} shards`);
}

export interface ShardRun {
  /** Requests per second: requested, and as they arrived. */
  asked: number;
  arrived: number;
  /** Lateness at the server relative to the least late request, ms. */
  latenessP99: number;
  /** Schedule lag of the sent requests, and the function's own part of it, ms. */
  lagP99: number;
  ownLagP99: number;
  /** The product's own report of a client that was too slow. */
  bottleneck: string | undefined;
  latencyP50: number;
  failed: number;
  megabytes: number;
  /** CPU time per request, including start and end of the function, ms. */
  cpuMs: number;
  connections: number;
  /** Delay between the clock's start and the shard's readiness. */
  lateMs: number;
  /** Files: bytes, and the time from the last reply to the end of the function. */
  storedBytes: number;
  storeSeconds: number;
}

export interface ShardRunOptions {
  /** Default: all requests of the plan. */
  requests?: number;
  /** Multiple of the planned rate. */
  faster?: number;
  leadMs?: number;
}

/** Sends the planned shard again under a separate name. @throws Error if a request does not arrive exactly once */
export async function runShard(
  functions: MeasuredFunctions,
  planned: string,
  name: string,
  server: string,
  { requests = SHARD.requests, faster = 1, leadMs = LEAD_MS }: ShardRunOptions = {},
): Promise<ShardRun> {
  const due = await prepare(functions, planned, name, requests, faster, leadMs);
  await takeArrivals(server);
  const startedAtMs = Date.now();
  const report = await functions.call('replay-shard', { run: name, shard: 0 }, server);
  const endedAtMs = startedAtMs + report.wallSeconds * 1000;
  const arrivals = (await takeArrivals(server)).filter(({ number }) => number >= 0);
  const numbers = new Set(arrivals.map(({ number }) => number));
  if (numbers.size !== requests || arrivals.length !== requests) {
    throw new Error(
      `${name}: ${arrivals.length} requests arrived, ${numbers.size} different ones; expected: ${requests}; got: ${JSON.stringify(report.result)}`,
    );
  }
  const prefix = replayKeys.shardPrefix(name, 0);
  const result = await functions.json<ShardResult>(`${prefix}result.json`);
  const sizes = await functions.sizes(prefix);
  const times = arrivals.map(({ atMs }) => atMs).sort((a, b) => a - b);
  const sendingSeconds = ((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1000;
  return {
    ...figuresOf(result, report),
    asked: MAX_PER_SECOND * faster,
    arrived: (requests - 1) / sendingSeconds,
    latenessP99: latenessOf(arrivals, (number) => due[number] ?? 0).latenessP99,
    cpuMs: (1000 * (report.cpuSeconds ?? Number.NaN)) / requests,
    storedBytes: [...sizes.values()].reduce((sum, size) => sum + size, 0),
    storeSeconds: (endedAtMs - result.endedAtMs) / 1000,
  };
}

function figuresOf(
  result: ShardResult,
  { maxRssMb }: SideReport,
): Pick<
  ShardRun,
  'lagP99' | 'ownLagP99' | 'bottleneck' | 'latencyP50' | 'failed' | 'megabytes' | 'connections' | 'lateMs'
> {
  const stats = new RunStats();
  stats.merge(result.stats);
  return {
    lagP99: stats.distribution('credit_to_start_latency').percentile(99),
    ownLagP99: stats.distribution('replay_client_lag').percentile(99),
    bottleneck: clientBottleneck(stats),
    latencyP50: stats.distribution('request_latency').percentile(50),
    failed: stats.failed,
    megabytes: maxRssMb,
    connections: result.maxConnections,
    lateMs: result.lateMs,
  };
}

/** Copies the first requests of the plan, `faster` times as fast. @returns the due time of each, ms */
async function prepare(
  functions: MeasuredFunctions,
  planned: string,
  name: string,
  requests: number,
  faster: number,
  leadMs: number,
): Promise<number[]> {
  const text = await functions.text(replayKeys.schedule(planned, 0));
  const due: number[] = [];
  const lines: string[] = [];
  for (const line of text.trimEnd().split('\n')) {
    const parsed = JSON.parse(line) as { file?: object; d: number };
    if (!parsed.file && due.length === requests) break;
    if (!parsed.file) due.push(parsed.d / faster);
    lines.push(parsed.file ? line : JSON.stringify({ ...parsed, d: due.at(-1) }));
  }
  await functions.put(WORK, replayKeys.schedule(name, 0), `${lines.join('\n')}\n`);
  const plan = await functions.json<StoredPlan>(replayKeys.plan(planned));
  const shards = plan.shards.map((shard) => ({ ...shard, requests, lastDueMs: due.at(-1) ?? 0 }));
  const own: StoredPlan = { ...plan, run: name, requests, shards, startAtEpochMs: Date.now() + leadMs };
  await functions.put(WORK, replayKeys.plan(name), JSON.stringify(own));
  return due;
}
