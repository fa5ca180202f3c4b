/** The replay beside NVIDIA AIPerf 0.13: the same captures, the same server, by when requests arrive there. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../local/free-port.ts';
import { type GuardedProcess, startGuarded } from '../local/guarded-process.ts';
import { projectPath } from '../local/project-root.ts';
import type { Log } from '../local/python-environment.ts';
import { AIPERF_VERSION, type Aiperf, aiperf, profileArgs } from './replay-support/aiperf.ts';
import { type Command, type Measured, measureRun } from './replay-support/measure.ts';
import { SCENARIOS, type Scenario, writeScenario } from './replay-support/scenarios.ts';
import { atLeast, atMost, type BenchResult, type Check, machine, median, round } from './support/result.ts';

/** The server answers after this. */
const LATENCY_MS = 50;
/** Alternating: ours, the peer, ours, … */
const DEFAULT_ROUNDS = 3;
/** The long scenarios take a minute a side. */
const ROUNDS_OF: Record<string, number> = { '10/s for 60 s': 1, '1,000/s for 20 s': 2 };

const TARGET_LATENESS_RATIO = 1 / 3;
const TARGET_REQUESTS_PER_SECOND = 4_000;
const TARGET_MEGABYTES = 150;
const TARGET_FIRST_SECONDS = 0.7;
const TARGET_LATENCY_SHARE = 0.05;

const SATURATION: Scenario = { name: 'as fast as it goes', requests: 40_000, seconds: 10 };
const SATURATION_CONCURRENCY = 400;
/** Spread over its second, the same traffic does not queue at the server: what is measured is the server's own latency. */
const SPREAD_SCENARIOS = ['200/s for 10 s', '1,000/s for 20 s'];

interface Server {
  url: string;
  process: GuardedProcess;
}

