/**
 * Measures `status` over 24 hours and the page over 30 days, each with the weeks before: a run a minute, 18 scorers and 3 variants, in
 * an emulated S3. Then it simulates endpoints whose truth is known, and counts what `status` says of them.
 *
 * `--runs N` a day (1,440), `--captures N` of a day without its sum (a million), `--weeks N` of each of four healthy endpoints (200), a quarter of it of the others.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Log } from '../local/python/python-environment.ts';
import { inOrder } from '../src/core/process/concurrency.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import type { AskReport } from './status-support/ask.ts';
import { CELLS, type Cell } from './status-support/cells.ts';
import type { Looked } from './status-support/look.ts';
import { CAPTURES, DAY_MS, SCORERS, TO_MS, VARIANTS, withMonth } from './status-support/month.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, type Check, round } from './support/result.ts';

const DAYS = 30;
const ASK = 'status-support/ask.ts';
const [MOST_MB, MOST_BYTES] = [300, 1_500_000];
/** Seconds, at most. */
const MOST = { status: 1, page: 5, rates: 3, folded: 60 };
/** A day whose sum is gone. */
const FOLDED_CAPTURES = 1e6;

export default async function bench(log: Log, flags: string[] = []): Promise<BenchResult> {
  const runs = numberFlag(flags, 'runs', 1440);
  const simulated = await simulatedChecks(log, numberFlag(flags, 'weeks', 200));
  const captures = numberFlag(flags, 'captures', FOLDED_CAPTURES);
  return withMonth(log, 2 * DAYS, runs, async ({ run, writeFolded }) => {
    const asked = {
      status: await run<AskReport>(ASK, 'status', TO_MS - DAY_MS, TO_MS),
      page: await run<AskReport>(ASK, 'page', TO_MS - DAYS * DAY_MS, TO_MS),
      rates: await run<AskReport>(ASK, 'rates', TO_MS - DAYS * DAY_MS, TO_MS),
      folded: await writeFolded(captures).then((ms) => run<AskReport>(ASK, 'rates', ms, ms + DAY_MS)),
    };
    const { status, page, folded } = asked;
    const limits = Object.entries(MOST) as [keyof typeof MOST, number][];
    return {
      ratio: round(Math.min(...limits.map(([what, most]) => most / asked[what].seconds))),
      ours: Object.fromEntries(limits.map(([what]) => [`${what}, s`, round(asked[what].seconds)])),
      peer: Object.fromEntries(limits.map(([what, most]) => [`${what}, s at most`, most])),
      checks: [
        atMost('captures that are missing', runs * VARIANTS.length * CAPTURES - status.captures, 0),
        atMost('captures that are missing of the folded day', captures - folded.captures, 0),
        ...limits.flatMap(([what, most]) => [
          atMost(`${what}: seconds`, asked[what].seconds, most),
          atMost(`${what}: peak MB`, asked[what].peakMb, MOST_MB),
        ]),
        atMost('page over 30 days: bytes of HTML', page.pageBytes, MOST_BYTES),
        ...simulated,
      ],
      notes: [
        `${runs} runs a day, ${CAPTURES} captures of ${VARIANTS.length} variants a run, ${SCORERS.length} scorers`,
        `status is of 24 hours, page and rates of ${DAYS} days; folded: ${captures} captures of a day without its sum`,
      ],
    };
  });
}

/** Daily looks at a healthy endpoint with a false finding, and healthy states beside a fall that they exclude, at most. */
const [MOST_FALSE, MOST_UNTRUE] = [0.02, 0.05];
/** Cells that are simulated at the same time. */
const AT_ONCE = 2;

async function simulatedChecks(log: Log, weeks: number): Promise<Check[]> {
  const file = packagePath('bench', 'status-support', 'look.ts');
  const look = async ([name, cell]: [string, Cell]): Promise<Check[]> => {
    const all = String(Math.ceil(cell.isOften ? weeks : weeks / 4));
    const { stdout } = await promisify(execFile)(process.execPath, [file, name, all]);
    const looked = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Looked;
    const share = (of: keyof Looked): number => round(looked[of] / looked.looks, 4);
    log(`${name}: ${looked.looks} looks, ${looked.found} with a finding, ${looked.healthy} healthy`);
    const { named, healthy, points } = cell;
    return [
      ...(name.startsWith('healthy')
        ? [atMost(`${name}: looks with a false finding`, share('found'), MOST_FALSE)]
        : []),
      ...(named ? [atLeast(`${name}: named`, share('named'), named.atLeast)] : []),
      ...(healthy ? [atLeast(`${name}: called healthy`, share('healthy'), healthy)] : []),
      ...(points ? [atMost(`${name}: healthy beside what it excludes`, share('untrue'), MOST_UNTRUE)] : []),
    ];
  };
  return (await Array.fromAsync(inOrder(AT_ONCE, Object.entries(CELLS), look))).flat();
}
