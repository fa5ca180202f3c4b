/**
 * Simulates judges with known errors and people's labels, and runs them through the product's corrected rates: how often the 95%
 * interval contains the true rate, and how wide it is beside that of ppi-python from the same labels, and beside that of labels
 * picked by `label --next`.
 *
 * `--simulations N` simulates fewer samples per cell.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Log } from '../local/python/python-environment.ts';
import { lockedEnvironment } from '../local/python/python-presets.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { Random } from '../src/core/values/random.ts';
import {
  CELLS,
  type Cell,
  expectedRarer,
  type Intervals,
  JUDGED,
  nameOf,
  pickedLabels,
  plugInLabels,
  randomLabels,
} from './rates-support/judges.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, round } from './support/result.ts';

const SIMULATIONS = 10_000;
/** ppi-python computes at most this number of samples per cell, since it takes longer than the rest. */
const MOST_PEER = 2000;
/** Picking is slower, and the mean width needs fewer. */
const PICKED = 5;
/** Fewest labels of the rarer class for which an interval of 95% is promised. */
const ENOUGH = 10;

interface Row extends Cell {
  random: Intervals;
  picked: Intervals;
  plugIn: Intervals;
  /** The mean width. */
  peer: { simulations: number; covered: number; width: number };
}

const percent = ({ covered, simulations }: Intervals): number => (100 * covered) / simulations;
const width = ({ width: sum, simulations }: Intervals): number => sum / simulations;
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const most = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b), -Infinity);
const least = (values: readonly number[]): number => -most(values.map((value) => -value));