async function startServer(directory: string): Promise<Server> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = [projectPath('local', 'stand-in-endpoint.ts'), '--port', String(port), '--latency', String(LATENCY_MS)];
  const process_ = startGuarded(process.execPath, args, { logFile: join(directory, 'server.log') });
  for (;;) {
    if (process_.ended()) throw new Error(`The server ended: ${process_.logTail()}`);
    const up = await fetch(`${url}/_health`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (up) return { url, process: process_ };
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const ours = (captures: string, url: string, out: string, ...more: string[]): Command => ({
  command: process.execPath,
  args: [projectPath('bin', 'inference-monitor.ts'), 'replay', captures, '--url', url, '-o', out, '--quiet', ...more],
});

interface Summary {
  request_latency: { p50: number };
  request_throughput: { avg: number };
}
const summaryOf = (directory: string): Summary =>
  JSON.parse(readFileSync(join(directory, 'profile_export_aiperf.json'), 'utf8')) as Summary;

interface Side {
  runs: Measured[];
  latencyP50: number[];
}

const medianOf = ({ runs }: Side, key: keyof Measured): number => median(runs.map((one) => one[key]));

export async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const root = mkdtempSync(join(tmpdir(), 'bench-replay-'));
  const withPeer = !flags.includes('--no-peer');
  const only = flags.find((flag) => flag.startsWith('--only='))?.slice('--only='.length);
  const server = await startServer(root);
  try {
    const peer = withPeer ? await aiperf(log) : undefined;
    const checks: Check[] = [];
    const figures: { ours: BenchResult['ours']; peer: BenchResult['peer'] } = { ours: {}, peer: {} };
    const ratios: number[] = [];
    for (const scenario of SCENARIOS.filter(({ name }) => only === undefined || name.includes(only))) {
      const [own, other] = await runScenario(scenario, root, server.url, peer, log);
      reportScenario(scenario, own, other, figures, checks, ratios);
    }
    if (only === undefined) await ownLimits(root, server.url, figures.ours, checks, log);
    return {
      name: 'replay',
      ratio: ratios.length > 0 ? round(median(ratios)) : Number.NaN,
      ours: figures.ours,
      peer: figures.peer,
      machine: machine(),
      versions: { node: process.version, aiperf: withPeer ? AIPERF_VERSION : 'not run' },
      checks,
      notes: [
        'ratio: the peer’s lateness p99 over ours, median of the scenarios; lateness is measured at the server, beside the least late request',
        'memory is that of all processes of a side, added up; captured times have whole seconds, so 200/s is a burst of 200 every second',
      ],
    };
  } finally {
    await server.process.stop();
    rmSync(root, { recursive: true, force: true });
  }
}

async function runScenario(
  scenario: Scenario,
  root: string,
  url: string,
  peer: Aiperf | undefined,
  log: Log,
): Promise<[Side, Side]> {
  const captures = writeScenario(root, scenario);
  const sides: [Side, Side] = [
    { runs: [], latencyP50: [] },
    { runs: [], latencyP50: [] },
  ];
  const rounds = ROUNDS_OF[scenario.name] ?? DEFAULT_ROUNDS;
  for (let n = 0; n < rounds; n++) {
    const commands: (Command & { out: string })[] = [];
    const out = (side: string): string => join(root, `${side}-${n}-${scenario.requests}-${scenario.seconds}`);
    commands.push({ ...ours(captures, url, out('ours'), '--fixed-schedule-auto-offset'), out: out('ours') });
    if (peer) commands.push({ ...peer.command(profileArgs(captures, url, out('peer')), root), out: out('peer') });
    for (const [i, command] of commands.entries()) {
      const side = sides[i];
      if (!side) continue;
      const measured = await measureRun(url, scenario, command);
      side.runs.push(measured);
      side.latencyP50.push(summaryOf(command.out).request_latency.p50);
      log(
        `${scenario.name}, round ${n + 1}, ${i === 0 ? 'ours' : 'peer'}: lateness p99 ${measured.latenessP99.toFixed(1)} ms, first request ${measured.firstRequestSeconds.toFixed(2)} s, ${measured.megabytes.toFixed(0)} MiB, latency p50 ${side.latencyP50.at(-1)?.toFixed(2)} ms`,
      );
    }
  }
  return sides;
}

function reportScenario(
  scenario: Scenario,
  own: Side,
  other: Side,
  figures: { ours: BenchResult['ours']; peer: BenchResult['peer'] },
  checks: Check[],
  ratios: number[],
): void {
  const { name } = scenario;
  for (const [key, side] of [
    ['ours', own],
    ['peer', other],
  ] as const) {
    if (side.runs.length === 0) continue;
    figures[key][`${name}: lateness p99 ms`] = round(medianOf(side, 'latenessP99'));
    figures[key][`${name}: first request s`] = round(medianOf(side, 'firstRequestSeconds'));
    figures[key][`${name}: MiB`] = round(medianOf(side, 'megabytes'), 0);
    figures[key][`${name}: latency p50 ms`] = round(median(side.latencyP50));
    figures[key][`${name}: CPU s`] = round(medianOf(side, 'cpuSeconds'));
  }
  if (other.runs.length > 0) {
    const ratio = medianOf(own, 'latenessP99') / medianOf(other, 'latenessP99');
    ratios.push(1 / ratio);
    checks.push({
      ...atMost(`${name}: lateness p99, ours over the peer’s`, ratio, TARGET_LATENESS_RATIO),
      value: round(ratio, 3),
      target: '<= 1/3',
    });
  }
  checks.push(atMost(`${name}: MiB`, medianOf(own, 'megabytes'), TARGET_MEGABYTES));
  checks.push(atMost(`${name}: first request, s`, medianOf(own, 'firstRequestSeconds'), TARGET_FIRST_SECONDS));
}

/** What has no peer: the most requests a second, and how near the measured latency is to the server's own. */
async function ownLimits(
  root: string,
  url: string,
  figures: BenchResult['ours'],
  checks: Check[],
  log: Log,
): Promise<void> {
  for (const scenario of SCENARIOS.filter(({ name }) => SPREAD_SCENARIOS.includes(name))) {
    const out = join(root, `spread-${scenario.requests}`);
    const captures = writeScenario(root, scenario);
    await measureRun(
      url,
      scenario,
      ours(captures, url, out, '--fixed-schedule-auto-offset', '--spread-same-second', 'even'),
    );
    checkLatency(`${scenario.name}, spread`, summaryOf(out).request_latency.p50, figures, checks, log);
  }
  const slow = SCENARIOS[0];
  if (slow) {
    const out = join(root, 'slow');
    const captures = writeScenario(root, slow);
    await measureRun(
      url,
      slow,
      ours(captures, url, out, '--speedup', '6', '--fixed-schedule-auto-offset', '--spread-same-second', 'even'),
    );
    checkLatency('60/s, spread', summaryOf(out).request_latency.p50, figures, checks, log);
  }
  const out = join(root, 'saturation');
  const captures = writeScenario(root, SATURATION);
  const measured = await measureRun(
    url,
    SATURATION,
    ours(captures, url, out, '--concurrency', String(SATURATION_CONCURRENCY)),
  );
  const rate = summaryOf(out).request_throughput.avg;
  figures['requests per second at most'] = round(rate, 0);
  figures['MiB at that rate'] = round(measured.megabytes, 0);
  log(`as fast as it goes: ${rate.toFixed(0)} requests/s, ${measured.megabytes.toFixed(0)} MiB`);
  checks.push(atLeast('requests per second, one process', rate, TARGET_REQUESTS_PER_SECOND));
  checks.push(atMost('MiB at that rate', measured.megabytes, TARGET_MEGABYTES));
}

function checkLatency(what: string, p50: number, figures: BenchResult['ours'], checks: Check[], log: Log): void {
  const share = Math.abs(p50 / LATENCY_MS - 1);
  figures[`${what}: latency p50 ms`] = round(p50);
  log(`${what}: latency p50 ${p50.toFixed(2)} ms`);
  checks.push({
    ...atMost(`${what}: latency p50 beside the server’s own ${LATENCY_MS} ms`, share, TARGET_LATENCY_SHARE),
    value: round(share, 4),
  });
}
