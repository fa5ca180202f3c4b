/** A benchmark's result: the figures of both sides, their ratio, and the targets. */
import { cpus, totalmem } from 'node:os';

export interface Check {
  what: string;
  value: number;
  target: string;
  ok: boolean;
}

export interface BenchResult {
  /** The product's median over the peer's. Larger is better. */
  ratio: number;
  ours: Record<string, number | string | number[]>;
  peer: Record<string, number | string | number[]>;
  /** Absent: this one. */
  machine?: string;
  /** Besides Node's. */
  versions?: Record<string, string>;
  checks: Check[];
  notes: string[];
}

export const machine = (): string =>
  `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${process.platform} ${process.arch}`;

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  if (sorted.length % 2 === 1) return sorted[Math.floor(middle)] ?? Number.NaN;
  return ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
}

export const round = (value: number, digits = 2): number => Number(value.toFixed(digits));

export const atLeast = (what: string, value: number, target: number): Check => ({
  what,
  value: round(value),
  target: `>= ${target}`,
  ok: value >= target,
});

export const atMost = (what: string, value: number, target: number): Check => ({
  what,
  value: round(value),
  target: `<= ${target}`,
  ok: value <= target,
});

/** Returns the result with the benchmark's name, and where it was measured. */
export const named = (name: string, result: BenchResult) => ({
  ...{ name, machine: machine(), ...result },
  versions: { node: process.version, ...result.versions },
});

export function printResult(result: ReturnType<typeof named>): void {
  const side = (name: string, figures: BenchResult['ours']): string =>
    `${name}: ${Object.entries(figures)
      .map(([key, value]) => `${key} ${Array.isArray(value) ? `[${value.join(', ')}]` : value}`)
      .join(', ')}`;
  console.log(`── ${result.name} ──`);
  console.log(side('ours', result.ours));
  console.log(side('peer', result.peer));
  console.log(`ratio: ${round(result.ratio)}`);
  for (const { what, value, target, ok } of result.checks)
    console.log(`${ok ? 'met   ' : 'MISSED'}  ${what}: ${value} (${target})`);
  for (const note of result.notes) console.log(`note: ${note}`);
  console.log(`machine: ${result.machine}`);
  console.log(
    `versions: ${Object.entries(result.versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(', ')}`,
  );
}
