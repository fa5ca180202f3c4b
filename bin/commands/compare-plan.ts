/** `inference-monitor compare --plan`: how many requests a gate needs, and what its judge would cost. Nothing is sent. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TextOptions } from '../../src/core/text/terminal-text.ts';
import { harmScorers } from '../../src/judge/active-scorers.ts';
import { compareRuns } from '../../src/replay/compare/compare-runs.ts';
import { repliesData } from '../../src/replay/compare/compared-data.ts';
import type { Quality } from '../../src/replay/compare/quality.ts';
import { REPLIES_FILE, readReplies } from '../../src/replay/compare/replies-file.ts';
import { METRIC_TAGS, type RunData, readJson } from '../../src/replay/compare/run-data.ts';
import { COMPARE_FILE } from '../../src/replay/compare/with-captured.ts';
import type { GateRules } from '../../src/replay/gate/gate.ts';
import {
  type JudgeCost,
  judgeCost,
  pairOfSize,
  pairToSize,
  type SizedPairs,
} from '../../src/replay/gate/judge-cost.ts';
import { type GatePlan, planGate } from '../../src/replay/gate/plan.ts';
import type { Threshold } from '../../src/replay/gate/thresholds.ts';
import type { Pilot } from '../../src/replay/gate/unchanged.ts';
import { DEFAULT_OPTIONS } from '../../src/replay/options.ts';
import { dollars, Page, print } from '../cli/output.ts';
import { commandSettings } from '../cli/settings.ts';
import { openStorage } from '../cli/storage.ts';

/** What the earlier runs show, and which share of the pairs that a judge can compare differ. */
interface Earlier {
  pilot: Pilot;
  requests?: number;
  quality?: Quality;
}

/** What `--plan --json` prints. */
export type PlanOutput = GatePlan & { judge?: JudgeCost };

interface PlanFlags {
  threshold: readonly Threshold[];
  captures?: string | undefined;
  judgeModel?: string | undefined;
  json?: boolean | undefined;
}

/** @param runs none, one, or two of the same captures with the same model */
export async function printPlan(
  runs: readonly RunData[],
  { threshold: thresholds, captures: given, judgeModel, json }: PlanFlags,
  rules: GateRules,
  signal: AbortSignal,
): Promise<void> {
  const earlier = await readEarlier(runs);
  const found = given === undefined ? undefined : await countCaptures(given, signal);
  const captures = found?.requests ?? earlier.requests;
  const options = { ...rules, ...(captures === undefined ? {} : { captures }) };
  const plan = planGate(thresholds, earlier.pilot, options);
  const judged = plan.thresholds.find((_, i) => isJudgedWorse(thresholds[i]));
  const judge = judged && (await costOf(judged.requests, runs.at(-1), earlier, found?.tokens, judgeModel));
  print<PlanOutput>({ ...plan, ...(judge ? { judge } : {}) }, json, (out) => planText(plan, judge, out));
}

/** Whether a threshold needs verdicts of the judge. */
export const isJudgedWorse = (threshold: Threshold | undefined): boolean =>
  threshold?.kind === 'share' && threshold.share === 'judged_worse';

/** The summary of replies in a file of the run, if it has one. */
async function qualityIn(run: RunData, name: string, matches: (file: Record<string, unknown>) => boolean) {
  const file = await readJson(join(run.directory, name));
  return file && matches(file) ? (file.quality as Quality | undefined) : undefined;
}

const runOf = (facts: unknown): unknown => (facts as { run?: unknown } | undefined)?.run;

async function readEarlier([before, after]: readonly RunData[]): Promise<Earlier> {
  if (!before) return { pilot: {} };
  const requests = before.requests.size - before.cancelledOnPurpose;
  const metrics = Object.fromEntries(METRIC_TAGS.map((tag, i) => [tag, before.requests.column(i)]));
  const captured = await qualityIn(before, COMPARE_FILE, () => true);
  const failures = before.requests.failures();
  const run = { metrics, failures, ...(captured ? { replies: repliesData(captured) } : {}) };
  if (!after) return { pilot: { run }, requests, ...(captured ? { quality: captured } : {}) };
  const { data, comparison } = await compareRuns(before, after);
  // No judge is asked here: its verdicts are in the comparison of the two runs, if there was one.
  const judged = await qualityIn(
    after,
    'comparison.json',
    (file) => runOf(file.before) === before.run && runOf(file.after) === after.run,
  );
  if (judged?.judged) data.replies = repliesData(judged);
  const { quality } = comparison;
  // Runs without common requests say nothing about pairs.
  const pilot = data.pairs.known > 0 ? { run, pairs: data } : { run };
  return { pilot, requests: data.pairs.known || requests, ...(quality ? { quality } : {}) };
}

