/** The command `calibrate`, and scikit-learn's figures for what it reports. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { Measured } from '../../src/core/statistics/sampled-mean.ts';
import type { Estimate } from '../../src/core/statistics/share.ts';
import type { CalibrationReport, ScorerReport } from '../../src/quality/calibration/report.ts';
import { expectPublished } from './published-json.ts';
import { startPythonProcess } from './python-process.ts';

export const run = promisify(execFile);

export interface Reference {
  agreement: number[] | null;
  accuracy: number;
  confusion: number[][];
  tpr: number[] | null;
  tnr: number[] | null;
  recall: number;
  f1: number[];
  kappa_none: [number, number] | null;
  kappa_linear: [number, number] | null;
  kappa_quadratic: [number, number] | null;
}
export interface Case {
  labels: string[];
  verdicts: string[];
  values: string[];
}

/** A folder for the files of the command, and scikit-learn in one process: importing it takes seconds. */
export class Calibration {
  readonly folder = mkdtempSync(join(tmpdir(), 'calibration-'));
  readonly python: string;
  readonly #reference: ReturnType<typeof startPythonProcess>;

  private constructor(python: string) {
    this.python = python;
    this.#reference = startPythonProcess(python, ['agreement.py'], process.env);
  }

  static async start(): Promise<Calibration> {
    return new Calibration((await defaultPythonEnvironment()).python);
  }

  async stop(): Promise<void> {
    await this.#reference.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Returns scikit-learn's figures for each case. */
  reference(cases: readonly Case[]): Promise<Reference[]> {
    return this.#reference.ask<Reference[]>(cases);
  }

  /** Runs the command and returns the report that it prints. */
  async calibrate(
    args: string[],
    env: Record<string, string>,
    cwd = packagePath(),
  ): Promise<{ report: CalibrationReport; stdout: string; stderr: string }> {
    const script = packagePath('bin', 'inference-monitor.ts');
    // Ignores the .env of the person who runs the tests.
    const clean = { PATH: process.env.PATH ?? '', DOTENV_CONFIG_PATH: join(this.folder, 'none'), ...env };
    const { stdout, stderr } = await run(process.execPath, [script, 'calibrate', ...args, '--json'], {
      env: clean,
      cwd,
    });
    return { report: (await expectPublished('calibrate', stdout)) as CalibrationReport, stdout, stderr };
  }

  /** Compares every scorer's figures with scikit-learn's. */
  async compareAll({ scorers, pairs }: CalibrationReport): Promise<void> {
    const cases = scorers.map(({ name, confusion }) => {
      const own = pairs.filter(({ scorer }) => scorer === name);
      return {
        labels: own.map(({ label }) => String(label)),
        verdicts: own.map(({ verdict }) => String(verdict)),
        values: confusion?.values ?? [],
      };
    });
    const theirs = await this.reference(cases);
    expect(theirs).toHaveLength(scorers.length);
    scorers.forEach((scorer, index) => {
      compare(scorer, theirs[index] as Reference);
    });
  }
}

function near(ours: Estimate | null | undefined, theirs: number[] | null): void {
  if (theirs === null) {
    expect(ours ?? null).toBeNull();
    return;
  }
  [ours?.value, ours?.low, ours?.high].forEach((figure, index) => {
    expect(figure).toBeCloseTo(theirs[index] as number, 9);
  });
}

export function nearKappa(ours: Measured | null | undefined, theirs: [number, number] | null, n: number): void {
  if (theirs === null) {
    expect(ours ?? null).toBeNull();
    return;
  }
  const [value, error] = theirs;
  expect(ours?.value).toBeCloseTo(value, 9);
  // The reference interval uses the jackknife, another method. They agree for hundreds of labels.
  if (n < 300 || ours?.low == null) return;
  const half = ((ours?.high as number) - (ours?.low as number)) / 2;
  if ((ours?.high as number) < 1 && (ours?.low as number) > -1) {
    expect(half / 1.96).toBeGreaterThan(error * 0.9);
    expect(half / 1.96).toBeLessThan(error * 1.1);
  }
}

/** Compares every figure of a scorer's report with scikit-learn's. */
export function compare(report: ScorerReport, theirs: Reference): void {
  near(report.agreement, theirs.agreement);
  expect(report.agreement?.value).toBeCloseTo(theirs.accuracy, 12);
  expect(report.confusion?.counts).toEqual(theirs.confusion);
  near(report.tpr, theirs.tpr);
  near(report.tnr, theirs.tnr);
  if (report.tpr !== null) expect(report.tpr.value).toBeCloseTo(theirs.recall, 12);
  report.classes.forEach(({ f1 }, index) => {
    expect(f1 ?? 0).toBeCloseTo(theirs.f1[index] as number, 12);
  });
  nearKappa(report.kappa, theirs.kappa_none, report.n);
  if (report.weightedKappa !== null) nearKappa(report.weightedKappa, theirs.kappa_linear, report.n);
}
