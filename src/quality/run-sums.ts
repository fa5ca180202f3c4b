/** Adds up the results of a run's chunks by variant. The memory does not depend on the chunks. */
import type { ObservedSeries, QualityCell, QualityCounts, QualityFailures } from '../core/contract/quality.ts';
import { addCell, MAX_VARIANTS, OTHER } from './cell.ts';
import { addTree, branch } from './count-tree.ts';
import { addFailures } from './detectors.ts';

export type RunSumsState = Pick<RunSums, 'variants' | 'first' | 'series' | 'failures' | 'experimentId'>;

export class RunSums {
  readonly variants: Record<string, QualityCell> = {};
  /** The hour of the first capture, such as `2026-11-20T10`. */
  first: string | undefined;
  readonly series: ObservedSeries = {};
  readonly failures: QualityFailures = {};
  /** The experiment of the traces. */
  experimentId = '';

  /** Continues the sums of an earlier invocation. */
  restore(earlier: RunSumsState): void {
    Object.assign(this, earlier);
  }

  add(counts: QualityCounts): void {
    for (const [hour, variants] of Object.entries(counts)) {
      if (this.first === undefined || hour < this.first) this.first = hour;
      for (const [variant, cell] of Object.entries(variants)) {
        const isKnown = Object.hasOwn(this.variants, variant) || Object.keys(this.variants).length < MAX_VARIANTS;
        addCell(branch(this.variants, isKnown ? variant : OTHER), cell);
      }
    }
  }

  /** Adds observations of the objectives in counted captures. */
  observe(series: ObservedSeries): void {
    for (const [measure, variants] of Object.entries(series)) {
      for (const [variant, seconds] of Object.entries(variants)) {
        const name = Object.hasOwn(this.variants, variant) ? variant : OTHER;
        addTree(branch(branch(this.series, measure), name), seconds);
      }
    }
  }

  /** Adds captures that failed an objective. */
  fail(failures: QualityFailures): void {
    addFailures(this.failures, failures);
  }
}
