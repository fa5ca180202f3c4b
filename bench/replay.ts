/**
 * Compares the replay with NVIDIA AIPerf 0.13: the same captures and the same server, by the arrival times of the requests.
 *
 * `--only=burst --only=200/s` runs the scenarios whose names contain one of these, `limits` those without a peer;
 * `--no-peer` omits AIPerf; `--rounds N` sets the number of runs of each scenario.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Log } from '../local/python/python-environment.ts';
import { AIPERF_VERSION, type Aiperf, aiperf } from './replay-support/aiperf.ts';
import { ownLimits } from './replay-support/limits.ts';
import { measureRun } from './replay-support/measure.ts';
import { tolerant } from './replay-support/peer-run.ts';
import { SCENARIOS, type Scenario, writeScenario } from './replay-support/scenarios.ts';
import { startServer } from './replay-support/server.ts';
import { commandOf, medianOf, ownFigures, type SideName, type SideRun, type Sides } from './replay-support/sides.ts';
import { firstRequestCheck, latencyCheck, memoryCheck } from './replay-support/targets.ts';
import { numberFlag, textFlags } from './support/flags.ts';
import { atMost, type BenchResult, type Check, median, round } from './support/result.ts';

/** The sides alternate: ours, the peer, the baseline, ours, … */
const DEFAULT_ROUNDS = 3;
/** The long scenarios take a minute per side. */
const ROUNDS_OF: Record<string, number> = { '10/s for 60 s': 1, '1,000/s for 20 s': 2 };
const LIMITS = 'limits';
const TARGET_LATENESS_RATIO = 1 / 3;

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const only = textFlags(flags, 'only');
  const wanted = (name: string): boolean => only.length === 0 || only.some((part) => name.includes(part));
  const scenarios = SCENARIOS.filter(({ name }) => wanted(name));
  if (scenarios.length === 0 && !wanted(LIMITS)) {
    const names = [...SCENARIOS.map(({ name }) => name), LIMITS].join('; ');
    throw new Error(`--only matches no scenario; got: ${only.join(', ')}; expected: a part of one of: ${names}`);
  }
  const withPeer = !flags.includes('--no-peer') && scenarios.length > 0;
  const peer = withPeer ? await aiperf(log) : undefined;
  const root = mkdtempSync(join(tmpdir(), 'bench-replay-'));
  const server = await startServer(root);
  try {
    const checks: Check[] = [];
    const figures: Figures = { ours: {}, peer: {} };
    const ratios: number[] = [];
    const notes: string[] = [];
    const tell = (line: string): void => {
      log(line);
      notes.push(line.trimEnd());
    };
    // A failure counts as a missed target and does not affect earlier or later measurements.
    const attempt = async (what: string, work: () => Promise<void>): Promise<void> => {
      try {
        await work();
      } catch (error) {
        tell(`${what} failed: ${error instanceof Error ? error.message : String(error)}`);
        checks.push({ what: `${what}: failures`, value: 1, target: '= 0', ok: false });
      }
    };
    for (const scenario of scenarios) {
      const rounds = numberFlag(flags, 'rounds', ROUNDS_OF[scenario.name] ?? DEFAULT_ROUNDS);
      const sides: Sides = { ours: [], peer: [], bare: [] };
      await attempt(scenario.name, () => runScenario(scenario, rounds, root, server.url, peer, sides, log, tell));
      reportScenario(scenario, sides, withPeer, figures, checks, ratios);
    }
    if (wanted(LIMITS)) await attempt(LIMITS, () => ownLimits(root, server.url, figures.ours, checks, log));
    return {
      ratio: ratios.length > 0 ? round(median(ratios)) : Number.NaN,
      ours: figures.ours,
      peer: figures.peer,
      versions: { aiperf: withPeer ? AIPERF_VERSION : 'not run' },
      checks,
      notes: [
        ...notes,
        'ratio: the peer’s lateness p99 over ours, median of the scenarios; lateness is measured at the server, relative to the least late request',
        'own lag: the lateness of requests when this product passed them to the operating system; the rest is due to the system and the server',
        'bare: a timer and node:http for each request, without recording, as the baseline of machine and server',
        'captured times have whole seconds, so 200/s is a burst of 200 every second, which the server on the same two CPUs handles one by one; latency is compared with its 50 ms only where requests do not queue',
        'memory is the total of all processes of a side, in millions of bytes',
      ],
    };
  } finally {
    await server.process.stop();
    rmSync(root, { recursive: true, force: true });
  }
}

