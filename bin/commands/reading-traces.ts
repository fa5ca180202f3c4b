/** For commands that read traces: the query, the shadow variants that are left out, and the labels of a window. */

import { many } from '../../src/core/text/figure-text.ts';
import { isJudgeScorer } from '../../src/judge/scorers/scorer-set.ts';
import type { Scorer } from '../../src/judge/types.ts';
import { shadowLeftOut, type TraceQuery } from '../../src/quality/calibration/assessed-traces.ts';
import type { Unanswered } from '../../src/quality/calibration/types.ts';
import { readWindowLabels, type WindowLabels } from '../../src/quality/calibration/window-labels.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { type OpenedMlflow, openExperiment } from '../cli/mlflow.ts';
import { notice, progress } from '../cli/output.ts';
import type { CommandSettings } from '../cli/settings.ts';
import { type WindowFlags, windowOfFlags } from '../cli/window.ts';

/** Returns the query for the options of a command. Prints which shadow variants are left out. */
export function tracesQuery({ experiment, settings }: OpenedMlflow, window: WindowFlags, filter?: string): TraceQuery {
  const query = { experimentId: experiment.id, filter, ...leftOutOf(settings), ...windowOfFlags(window) };
  const variants = shadowLeftOut(query).join(', ');
  if (variants !== '') notice(`Left out: the traces of shadow variants (${variants}).`);
  return { ...query, progress: (traces) => progress.show(`${traces} traces read`) };
}

/** Returns the traces that reading leaves out, unless a filter names them. */
export const leftOutOf = ({ SHADOW_VARIANTS: shadow, excluded }: CommandSettings) => ({ shadow, excluded });

/** Reads labels, with warnings about missing labels. */
export type LabelReader = (
  window: TimeWindow,
) => Promise<Pick<WindowLabels, 'labels' | 'covered'> & { warnings: string[] }>;

/** Rates are of use without labels too, so that a failure to read them is a warning. */
export function labelReader(
  settings: CommandSettings,
  active: readonly Scorer[],
  only: readonly string[] | undefined,
): LabelReader {
  return async ({ fromMs, toMs }) => {
    const query = {
      ...{ fromMs, toMs, only, excluded: settings.excluded },
      scorers: active.filter(isJudgeScorer),
      progress: (traces: number) => progress.show(`${traces} traces read for their labels`),
    };
    try {
      const { mlflow, experiment } = await openExperiment(settings);
      const found = await readWindowLabels(mlflow.rest, { experimentId: experiment.id, ...query });
      return { ...found, warnings: leftOut(found.unanswered) };
    } catch (error) {
      const { name, message } = error as Error;
      const warning = `No rate is corrected, because people’s labels cannot be read; ${name}: ${message}`;
      return { labels: [], covered: new Map(), warnings: [warning] };
    }
  };
}

/** Counts the labels without a verdict by scorer and reason. */
const leftOut = (unanswered: readonly Unanswered[]): string[] =>
  [...Map.groupBy(unanswered, ({ scorer, reason }) => `${scorer} ${reason}`).values()].map((all) => {
    const { scorer, message } = all[0] as Unanswered;
    return `${many(all.length, 'label')} of ${scorer} left out: ${message}`;
  });