/** Runs ppi-python on the labels of all cells. */
async function peerOf(counts: Int32Array, simulations: number, log: Log) {
  const { python } = await lockedEnvironment('ppi', log);
  const folder = mkdtempSync(join(tmpdir(), 'rates-'));
  try {
    const [countsFile, cellsFile] = [join(folder, 'counts'), join(folder, 'cells.json')];
    writeFileSync(countsFile, counts);
    writeFileSync(cellsFile, JSON.stringify(CELLS.map((cell) => ({ ...cell, judged: JUDGED, simulations }))));
    const args = [packagePath('bench', 'peer', 'ppi.py'), countsFile, cellsFile];
    const { stdout } = await promisify(execFile)(python, args, { maxBuffer: 2 ** 24 });
    return JSON.parse(stdout) as { version: string; cells: Row['peer'][] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function pickedOf(simulations: number, random: Random): Map<Cell, Intervals> {
  const found = new Map<Cell, Intervals>();
  const judges = Map.groupBy(CELLS, ({ rate, tpr, tnr }) => `${rate} ${tpr} ${tnr}`);
  for (const cells of judges.values()) {
    const [judge] = cells;
    if (judge === undefined) continue;
    const wanted = cells.map(({ labels }) => labels);
    for (const [index, intervals] of pickedLabels(judge, wanted, simulations, random).entries()) {
      const cell = cells[index];
      if (cell !== undefined) found.set(cell, intervals);
    }
  }
  return found;
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const simulations = numberFlag(flags, 'simulations', SIMULATIONS);
  const random = new Random(17);
  const peerSimulations = Math.min(simulations, MOST_PEER);
  const size = 5 * peerSimulations;
  const counts = new Int32Array(size * CELLS.length);
  const own = CELLS.map((cell, at) =>
    randomLabels(cell, simulations, random, counts.subarray(at * size, (at + 1) * size)),
  );
  log(`${CELLS.length} cells of ${simulations} samples; now ppi-python`);
  const peer = await peerOf(counts, peerSimulations, log);
  log('now the labels that are picked, and labels of other captures');
  const picked = pickedOf(Math.max(1, Math.round(simulations / PICKED)), random);
  const rows: Row[] = CELLS.map((cell, at) => ({
    ...cell,
    random: own[at] as Intervals,
    picked: picked.get(cell) as Intervals,
    plugIn: plugInLabels(cell, Math.max(1, Math.round(simulations / PICKED)), random),
    peer: peer.cells[at] as Row['peer'],
  }));
  for (const row of rows) log(line(row));
  return result(rows, simulations, peer.version);
}

const line = ({ random, picked, plugIn, peer, ...cell }: Row): string =>
  [
    nameOf(cell).padEnd(44),
    `${percent(random).toFixed(1)}% ${width(random).toFixed(4)}`,
    `ppi-python ${((100 * peer.covered) / peer.simulations).toFixed(1)}% ${peer.width.toFixed(4)}`,
    `picked ${percent(picked).toFixed(1)}% ×${(width(picked) / width(random)).toFixed(2)}`,
    plugIn.simulations > 0 ? `plug-in ${percent(plugIn).toFixed(1)}% ${width(plugIn).toFixed(4)}` : '',
    Object.entries(random.methods)
      .map(([method, count]) => `${method} ${Math.round((100 * count) / random.simulations)}%`)
      .join(', '),
  ].join('  ');

function result(rows: Row[], simulations: number, version: string): BenchResult {
  const enough = rows.filter((row) => expectedRarer(row) >= ENOUGH);
  const valid = enough.filter(({ peer }) => peer.covered >= 0.94 * peer.simulations);
  const ratio = mean(valid.map(({ random, peer }) => width(random) / peer.width));
  const target = rows.filter(({ rate, tpr, tnr }) => rate === 0.9 && tpr === 0.95 && tnr === 0.95);
  const pickedRatio = (row: Row): number => width(row.picked) / width(row.random);
  const average = mean(enough.map(({ random }) => percent(random)));
  const plugIn = rows.filter((row) => row.plugIn.simulations > 0);
  return {
    ratio: round(1 / ratio, 3),
    ours: {
      'covered in the mean, %': round(average),
      'covered in the worst cell, %': round(least(rows.map(({ random }) => percent(random)))),
    },
    peer: {
      'covered in the mean, %': round(mean(enough.map(({ peer }) => (100 * peer.covered) / peer.simulations))),
      'covered in the worst cell, %': round(least(rows.map(({ peer }) => (100 * peer.covered) / peer.simulations))),
    },
    versions: { 'ppi-python': version },
    checks: [
      atLeast('covered in each cell, %', least(rows.map(({ random }) => percent(random))), 93),
      atLeast(`covered in the mean of ${enough.length} cells with enough labels, %`, average, 94),
      atMost(`covered in the mean of ${enough.length} cells with enough labels, %`, average, 96),
      atMost(`width ÷ ppi-python's, mean of ${valid.length} cells where that covers 94%`, ratio, 1.1),
      ...target.map((row) => atMost(`picked ÷ random labels, ${nameOf(row)}: width`, pickedRatio(row), 1)),
      atMost('picked ÷ random labels, worst cell: width', most(rows.map(pickedRatio)), 1.2),
      atLeast('picked labels: covered in each cell, %', least(rows.map(({ picked }) => percent(picked))), 92.5),
      atLeast('picked labels: covered in the mean, %', mean(rows.map(({ picked }) => percent(picked))), 94),
      atLeast('plug-in: covered in the mean, %', mean(plugIn.map((row) => percent(row.plugIn))), 94),
      atLeast('plug-in: covered in each cell, %', least(plugIn.map((row) => percent(row.plugIn))), 91.5),
    ],
    notes: [
      `${simulations} samples in each of ${rows.length} cells of ${JUDGED} judged captures; a fifth of them for picked labels, plug-in and ppi-python; the table is on standard error`,
      'enough labels: at least 10 of the rarer class are expected of a random sample; below, the interval is exact, and wider',
      'picked: 50 at a time by the rule of `label --next`',
      'plug-in: the labels are of other captures with a rate of 0.7',
    ],
  };
}
