/**
 * Simulates weeks of captures whose labels are picked by `label --next`, an MLflow in memory between it and `rates`: how often the 95%
 * interval of the corrected rate contains the rate of the captures that were picked from, beside that of the same labels without their
 * windows.
 *
 * `--simulations N` simulates fewer weeks of each kind.
 */
import type { Log } from '../local/python/python-environment.ts';
import { Random } from '../src/core/values/random.ts';
import { simulateWeeks, WEEKS, type Weeks } from './rates-support/weeks.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, round } from './support/result.ts';

const SIMULATIONS = 400;
const TARGET = 93;

interface Row {
  name: string;
  covered: number;
  unweighted: number;
  bias: number;
  width: number;
  /** Simulations without a rate, and those that name other captures than were picked from. */
  without: number;
  misnamed: number;
}

async function rowOf(weeks: Weeks, simulations: number, random: Random): Promise<Row> {
  const sums = { covered: 0, unweighted: 0, bias: 0, width: 0, without: 0, misnamed: 0 };
  for (let at = 0; at < simulations; at++) {
    const { made, unweighted, truth, captures } = await simulateWeeks(weeks, random);
    const contains = ({ low, high }: { low: number; high: number }): number => (low <= truth && truth <= high ? 1 : 0);
    sums.covered += contains(made);
    sums.unweighted += contains(unweighted);
    sums.bias += (made.share ?? truth) - truth;
    sums.width += made.high - made.low;
    sums.without += made.share === null ? 1 : 0;
    // By chance, nobody may label what fails in a week of which a third is labelled.
    const isWhole = weeks.calls.every(({ answered }) => answered === undefined);
    const named = weeks.picked === undefined ? null : captures;
    sums.misnamed += isWhole && made.covered !== named ? 1 : 0;
  }
  const percent = (count: number): number => (100 * count) / simulations;
  const [covered, unweighted] = [percent(sums.covered), percent(sums.unweighted)];
  const mean = { bias: sums.bias / simulations, width: sums.width / simulations };
  return { name: weeks.name, ...sums, ...mean, covered, unweighted };
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const simulations = numberFlag(flags, 'simulations', SIMULATIONS);
  const random = new Random(23);
  const rows: Row[] = [];
  for (const weeks of WEEKS) {
    const row = await rowOf(weeks, simulations, random);
    rows.push(row);
    log(
      `${row.name.padEnd(58)} ${row.covered.toFixed(1)}%, off by ${(100 * row.bias).toFixed(2)}, ± ${(50 * row.width).toFixed(1)} points; without windows ${row.unweighted.toFixed(1)}%`,
    );
  }
  const worst = (field: 'covered' | 'unweighted'): number => Math.min(...rows.map((row) => row[field]));
  const mean = (field: 'covered' | 'unweighted'): number =>
    rows.reduce((sum, row) => sum + row[field], 0) / rows.length;
  const sides = (field: 'covered' | 'unweighted') => ({
    'covered in the mean, %': round(mean(field)),
    'covered in the worst weeks, %': round(worst(field)),
  });
  return {
    ratio: round(mean('covered') / mean('unweighted')),
    ours: sides('covered'),
    peer: sides('unweighted'),
    checks: [
      atLeast('covered in each kind of weeks, %', worst('covered'), TARGET),
      atMost('off by, points, in the worst weeks', 100 * Math.max(...rows.map(({ bias }) => Math.abs(bias))), 1),
      atMost(
        'simulations without a rate',
        rows.reduce((sum, { without }) => sum + without, 0),
        0,
      ),
      atMost(
        'simulations that name other captures',
        rows.reduce((sum, { misnamed }) => sum + misnamed, 0),
        0,
      ),
    ],
    notes: [
      `${simulations} simulations of each of ${WEEKS.length} kinds of weeks; the table is on standard error`,
      'the peer takes the same labels, as if each stood for as many captures',
    ],
  };
}