interface Figures {
  ours: BenchResult['ours'];
  peer: BenchResult['peer'];
}

async function runScenario(
  scenario: Scenario,
  rounds: number,
  root: string,
  url: string,
  peer: Aiperf | undefined,
  sides: Sides,
  log: Log,
  tell: Log,
): Promise<void> {
  const captures = writeScenario(root, scenario);
  for (let n = 0; n < rounds; n++) {
    for (const name of Object.keys(sides) as SideName[]) {
      const once = async (attempt = 1): Promise<SideRun | undefined> => {
        const out = join(root, `${name}-${n}-${attempt}-${scenario.requests}-${scenario.seconds}`);
        const command = commandOf(name, captures, url, out, peer);
        return command && { ...(await measureRun(url, scenario, command)), ...ownFigures(name, out) };
      };
      const what = `${scenario.name}, round ${n + 1}, ${name}`;
      const run = name === 'peer' ? await tolerant(what, tell, once) : await once();
      if (!run) continue;
      sides[name].push(run);
      log(
        `${what}: lateness p99 ${run.latenessP99.toFixed(1)} ms${name === 'ours' ? ` (when sent: ${run.lagP99.toFixed(1)})` : ''}, first request ${run.firstRequestSeconds.toFixed(2)} s, ${run.megabytes.toFixed(0)} MB, latency p50 ${run.latencyP50.toFixed(2)} ms`,
      );
    }
  }
}

function reportScenario(
  { name, queues }: Scenario,
  sides: Sides,
  withPeer: boolean,
  figures: Figures,
  checks: Check[],
  ratios: number[],
): void {
  const add = (into: BenchResult['ours'], prefix: string, runs: SideRun[]): void => {
    if (runs.length === 0) return;
    into[`${prefix}: lateness p99 ms`] = round(medianOf(runs, 'latenessP99'));
    if (runs === sides.ours) into[`${prefix}: own lag p99 ms`] = round(medianOf(runs, 'lagP99'));
    into[`${prefix}: first request s`] = round(medianOf(runs, 'firstRequestSeconds'));
    into[`${prefix}: MB`] = round(medianOf(runs, 'megabytes'), 0);
    into[`${prefix}: latency p50 ms`] = round(medianOf(runs, 'latencyP50'));
    into[`${prefix}: CPU s`] = round(medianOf(runs, 'cpuSeconds'));
  };
  const { ours, peer, bare } = sides;
  add(figures.ours, name, ours);
  add(figures.peer, name, peer);
  if (withPeer && peer.length === 0) figures.peer[`${name}: lateness p99 ms`] = 'no figure';
  add(figures.peer, `${name}, bare`, bare);
  if (peer.length > 0 && ours.length > 0) {
    const overPeer = (runs: SideRun[]): number => medianOf(runs, 'latenessP99') / medianOf(peer, 'latenessP99');
    const ratio = overPeer(ours);
    ratios.push(1 / ratio);
    checks.push({
      ...atMost(`${name}: lateness p99, ours over the peer’s`, ratio, TARGET_LATENESS_RATIO),
      value: round(ratio, 3),
      target: `<= 1/3; bare: ${round(overPeer(bare), 3)}`,
    });
  }
  if (ours.length === 0) return;
  checks.push(memoryCheck(name, medianOf(ours, 'megabytes')));
  checks.push(firstRequestCheck(name, medianOf(ours, 'firstRequestSeconds')));
  if (!queues) checks.push(latencyCheck(name, medianOf(ours, 'latencyP50')));
}
