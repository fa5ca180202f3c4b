/** Measurements without a peer: the maximum requests per second, the first start on a machine, and the latency compared with the server's own. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../local/python/python-environment.ts';
import { atLeast, type BenchResult, type Check, median, round } from '../support/result.ts';
import { measureRun } from './measure.ts';
import { SCENARIOS, type Scenario, writeScenario } from './scenarios.ts';
import { ours, summaryOf } from './sides.ts';
import { firstRequestCheck, latencyCheck, memoryCheck, TARGET_REQUESTS_PER_SECOND } from './targets.ts';

const SATURATION: Scenario = { name: 'full speed', requests: 40_000, seconds: 10 };
const SATURATION_CONCURRENCY = 400;
const SATURATION_ROUNDS = 3;
/** Spread over its second, the traffic does not queue at the server, so the server's own latency is measured. */
const SPREAD: readonly { scenario: string; name: string; speedup: number }[] = [
  { scenario: '10/s for 60 s', name: '60/s, spread', speedup: 6 },
  { scenario: '200/s for 10 s', name: '200/s, spread', speedup: 1 },
  { scenario: '1,000/s for 20 s', name: '1,000/s, spread', speedup: 1 },
];
const COLD_STARTS = 3;

export async function ownLimits(
  root: string,
  url: string,
  figures: BenchResult['ours'],
  checks: Check[],
  log: Log,
): Promise<void> {
  const scenarioOf = (name: string): Scenario => {
    const found = SCENARIOS.find((scenario) => scenario.name === name);
    if (!found) throw new Error(`The scenario is unknown; got: ${name}`);
    return found;
  };
  for (const { scenario: of, name, speedup } of SPREAD) {
    const scenario = scenarioOf(of);
    const out = join(root, `spread-${scenario.requests}`);
    const more = ['--fixed-schedule-auto-offset', '--spread-same-second', 'even', '--speedup', String(speedup)];
    await measureRun(url, scenario, ours(writeScenario(root, scenario), url, out, ...more));
    const { p50 } = summaryOf(out).request_latency;
    figures[`${name}: latency p50 ms`] = round(p50);
    log(`${name}: latency p50 ${p50.toFixed(2)} ms`);
    checks.push(latencyCheck(name, p50));
  }
  await coldStart(scenarioOf('burst of 200'), root, url, figures, checks, log);
  await saturation(root, url, figures, checks, log);
}

/** Starts with an empty compile cache, as on the first run on a machine. */
async function coldStart(
  scenario: Scenario,
  root: string,
  url: string,
  figures: BenchResult['ours'],
  checks: Check[],
  log: Log,
): Promise<void> {
  const captures = writeScenario(root, scenario);
  const seconds: number[] = [];
  for (let n = 0; n < COLD_STARTS; n++) {
    const cache = join(root, `compile-cache-${n}`);
    mkdirSync(cache);
    const command = ours(captures, url, join(root, `cold-${n}`), '--fixed-schedule-auto-offset');
    const env = { ...process.env, NODE_COMPILE_CACHE: cache };
    seconds.push((await measureRun(url, scenario, { ...command, env })).firstRequestSeconds);
  }
  const first = median(seconds);
  figures['first start on a machine: first request s'] = round(first);
  log(`first start on a machine: first request ${first.toFixed(2)} s`);
  checks.push(firstRequestCheck('first start on a machine', first));
}

async function saturation(
  root: string,
  url: string,
  figures: BenchResult['ours'],
  checks: Check[],
  log: Log,
): Promise<void> {
  const captures = writeScenario(root, SATURATION);
  const rates: number[] = [];
  const megabytes: number[] = [];
  for (let n = 0; n < SATURATION_ROUNDS; n++) {
    const out = join(root, `saturation-${n}`);
    const command = ours(captures, url, out, '--concurrency', String(SATURATION_CONCURRENCY));
    const measured = await measureRun(url, SATURATION, command);
    rates.push(summaryOf(out).request_throughput.avg);
    megabytes.push(measured.megabytes);
    log(`full speed: ${rates.at(-1)?.toFixed(0)} requests/s, ${measured.megabytes.toFixed(0)} MB`);
  }
  figures['maximum requests per second'] = round(median(rates), 0);
  figures['MB at that rate'] = round(median(megabytes), 0);
  checks.push(atLeast('requests per second, one process', median(rates), TARGET_REQUESTS_PER_SECOND));
  checks.push(memoryCheck('at that rate', median(megabytes)));
}