/** Counts the requests that a replay of the captures would send. */
async function countCaptures(captures: string, signal: AbortSignal) {
  if (/^\d+$/.test(captures)) return { requests: Number(captures), tokens: undefined };
  const { openSource } = await import('../../src/replay/source/open-source.ts');
  const { indexCaptures } = await import('../../src/replay/source/index-captures.ts');
  const { dryRun } = await import('../../src/replay/dry-run.ts');
  const skip = (): void => {};
  const { files, dispose } = await openSource(captures, { storage: openStorage, signal });
  try {
    const index = await indexCaptures(files, { needsTime: false, onSkipped: skip, signal });
    const options = { ...DEFAULT_OPTIONS, concurrency: 1 };
    const onBatch = (): void => signal.throwIfAborted();
    const sizes = await dryRun({ files, index, options, onSkipped: skip, onBatch });
    const { requests, inputTokens, outputTokens } = sizes;
    /** Of an average request and reply. */
    const tokens: [number, number] = [inputTokens.total / requests, outputTokens.total / requests];
    return { requests, tokens: requests > 0 ? tokens : undefined };
  } finally {
    await dispose();
  }
}

/** Replies that are sized: more would not change the mean by much. */
const SIZED_REPLIES = 200;
/** Tokens of a request and of a reply where nothing is known about them. */
const ASSUMED_TOKENS: [number, number] = [1000, 300];

async function sizedPairs(run: RunData | undefined, tokens: [number, number] | undefined): Promise<SizedPairs> {
  const pairs = [];
  const path = join(run?.directory ?? '', REPLIES_FILE);
  if (run && existsSync(path)) {
    for await (const stored of readReplies(path)) {
      const pair = pairToSize(stored);
      if (pair) pairs.push(pair);
      if (pairs.length === SIZED_REPLIES) break;
    }
  }
  if (pairs.length > 0) return { pairs, basis: `as the first ${pairs.length} replies of ${run?.run}` };
  const [request, reply] = tokens ?? ASSUMED_TOKENS;
  const basis = `${Math.round(request)} tokens a request and ${Math.round(reply)} a reply: ${tokens ? 'the captures' : 'assumed'}`;
  return { pairs: [pairOfSize(request, reply)], basis };
}

async function costOf(
  requests: number | null,
  run: RunData | undefined,
  { quality, requests: known = 0 }: Earlier,
  tokens: [number, number] | undefined,
  model: string | undefined,
): Promise<JudgeCost> {
  // Equal replies need no verdict. Where nothing is known, all differ.
  const differing = quality && known > 0 ? quality.comparable.differing / known : 1;
  const asked = requests === null ? null : Math.ceil(requests * differing);
  return judgeCostOf(asked, run, model, tokens);
}

/** The cost of asking about this number of pairs, as large as those of the run. */
export async function judgeCostOf(
  asked: number | null,
  run: RunData | undefined,
  model: string | undefined,
  tokens?: [number, number],
): Promise<JudgeCost> {
  const settings = commandSettings({ BEDROCK_MODEL_ID: model });
  return judgeCost(settings, asked, await sizedPairs(run, tokens), harmScorers(settings));
}

function planText({ thresholds, requests, captures }: GatePlan, judge: JudgeCost | undefined, out: TextOptions) {
  const page = new Page(out);
  page.add(
    'Requests that both runs need in common, so that an unchanged release passes each threshold in 80% of the releases:',
  );
  const rows = thresholds.map(({ threshold, requests: size, unchanged, note, enough }) => {
    const more = enough === false && size !== null ? ` — more than the ${captures} at hand` : '';
    const taken = `${unchanged}${more}${note === undefined ? '' : ` (${note})`}`;
    return [threshold, size === null ? 'no size' : String(size), taken];
  });
  page.table(['threshold', 'requests', 'what unchanged is taken to show'], rows);
  page.add(
    requests === null ? 'No size suffices for all thresholds.' : `${requests} requests suffice for each threshold.`,
  );
  page.add(
    'The sizes allow for neighbouring requests that are alike, as behind a queue, as far as the earlier replays show it.',
  );
  const enough = requests !== null && captures !== undefined && requests <= captures;
  if (captures !== undefined) page.add(`At hand: ${captures}, which is ${enough ? 'enough' : 'not enough'}.`);
  if (judge) page.add(judgeText(judge));
  return page.text();
}

export function judgeText({ pairs, usdPerPair, usd: total, model, basis }: JudgeCost): string {
  const cost =
    usdPerPair === null
      ? 'the price is unknown'
      : pairs === null || total === null
        ? `${dollars(usdPerPair)} per pair`
        : `${pairs} pairs × ${dollars(usdPerPair)} = ${dollars(total)}`;
  return `The judge would cost: ${cost}. ${model}: ${basis}.`;
}
