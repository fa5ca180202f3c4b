/** ReplayShard's bundle with one shard's schedule at any rate: as planned, and beyond what a plan gives a shard. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ReplayPlanResult } from '../../src/contract/replay.ts';
import { replayKeys } from '../../src/contract/work-keys.ts';
import { MAX_PER_SECOND } from '../../src/replay/cloud/limits.ts';
import type { ShardResult } from '../../src/replay/cloud/shard/shard-result.ts';
import type { StoredPlan } from '../../src/replay/cloud/work-bucket/stored-plan.ts';
import { clientBottleneck } from '../../src/replay/measure/client-bottleneck.ts';
import { RunStats } from '../../src/replay/measure/run-stats.ts';
import { CAPTURES, ENDPOINT, type SideReport, WORK } from '../support/bench-stack.ts';
import { latenessOf, takeArrivals } from './measure.ts';
import { execution, type ReplayFunctions } from './replay-functions.ts';
import { CAPTURES_FILE, type Scenario, writeScenario } from './scenarios.ts';

/** One shard's worth, at the rate that a plan gives it at most. */
export const SHARD_SECONDS = 60;
export const SHARD: Scenario = {
  name: 'one shard',
  requests: MAX_PER_SECOND * SHARD_SECONDS,
  seconds: SHARD_SECONDS,
};
export const CAPTURES_KEY = `${ENDPOINT}/AllTraffic/2026/11/20/10/${CAPTURES_FILE}`;
/** From the call to the start of the clock; a shard is ready in half of it. */
const LEAD_MS = 4_000;

/** @returns the folder of the captures, which are also in the bucket */
export async function putShardCaptures(functions: ReplayFunctions): Promise<string> {
  const directory = writeScenario(functions.directory, SHARD);
  await functions.put(CAPTURES, CAPTURES_KEY, readFileSync(join(directory, CAPTURES_FILE)));
  return directory;
}

/** Plans the captures as one shard, with PlanReplay's bundle. @param options of the execution's input */
export async function planShard(functions: ReplayFunctions, name: string, options: object): Promise<void> {
  const input = { source: { prefix: CAPTURES_KEY }, target: { endpoint: ENDPOINT }, ...options };
  const { result } = await functions.call('plan-replay', { input, run: execution(name) }, 'https://127.0.0.1');
  const { shards } = result as unknown as ReplayPlanResult;
  if (shards !== 1) throw new Error(`The captures of one shard are planned as ${shards}`);
}

export interface ShardRun {
  /** Requests a second: asked for, and as they arrived. */
  asked: number;
  arrived: number;
  /** At the server, beside the least late request, ms. */
  latenessP99: number;
  /** Behind the schedule when they were sent, and the part of it that was the function's own doing, ms. */
  lagP99: number;
  ownLagP99: number;
  /** What the product itself says of a client that was too slow. */
  bottleneck: string | undefined;
  latencyP50: number;
  failed: number;
  megabytes: number;
  /** Processor time a request, start and end of the function included, ms. */
  cpuMs: number;
  connections: number;
  /** How long after the clock's start it was ready. */
  lateMs: number;
  /** Files: bytes, and the time from the last reply to the end of the function. */
  storedBytes: number;
  storeSeconds: number;
}

export interface ShardRunOptions {
  /** Default: all of the plan's. */
  requests?: number;
  /** Times the planned rate. */
  faster?: number;
  leadMs?: number;
}

/** Sends the planned shard once more, under a name of its own. @throws when not every request arrives once */
export async function runShard(
  functions: ReplayFunctions,
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
  const stats = RunStats.fromJSON(result.stats);
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

/** A copy of the plan with its first requests, `faster` times as fast. @returns when each is due, ms */
async function prepare(
  functions: ReplayFunctions,
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
