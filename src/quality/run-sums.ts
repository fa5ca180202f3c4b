/** Adds up the results of a run's chunks by variant. The memory does not depend on the chunks. */
import type {
  ObservedSecond,
  QualityCell,
  QualityCounts,
  QualityFailures,
  QualityObservations,
} from '../core/contract/quality.ts';
import { addCell, MAX_VARIANTS, OTHER } from './cell.ts';
import { branch } from './count-tree.ts';
import { addFailures } from './detectors.ts';

export type RunSumsState = Pick<RunSums, 'variants' | 'first' | 'failures' | 'experimentId'>;

export class RunSums {
  readonly variants: Record<string, QualityCell> = {};
  /** The hour of the first capture, such as `2026-11-20T10`; empty without captures. */
  first = '';
  readonly failures: QualityFailures = {};
  /** The experiment of the traces. */
  experimentId = '';

  /** Continues the sums of an earlier invocation. */
  restore(earlier: RunSumsState): void {
    Object.assign(this, earlier);
  }

  /** Adds captures that failed an objective. */
  fail(failures: QualityFailures): void {
    addFailures(this.failures, failures);
  }

  add(counts: QualityCounts): void {
    for (const [hour, variants] of Object.entries(counts)) {
      if (this.first === '' || hour < this.first) this.first = hour;
      for (const [variant, cell] of Object.entries(variants)) {
        const isKnown = Object.hasOwn(this.variants, variant) || Object.keys(this.variants).length < MAX_VARIANTS;
        addCell(branch(this.variants, isKnown ? variant : OTHER), cell);
      }
    }
  }

  /** Returns the observations of the objectives in the captures. Returns `undefined` if there are none. */
  observations(): QualityObservations | undefined {
    const seen = Object.entries(this.variants).flatMap(([variant, { seconds = {} }]) =>
      Object.entries(seconds).map(([measure, own]) => ({ measure, entry: [variant, inOrder(own)] as const })),
    );
    if (seen.length === 0) return undefined;
    const series = [...Map.groupBy(seen, ({ measure }) => measure)].map(
      // Names come from captures, and may be `__proto__`.
      ([measure, own]) => [measure, Object.fromEntries(own.map(({ entry }) => entry))] as const,
    );
    return { series: Object.fromEntries(series), failures: this.failures };
  }

  /** Returns the run's counts by variant, and the hour of its first capture. */
  counted(): { first?: string; variants: Record<string, QualityCell> } {
    const variants = Object.entries(this.variants).map(([variant, { seconds: _, ...cell }]) => [variant, cell]);
    return { ...(this.first && { first: this.first }), variants: Object.fromEntries(variants) };
  }
}

const inOrder = (seconds: NonNullable<QualityCell['seconds']>[string]): ObservedSecond[] =>
  Object.entries(seconds)
    .map(([second, { cases = 0, failed = 0 }]): ObservedSecond => [Number(second), cases, failed])
    .toSorted(([a], [b]) => a - b);
