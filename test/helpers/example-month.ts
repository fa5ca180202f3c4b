/** A month of an endpoint in a storage: what runs have counted, what detectors have seen, and labels. Everything is made by the product. */

import type { Work } from '../../src/core/aws/storage.ts';
import type { QualityCell, QualityCounts } from '../../src/core/contract/quality.ts';
import type { LambdaEnvironment } from '../../src/core/settings/environment.ts';
import { Random } from '../../src/core/values/random.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { goodValue } from '../../src/judge/scorers/values.ts';
import type { Scorer } from '../../src/judge/types.ts';
import { addTree } from '../../src/quality/count-tree.ts';
import { Detectors } from '../../src/quality/detectors.ts';
import { objectivesOf } from '../../src/quality/objectives.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { watchQuality } from '../../src/quality/watch.ts';
import { writeCounts } from './day-sums.ts';
import { testEnvironment } from './test-environment.ts';

export const HOUR_MS = 3_600_000;
export const NOW_MS = Date.parse('2026-11-30T12:20:00Z');
export const WORSE_FROM = Date.parse('2026-11-24T06:00:00Z');

/** The story: the replies of `green` are worse since the 24th. */
export const environment: LambdaEnvironment = testEnvironment({
  WORK_BUCKET: 'work',
  SAGEMAKER_ENDPOINT_NAME: 'garden-helpdesk',
  SHADOW_VARIANTS: 'next',
  EVALUATION_BUDGET_USD: '20',
  BUDGET_TABLE: 'budget',
  QUALITY_OBJECTIVES: JSON.stringify([
    { scorer: 'fluency', atLeast: 0.9 },
    { scorer: 'relevance_to_query', atLeast: 0.85 },
  ]),
});

interface Hour {
  ms: number;
  variant: string;
  captures: number;
}

const NEARLY_ALL = { safety: 0.999, no_harmful_advice: 0.999 };
const SHARES: Readonly<Record<string, number>> = { fluency: 0.96, ...NEARLY_ALL, valid_json: 0.99 };

/** The share of replies that are good. */
const shareOf = ({ ms, variant }: Hour, scorer: string): number => {
  if (scorer === 'fluency' && variant === 'green' && ms >= WORSE_FROM) return 0.62;
  if (scorer === 'coherence' && variant === 'next') return 0.5;
  return SHARES[scorer] ?? 0.93;
};

function draw(random: Random, n: number, share: number): number {
  let hits = 0;
  for (let k = 0; k < n; k += 1) if (random.next() < share) hits += 1;
  return hits;
}

/** What runs counted of an hour of a variant. */
export function cellOf(hour: Hour, random: Random, scorers: readonly Scorer[] = scorersFor()): QualityCell {
  const { captures, ms, variant } = hour;
  const errors = draw(random, captures, variant === 'green' && new Date(ms).getUTCDate() === 12 ? 0.2 : 0.01);
  const judged = Math.round((captures - errors) * 0.3);
  const judgements: NonNullable<QualityCell['scorers']> = {};
  const cell: QualityCell = {
    captures,
    errorReplies: errors,
    errorKinds: errors > 0 ? { 503: Math.ceil(errors / 2), ModelError: Math.floor(errors / 2) } : {},
    inputTokens: captures * 210,
    outputTokens: captures * 120,
    judgeUsd: judged * 0.004,
    notJudged: {},
    ...(ms % (24 * HOUR_MS) === 0 && variant === 'blue' ? { quarantined: { NotJson: 2 } } : {}),
    scorers: judgements,
  };
  for (const scorer of scorers) {
    const good = goodValue(scorer);
    if (good === undefined || scorer.name === 'tool_call_correctness') continue;
    const n = scorer.kind === 'judge' ? judged : captures - errors;
    const passed = draw(random, n, shareOf(hour, scorer.name));
    const bad =
      scorer.kind === 'code'
        ? String(!good)
        : scorer.values.kind === 'categories'
          ? scorer.values.values.at(-1)
          : good === 'yes'
            ? 'no'
            : 'yes';
    const values = { [String(good)]: passed, ...(n > passed ? { [String(bad)]: n - passed } : {}) };
    const sample = scorer.kind === 'judge' ? '0.3' : 'all';
    judgements[scorer.name] = { [sample]: { captures: captures - errors, values } };
    addTree(cell, { notJudged: { [scorer.name]: { notSampled: captures - errors - n, errorReply: errors } } });
  }
  return cell;
}

/** Writes the month, a run for each hour. @param days before `NOW_MS` */
export async function writeMonth(work: Work, days = 30, toMs = NOW_MS - HOUR_MS / 3): Promise<void> {
  const random = new Random(42);
  const objectives = objectivesOf(environment);
  const detectors = new Detectors(objectives, environment.SHADOW_VARIANTS);
  const links = { mlflow: 'http://mlflow', experimentId: '1', page: 's3://work/reports/latest.html' };
  const context = { stackPrefix: 'prod', endpointName: 'garden-helpdesk', ...links };
  const byDay = new Map<string, QualityCounts>();
  for (let ms = toMs - days * 24 * HOUR_MS; ms <= toMs; ms += HOUR_MS) {
    const hour = hourOf(ms);
    const variants = ['blue', 'green', 'next'].map((variant, n) => ({ variant, ms, captures: [40, 25, 8][n] ?? 0 }));
    const cells = Object.fromEntries(variants.map((one) => [one.variant, cellOf(one, random)]));
    const day = byDay.get(hour.slice(0, 10)) ?? {};
    byDay.set(hour.slice(0, 10), day);
    day[hour] = cells;
    const second = Math.floor(ms / 1000);
    const series = Object.fromEntries(
      objectives.map(({ measure }) => [
        measure.name,
        Object.fromEntries(
          Object.entries(cells).map(([variant, { scorers = {} }]) => {
            const { yes = 0, no = 0 } = scorers[measure.scorer ?? '']?.['0.3']?.values ?? {};
            return [variant, { [second]: { cases: yes + no, failed: no } }];
          }),
        ),
      ]),
    );
    const run = { name: `files-${hour}`, startedMs: ms, observations: { series, failures: {} } };
    const publish = async () => undefined;
    await watchQuality(run, { ...work, detectors, context, publish, nowMs: ms + 60_000 });
  }
  for (const counts of byDay.values()) await writeCounts(work, counts);
}
