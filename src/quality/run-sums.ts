/** Adds up the results of a run's chunks. The memory depends on the hours and variants, not on the chunks. */
import type {
  ObservedSecond,
  QualityCell,
  QualityCounts,
  QualityFailures,
  QualityObservations,
} from '../core/contract/quality.ts';
import { dayOf } from '../ledger/files.ts';
import { addCell, namesIn } from './cell.ts';
import { branch } from './count-tree.ts';
import { cellsOf, sumOfCells } from './counts-store.ts';
import { addFailures } from './detectors.ts';

/**
 * Maximum number of hours × variants of one run: more than a year of two variants. With a dozen scorers, they take
 * about 100 MB.
 */
const MAX_CELLS = 20_000;
/**
 * Maximum number of names in all of them, of some 100 bytes each. Beyond it, an hour and variant keeps few names of
 * each kind, because captures can make names up.
 */
const [MAX_NAMES, FEW_NAMES] = [500_000, 10];
/** Maximum number of days of one run. Each day is an object. */
const MAX_DAYS = 1_100;

export type RunSumsState = Pick<RunSums, 'counts' | 'beyond' | 'failures' | 'experimentId'>;

export class RunSums {
  readonly counts: QualityCounts = {};
  readonly failures: QualityFailures = {};
  /** The experiment of the traces. */
  experimentId = '';
  /** Captures that are in no counts, because they would add more hours than a run may have. */
  beyond = 0;
  #cells = 0;
  #names = 0;
  readonly #days = new Set<string>();

  /** Adds the sums of an earlier invocation. */
  restore({ counts, beyond, failures, experimentId }: RunSumsState): void {
    this.add(counts);
    this.fail(failures);
    this.beyond += beyond;
    this.experimentId = experimentId;
  }

  /** Adds captures that failed an objective. */
  fail(failures: QualityFailures): void {
    addFailures(this.failures, failures);
  }

  add(counts: QualityCounts): void {
    for (const [hour, variants] of Object.entries(counts)) {
      for (const [variant, cell] of Object.entries(variants)) {
        if (this.#hasRoom(hour, variant)) this.#addCell(branch(branch(this.counts, hour), variant), cell);
        else this.beyond += cell.captures ?? 0;
      }
    }
  }

  #addCell(total: QualityCell, more: QualityCell): void {
    const before = namesIn(total);
    addCell(total, more, this.#names < MAX_NAMES ? undefined : FEW_NAMES);
    this.#names += namesIn(total) - before;
  }

  #hasRoom(hour: string, variant: string): boolean {
    if (Object.hasOwn(this.counts, hour) && Object.hasOwn(this.counts[hour] ?? {}, variant)) return true;
    const day = dayOf(hour);
    if (this.#cells >= MAX_CELLS || (this.#days.size >= MAX_DAYS && !this.#days.has(day))) return false;
    this.#cells += 1;
    this.#days.add(day);
    return true;
  }

  /** Returns the observations of the objectives in the captures. Returns `undefined` if there are none. */
  observations(): QualityObservations | undefined {
    const seen = cellsOf(this.counts).flatMap(({ variant, cell }) =>
      Object.entries(cell.seconds ?? {}).map(([measure, seconds]) => ({ measure, variant, seconds: inOrder(seconds) })),
    );
    if (seen.length === 0) return undefined;
    const series = [...Map.groupBy(seen, ({ measure }) => measure)].map(([measure, ofMeasure]) => {
      const variants = [...Map.groupBy(ofMeasure, ({ variant }) => variant)];
      // Names come from captures, and may be `__proto__`.
      return [
        measure,
        Object.fromEntries(variants.map(([variant, own]) => [variant, own.flatMap((one) => one.seconds)])),
      ];
    });
    return { series: Object.fromEntries(series), failures: this.failures };
  }

  /** Returns the run's counts by variant, and the hour of its first capture. */
  counted(): { first?: string; variants: Record<string, QualityCell> } {
    const cells = cellsOf(this.counts);
    const variants = [...Map.groupBy(cells, ({ variant }) => variant)].map(([variant, own]) => {
      const { seconds: _, ...sum } = sumOfCells(own);
      return [variant, sum];
    });
    return { ...(cells[0] && { first: cells[0].hour }), variants: Object.fromEntries(variants) };
  }

  /** Returns a warning for the summary if counts are missing. */
  warnings(): string[] {
    if (this.beyond === 0) return [];
    const most = `${MAX_CELLS} hours of variants on ${MAX_DAYS} days`;
    return [
      `${this.beyond} captures are in no counts, so \`rates\` does not know them: a run counts at most ${most}. Run such a backfill in several parts, or look at the captures' times`,
    ];
  }
}

const inOrder = (seconds: NonNullable<QualityCell['seconds']>[string]): ObservedSecond[] =>
  Object.entries(seconds)
    .map(([second, { cases = 0, failed = 0 }]): ObservedSecond => [Number(second), cases, failed])
    .toSorted(([a], [b]) => a - b);
