/**
 * `inference-monitor compare --plan`: how many requests a gate needs, and what its judge would cost. No request is
 * sent.
 */

import { join } from 'node:path';
import { dollars } from '../../src/core/text/figure-text.ts';
import { type Page, table } from '../../src/core/text/page.ts';
import { harmScorers } from '../../src/judge/active-scorers.ts';
import { compareRuns, type RunsComparison } from '../../src/replay/compare/compare-runs.ts';
import { repliesData } from '../../src/replay/compare/compared-data.ts';
import { REPLIES_FILE, readReplies } from '../../src/replay/compare/replies-file.ts';
import { type RunData, readJson } from '../../src/replay/compare/run-data.ts';
import { type JudgeCost, judgeCost, pairToSize } from '../../src/replay/gate/judge-cost.ts';
import { type GatePlan, type PlannedSize, planGate } from '../../src/replay/gate/plan.ts';
import type { Threshold } from '../../src/replay/gate/thresholds.ts';
import { COMPARISON_FILES } from '../../src/replay/report/write-comparison.ts';
import { print } from '../cli/output.ts';
import { commandSettings } from '../cli/settings.ts';

/** The output with `--plan --json`. */
export type PlanOutput = GatePlan & { judge?: JudgeCost };

interface PlanFlags {
  threshold: readonly Threshold[];
  errorsTogether?: number | undefined;
  judgeModel?: string | undefined;
  json?: boolean | undefined;
}

/** The pilot is two replays of the same captures with the same model. */
export async function printPlan(
  [before, after]: readonly [RunData, RunData],
  { threshold: thresholds, errorsTogether, judgeModel, json }: PlanFlags,
): Promise<void> {
  const { data, comparison } = await compareRuns(before, after);
  // No judge is asked here: its verdicts are in the comparison of the two runs, if there was one.
  const file = (await readJson(join(after.directory, COMPARISON_FILES.json))) as Partial<RunsComparison> | undefined;
  const isOfBoth = file?.before?.run === before.run && file.after?.run === after.run;
  if (isOfBoth && file.quality?.judged) data.replies = { ...data.replies, ...repliesData(file.quality) };
  const plan = planGate(thresholds, data, errorsTogether);
  const judged = plan.thresholds.find((_, i) => isJudgedWorse(thresholds[i]));
  const { quality, paired } = comparison;
  // Without a planned size, assume that the judge is asked about the pilot's own pairs.
  const pairs = judged?.requests?.likely ?? paired.requests;
  const asked = quality && Math.ceil((quality.comparable.differing * pairs) / Math.max(1, paired.requests));
  const judge = judged && asked !== undefined ? await judgeCostOf(asked, after, judgeModel) : undefined;
  print<PlanOutput>({ ...plan, ...(judge ? { judge } : {}) }, json, planPage(plan, judge));
}

/** Whether a threshold needs verdicts of the judge. */
export const isJudgedWorse = (threshold: Threshold | undefined): boolean =>
  threshold?.kind === 'share' && threshold.share === 'judged_worse';

/** Replies that are sized: more would not change the mean by much. */
const SIZED_REPLIES = 200;

/** Estimates the cost of asking about this number of pairs, with the sizes of the run's pairs. */
export async function judgeCostOf(asked: number, run: RunData, model: string | undefined): Promise<JudgeCost> {
  const pairs = [];
  for await (const stored of readReplies(join(run.directory, REPLIES_FILE))) {
    const pair = pairToSize(stored);
    if (pair) pairs.push(pair);
    if (pairs.length === SIZED_REPLIES) break;
  }
  const settings = commandSettings({ BEDROCK_MODEL_ID: model });
  return judgeCost(settings, asked, pairs, harmScorers(settings));
}

const sizeText = ({ likely, from, to }: PlannedSize): string =>
  from === to ? String(likely) : `${from} to ${to}, about ${likely}`;

function planPage({ thresholds, requests }: GatePlan, judge: JudgeCost | undefined): Page {
  const rows = thresholds.map(({ threshold, requests: size, pilot, note }) => [
    threshold,
    size ? sizeText(size) : 'unknown',
    pilot + (note === undefined ? '' : ` (${note})`),
  ]);
  return [
    'Requests that both runs need in common, so that an unchanged release passes each threshold in 80% of the releases:',
    table(rows, ['threshold', 'requests', 'of the pilot']),
    requests ? `All thresholds: ${sizeText(requests)} requests.` : 'Not all thresholds have a size.',
    judge && judgeText(judge),
  ];
}

export function judgeText({ pairs, usdPerPair, usd, model, basis }: JudgeCost): string {
  const cost =
    usdPerPair === null ? 'the price is unknown' : `${pairs} pairs × ${dollars(usdPerPair)} = ${dollars(usd)}`;
  return `The judge would cost: ${cost}. ${model}: ${basis}.`;
}
