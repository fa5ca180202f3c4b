/** Decides the chances of captures to be judged, once per file, by the number of captures that are judged a day. */
import { DAY_MS, HOUR_MS } from '../../captures/files/capture-path.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { CaptureRange } from '../../core/contract/payloads.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { sum } from '../../core/values/sum.ts';
import { activeScorers } from '../../judge/active-scorers.ts';
import { estimateFromSizes } from '../../judge/pricing/estimate.ts';
import { dayScope, usedUsd } from '../../limits/budget.ts';
import { type DayNumbers, DrawnDays, type FileChances } from '../../limits/drawn-days.ts';
import { dayAt, type LimitsTable } from '../../limits/table.ts';
import { chanceOfFile, chanceOfLateFile, chanceOfRules, QUARTER } from '../../quality/day-quota.ts';
import { fileMsOf } from '../outcomes/rows.ts';

/** The last files of a day are planned after midnight. Later ones are of a day that is over. */
const GRACE_MS = HOUR_MS;
const WEEKS = 4;
const DAYS_A_WEEK = 7;
/** Share of the budget that runs of new files may spend. The rest is for retries. */
const SHARE_OF_BUDGET = 0.9;
/** With fewer judged captures in a week, list prices say what one costs. */
const LEAST_JUDGED = 30;

const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
const byHour = (day: DayNumbers, of: 'lines' | 'draws'): number[] => HOURS.map((hour) => day[`${of}${hour}`] ?? 0);

/** A capture file, or a part of it, as planning has counted it. */
type CountedFile = Pick<CaptureRange, 'bucket' | 'key' | 'objectTimeMs' | 'lines'> & { bytes: number };

type Sizes = Pick<CountedFile, 'lines' | 'bytes'>;

export class DrawChances {
  readonly #environment: LambdaEnvironment;
  readonly #table: LimitsTable;
  readonly #days: DrawnDays;
  readonly #now: () => number;

  /** @param now returns epoch milliseconds */
  constructor(environment: LambdaEnvironment, table: LimitsTable, now = Date.now) {
    this.#environment = environment;
    this.#table = table;
    this.#days = new DrawnDays(table);
    this.#now = now;
  }

