/**
 * Obtains people's labels and verdicts: for `calibrate` from MLflow, or from a file or the anchor set by asking the
 * judge now; for `rates` the labels of a window.
 */

import { readText } from '../../src/core/errors/read-text.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { many } from '../../src/core/text/figure-text.ts';
import { checkNames } from '../../src/core/values/nearest.ts';
import { cascadeOf } from '../../src/judge/connect.ts';
import { judgeModels, judgeName } from '../../src/judge/judge-id.ts';
import { isJudgeScorer } from '../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer, Scorer } from '../../src/judge/types.ts';
import { askAll, givenPairs, mostUsd } from '../../src/quality/calibration/ask-judge.ts';
import { shadowLeftOut, type TraceQuery } from '../../src/quality/calibration/assessed-traces.ts';
import { parseLabels, readAnchors } from '../../src/quality/calibration/labels-file.ts';
import { LEFT_OUT, readMlflowLabels } from '../../src/quality/calibration/mlflow-labels.ts';
import { calibrationReport, countBy } from '../../src/quality/calibration/report.ts';
import type { CalibrationReport, LabeledItem, Unanswered } from '../../src/quality/calibration/types.ts';
import {
  RIGHT_VALUES,
  readTruthPairs,
  readWindowLabels,
  type WindowLabels,
} from '../../src/quality/calibration/window-labels.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { requireJudge } from '../cli/judge-access.ts';
import { withExperiment } from '../cli/mlflow.ts';
import { notice } from '../cli/output.ts';
import type { CalibrateFlags } from './calibrate.ts';
import type { CommandSettings } from './settings.ts';

/** Replaces the current line of the terminal. */
export const progress = (text: string): void => {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
};

/** Says which shadow variants a query of traces leaves out. */
export function sayLeftOut(query: Pick<TraceQuery, 'shadow' | 'filter'>): void {
  const variants = shadowLeftOut(query).join(', ');
  if (variants !== '') notice(`Left out: the traces of shadow variants (${variants}).`);
}

export function compareWithPeople(
  options: CalibrateFlags,
  settings: CommandSettings,
  all: readonly Scorer[],
): Promise<CalibrationReport> {
  const { labels, anchors, scorer } = options;
  const scorers = all.filter(isJudgeScorer);
  if (labels !== undefined) {
    const items = parseLabels(readText(labels, 'The labels file'), labels, scorers);
    return judgeItems(items, { kind: 'labels', where: labels }, options, settings, scorers);
  }
  if (anchors === true) {
    const items = readAnchors(packagePath(), scorers, scorer);
    return judgeItems(items, { kind: 'anchors', where: `${items.length} items` }, options, settings, scorers);
  }
  return readFromMlflow(options, settings, all);
}

async function judgeItems(
  all: readonly LabeledItem[],
  source: CalibrationReport['source'],
  { scorer: only, budget, ask: asking }: CalibrateFlags,
  settings: CommandSettings,
  scorers: readonly JudgeScorer[],
): Promise<CalibrationReport> {
  const names = scorers.map(({ name }) => name);
  checkNames('LLM scorer', only, names);
  const items = only === undefined ? all : all.filter(({ scorer }) => only.includes(scorer));
  const open = items.filter(({ verdict }) => verdict === undefined);
  const given = givenPairs(items);
  if (open.length === 0) return calibrationReport({ source, scorers, pairs: given, unanswered: [] });
  const budgetUsd = budget === 0 ? undefined : budget;
  const models = judgeModels(settings);
  await requireJudge(settings, budget);
  const judge = cascadeOf(settings);
  // If production asks scorers one by one, verdicts do not depend on other scorers, so asking the labeled ones is enough.
  const ask = settings.JUDGE_CALLS === 'separate' ? 'labelled' : asking;
  const most = mostUsd(open, { judge, scorers, ask });
  const cost = most === null ? 'an unknown amount' : most === 0 ? 'nothing' : `${most.toFixed(2)} dollars at most`;
  notice(`Asking ${models.map(judgeName).join(' behind ')} about ${many(open.length, 'label')}, which costs ${cost}.`);
  const told = (done: number, of: number): void => progress(`${done} of ${of} exchanges judged`);
  const { pairs, ...asked } = await askAll(open, { judge, scorers, ask, budgetUsd, progress: told });
  progress('');
  return calibrationReport({ source, scorers, pairs: [...given, ...pairs], ...asked });
}

function readFromMlflow(options: CalibrateFlags, settings: CommandSettings, all: readonly Scorer[]) {
  return withExperiment(settings, async (mlflow, experiment) => {
    const query = {
      experimentId: experiment.id,
      filter: options.filter,
      only: options.scorer,
      judge: options.judgedBy,
      progress: (traces: number) => progress(`${traces} traces read`),
    };
    const whereIn = (traces: number): string => `experiment ${experiment.name} (${traces} traces)`;
    if (options.groundTruth) {
      const { pairs, traces } = await readTruthPairs(mlflow.rest, { ...query, scorers: all });
      progress('');
      const source = { kind: 'groundTruth', where: whereIn(traces) } as const;
      const scorers = all.map(({ name, version }) => ({ name, version, values: RIGHT_VALUES }));
      return calibrationReport({ source, scorers, pairs, unanswered: [] });
    }
    const scorers = all.filter(isJudgeScorer);
    const found = await readMlflowLabels(mlflow.rest, { ...query, scorers });
    progress('');
    return calibrationReport({ source: { kind: 'mlflow', where: whereIn(found.traces) }, scorers, ...found });
  });
}

// --------------------------------------------------------------------------------- labels of a window, for `rates`

/** Labels, and what a person should know of those that are missing. */
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
      ...{ fromMs, toMs, only },
      scorers: active.filter(isJudgeScorer),
      progress: (traces: number) => progress(`${traces} traces read for their labels`),
    };
    try {
      const { labels, covered, unanswered } = await withExperiment(settings, (mlflow, { id: experimentId }) =>
        readWindowLabels(mlflow.rest, { experimentId, ...query }),
      );
      progress('');
      return { labels, covered, warnings: leftOut(unanswered) };
    } catch (error) {
      const { name, message } = error as Error;
      const warning = `No rate is corrected, because people’s labels cannot be read; ${name}: ${message}`;
      return { labels: [], covered: new Map(), warnings: [warning] };
    }
  };
}

const leftOut = (unanswered: readonly Unanswered[]): string[] =>
  Object.entries(
    countBy(unanswered, ({ scorer, reason }) => `${scorer} are left out: ${REASONS[reason] ?? reason}`),
  ).map(([what, count]) => `${count} labels of ${what}`);

const REASONS: Record<string, string> = {
  unknownValue: 'a value is none of the scorer’s',
  peopleDisagree: 'people disagree',
  ...LEFT_OUT,
};
