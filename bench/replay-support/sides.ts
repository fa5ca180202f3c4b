/** The sides of the benchmark: this product, AIPerf, and a few lines of Node as the baseline of the machine. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { median } from '../support/result.ts';
import { type Aiperf, profileArgs } from './aiperf.ts';
import type { Command, MeasuredRun } from './measure.ts';
import { CAPTURES_FILE } from './scenarios.ts';

export type SideName = 'ours' | 'peer' | 'bare';

export interface SideRun extends MeasuredRun {
  /** Latency measured by the side itself, ms. */
  latencyP50: number;
  /** Schedule lag by this product's own clock, ms; NaN for the other sides. */
  lagP99: number;
}

/** The runs of each side in one scenario; none for a side that does not take part. */
export type Sides = Record<SideName, SideRun[]>;

export const medianOf = (runs: readonly SideRun[], key: keyof SideRun): number => median(runs.map((one) => one[key]));

/** Returns our command line. @param more additional flags */
export const ours = (captures: string, url: string, out: string, ...more: string[]): Command => ({
  command: process.execPath,
  args: [packagePath('bin', 'inference-monitor.ts'), 'replay', captures, '--url', url, '-o', out, '--quiet', ...more],
});

/** Returns the baseline's command. @param out folder of its result */
const bareCommand = (captures: string, url: string, out: string): Command => {
  mkdirSync(out, { recursive: true });
  const script = packagePath('bench', 'replay-support', 'bare-sender.ts');
  return { command: process.execPath, args: [script, join(captures, CAPTURES_FILE), url, join(out, 'bare.json')] };
};

/** Runs one side with the captured times. @param peer `undefined` omits AIPerf */
export function commandOf(
  side: SideName,
  captures: string,
  url: string,
  out: string,
  peer: Aiperf | undefined,
): Command | undefined {
  if (side === 'ours') return ours(captures, url, out, '--fixed-schedule-auto-offset');
  if (side === 'bare') return bareCommand(captures, url, out);
  return peer?.command(profileArgs(captures, url, out), join(out, '..'));
}

interface Summary {
  request_latency: { p50: number };
  credit_to_start_latency?: { p99: number };
  request_throughput: { avg: number };
}

export const summaryOf = (directory: string): Summary =>
  JSON.parse(readFileSync(join(directory, 'profile_export_aiperf.json'), 'utf8')) as Summary;

/** Returns the baseline's median latency, ms. */
const bareLatency = (out: string): number =>
  (JSON.parse(readFileSync(join(out, 'bare.json'), 'utf8')) as { latencyP50: number }).latencyP50;

/** Reads what a run of `side` measured itself. */
export function ownFigures(side: SideName, out: string): Pick<SideRun, 'latencyP50' | 'lagP99'> {
  if (side === 'bare') return { latencyP50: bareLatency(out), lagP99: Number.NaN };
  const { request_latency: latency, credit_to_start_latency: lag } = summaryOf(out);
  return { latencyP50: latency.p50, lagP99: side === 'ours' ? (lag?.p99 ?? Number.NaN) : Number.NaN };
}