  /**
   * Decides the chances of a file, and counts its lines. Files must be decided one after the other.
   *
   * @param isDry counts nothing
   *
   * @example
   *     const { chance } = await chances.decide({ bucket, key, objectTimeMs, lines: 700, bytes: 700_000 });
   */
  async decide(file: CountedFile, isDry = false): Promise<FileChances> {
    const known = await this.#days.chancesOf(file);
    if (known !== undefined) return known;
    const [fileMs, nowMs] = [fileMsOf(file), this.#now()];
    const isLate = dayAt(fileMs) < dayAt(nowMs - GRACE_MS);
    const day = dayAt(isLate ? nowMs : fileMs);
    const hour = new Date(fileMs).getUTCHours();
    const read = await this.#days.of(day);
    const rule = await this.#rule(file, { day, hour, isLate });
    const made = rule(read);
    if (isDry) return made;
    const [lines, draws] = isLate ? ['lateLines', 'lateDraws'] : [`lines${hour}`, `draws${hour}`];
    const own: DayNumbers = { [lines]: file.lines, [draws]: file.lines * made.chance };
    const added = Object.entries(await this.#days.add(day, own));
    // Planners that decided meanwhile have drawn too: decide as if this file had come after theirs.
    const others = Object.fromEntries(added.map(([name, total]) => [name, total - (own[name] ?? 0)]));
    const after = rule({ ...read, ...others });
    const chances = {
      chance: Math.min(made.chance, after.chance),
      ...(made.ruleChance !== undefined && { ruleChance: Math.min(made.ruleChance, after.ruleChance ?? 1) }),
    };
    const isFirst = await this.#days.decide(file, chances);
    const more = (isFirst ? chances.chance : 0) - made.chance;
    await this.#days.add(day, { [draws]: file.lines * more, [lines]: isFirst ? 0 : -file.lines });
    return isFirst ? chances : ((await this.#days.chancesOf(file)) ?? chances);
  }

  /**
   * Gives the ranges of a file its chances. @param how `keep`: the run has a number of its own, so that only chances that
   * were decided before count; `look`: decides without counting
   */
  async give(ranges: CaptureRange[], how: 'decide' | 'keep' | 'look'): Promise<void> {
    const [first] = ranges;
    if (first === undefined) return;
    const bytes = sum(ranges.map(({ start, end }) => end - start + 1));
    const file = { ...first, lines: sum(ranges.map(({ lines }) => lines)), bytes };
    const chances = how === 'keep' ? await this.#days.chancesOf(file) : await this.decide(file, how === 'look');
    for (const range of ranges) Object.assign(range, chances);
  }

  /**
   * Returns the chance that a run's own number of verdicts gives each capture: `verdicts`, or as many as `budgetUsd` or
   * half of what is left of today's budget pays for.
   *
   * @param found what planning has counted so far, of so many lines in all
   */
  async ofRun({ verdicts, budgetUsd, judge }: RunOptions, found: Sizes, lines: number): Promise<number> {
    const left = await this.#usdLeft();
    const number = verdicts ?? (await this.#payer(found, judge))(Math.min(budgetUsd ?? left / 2, left));
    return Number(Math.min(1, number / Math.max(1, lines)).toPrecision(3));
  }

  /** Returns how many captures an amount pays for: any number if the judge costs nothing, or its price is unknown. */
  async #payer(sizes: Sizes, judge: RunOptions['judge'] = 'converse'): Promise<(usd: number) => number> {
    const each = await this.#usdOfCapture(sizes, judge);
    return (usd) => (each > 0 ? usd / each : Infinity);
  }

  /** Returns the US dollars of today's budget that are not committed; infinite without a budget. */
  async #usdLeft(): Promise<number> {
    const { EVALUATION_BUDGET_USD: budget } = this.#environment;
    if (budget === 0) return Infinity;
    return Math.max(0, budget - usedUsd(await this.#table.get(dayScope(this.#now()))));
  }

  /** Returns a function that decides by the numbers of a day. */
  async #rule(file: CountedFile, { day, hour, isLate }: { day: string; hour: number; isLate: boolean }) {
    const { JUDGED_CAPTURES_PER_DAY: setting, EVALUATION_BUDGET_USD: budget } = this.#environment;
    const paidBy = await this.#payer(file);
    const all = budget > 0 ? Math.min(setting, paidBy(SHARE_OF_BUDGET * budget)) : setting;
    const affordable = paidBy(await this.#usdLeft());
    const before = (await this.#before(day, DAYS_A_WEEK, WEEKS)).map((of) => byHour(of, 'lines'));
    const weeks = before.filter((of) => sum(of) > 0);
    const hasRules = this.#environment.EVALUATION_ALWAYS.length > 0;
    const number = hasRules ? (1 - QUARTER) * all : all;
    return (now: DayNumbers): FileChances => {
      const { lateDraws = 0, ruleLines = 0, ruleMatched = 0, ruleDrawn = 0 } = now;
      const today = { lines: byHour(now, 'lines'), draws: byHour(now, 'draws') };
      const at = { hour, lines: file.lines };
      // What late files draw is a part of the number.
      const known = { number: number - lateDraws, today, weeks, affordable };
      const late = () => chanceOfLateFile(file.lines, { number, affordable }, lateDraws);
      const chance = isLate ? late() : chanceOfFile(at, known);
      if (!hasRules) return { chance };
      const reported = { lines: ruleLines, matched: ruleMatched, drawn: ruleDrawn };
      return { chance, ruleChance: chanceOfRules(at, { ...known, number: all }, reported) };
    };
  }

  /** Returns the cost of judging a capture: that of the last week, or else by list prices. */
  async #usdOfCapture({ lines, bytes }: Sizes, judge: RunOptions['judge']): Promise<number> {
    const environment = this.#environment;
    const week = await this.#before(dayAt(this.#now()), 1, DAYS_A_WEEK);
    const [judged, usd] = [sum(week.map((day) => day.judged ?? 0)), sum(week.map((day) => day.usd ?? 0))];
    if (judged >= LEAST_JUDGED && judge === 'converse') return usd / judged;
    const sizes = { captures: lines, bytes };
    const listed = estimateFromSizes(environment, activeScorers(environment, judge), { judge }, sizes);
    return (listed.usd ?? 0) / (listed.judgedCaptures || 1);
  }

  /** Reads days before a day, in steps of some days. */
  #before(day: string, step: number, count: number): Promise<DayNumbers[]> {
    const ms = Date.parse(day);
    const names = Array.from({ length: count }, (_, n) => dayAt(ms - (n + 1) * step * DAY_MS));
    return Promise.all(names.map((name) => this.#days.ofPast(name)));
  }
}
