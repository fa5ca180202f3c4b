/**
 * Compares the replay's own HTTP client with undici, both behind the same dispatcher, against the same server and against
 * misbehaving servers.
 *
 * `--rounds N` sets the number of runs of each scenario.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Log } from '../local/python/python-environment.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { takeArrivals } from './replay-support/measure.ts';
import { MISBEHAVIORS, startMisbehaving } from './replay-support/misbehaving.ts';
import { startServer } from './replay-support/server.ts';
import { numberFlag } from './support/flags.ts';
import { atMost, type BenchResult, type Check, machine, median, round } from './support/result.ts';

const CLIENTS = ['own', 'undici'] as const;
type Client = (typeof CLIENTS)[number];
const SCENARIOS = ['rate', 'bursts', 'flood'];
const BURST = 1000;
const DEFAULT_ROUNDS = 3;

interface Figures {
  microseconds: number;
  megabytes: number;
  failed: number;
  /** Time between the first and the last arrival of a burst, ms; the median over the bursts. */
  lastArrivalMs?: number;
}

const sideScript = packagePath('bench', 'replay-support', 'http-client-side.ts');

async function side<T>(...args: string[]): Promise<T> {
  const { stdout } = await promisify(execFile)(process.execPath, [sideScript, ...args]);
  return JSON.parse(stdout) as T;
}

async function measured(client: Client, url: string, scenario: string): Promise<Figures> {
  await takeArrivals(url);
  const figures = await side<Figures>(client, url, scenario);
  const times = (await takeArrivals(url)).map(({ atMs }) => atMs).sort((a, b) => a - b);
  if (scenario !== 'bursts') return figures;
  const spans: number[] = [];
  for (let i = 0; i + BURST <= times.length; i += BURST) spans.push((times[i + BURST - 1] ?? 0) - (times[i] ?? 0));
  return { ...figures, lastArrivalMs: median(spans) };
}

/** Returns the names of the misbehaving servers that the client reported incorrectly. */
async function misreported(client: Client): Promise<string[]> {
  const server = await startMisbehaving();
  try {
    const outcomes = await side<string[]>(client, server.url, 'outcomes', String(MISBEHAVIORS.length));
    return MISBEHAVIORS.filter(({ says }, i) => outcomes[i] !== (says ?? 'error')).map(({ name }) => name);
  } finally {
    server.stop();
  }
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const rounds = numberFlag(flags, 'rounds', DEFAULT_ROUNDS);
  const root = mkdtempSync(join(tmpdir(), 'bench-http-client-'));
  const server = await startServer(root);
  const all: Record<Client, BenchResult['ours']> = { own: {}, undici: {} };
  const checks: Check[] = [];
  const notes: string[] = [];
  let ratio = Number.NaN;
  try {
    for (const scenario of SCENARIOS) {
      const runs: Record<Client, Figures[]> = { own: [], undici: [] };
      for (let n = 0; n < rounds; n++) {
        for (const client of CLIENTS) {
          const figures = await measured(client, server.url, scenario);
          runs[client].push(figures);
          log(`${scenario}, round ${n + 1}, ${client}: ${JSON.stringify(figures)}`);
        }
      }
      const of = (client: Client, key: keyof Figures): number => median(runs[client].map((one) => one[key] ?? 0));
      for (const client of CLIENTS) {
        all[client][`${scenario}: µs of CPU per request`] = round(of(client, 'microseconds'), 0);
        all[client][`${scenario}: MB`] = round(of(client, 'megabytes'), 0);
        if (scenario === 'bursts') all[client]['bursts: last arrival ms'] = round(of(client, 'lastArrivalMs'), 0);
        checks.push({ ...atMost(`${scenario}, ${client}: failed`, of(client, 'failed'), 0), target: '= 0' });
      }
      const over = of('own', 'microseconds') / of('undici', 'microseconds');
      checks.push(atMost(`${scenario}: CPU time, ours over undici’s`, over, 1));
      if (scenario === 'bursts') ratio = 1 / over;
    }
    for (const client of CLIENTS) {
      const names = await misreported(client);
      all[client][`correct on ${MISBEHAVIORS.length} misbehaving servers`] = MISBEHAVIORS.length - names.length;
      if (names.length > 0) notes.push(`${client} misreports: ${names.join('; ')}`);
      if (client === 'own') checks.push(atMost('misbehaving servers that ours misreports', names.length, 0));
    }
  } finally {
    await server.process.stop();
    rmSync(root, { recursive: true, force: true });
  }
  return {
    name: 'http-client',
    ratio: round(ratio),
    ours: all.own,
    peer: all.undici,
    machine: machine(),
    versions: { node: process.version, undici: '8' },
    checks,
    notes: [...notes, 'ratio: undici’s CPU time over ours, in bursts of 1,000'],
  };
}
