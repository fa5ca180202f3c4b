/** The ways of judging that the settings offer, with each one's agreement with people and its price side by side. */
import { activeScorers } from '../judge/active-scorers.ts';
import { judgeModels, parseJudgeId } from '../judge/judge-id.ts';
import { BATCH_FACTOR } from '../judge/pricing/prices.ts';
import { isJudgeScorer } from '../judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../judge/types.ts';
import { wilson } from '../shared/statistics/share.ts';
import type { Asked } from './ask-judge.ts';
import type { WayReport } from './types.ts';

type WaySettings = Parameters<typeof activeScorers>[0];

export interface Way<S extends WaySettings> {
  name: string;
  settings: S;
  scorers: readonly JudgeScorer[];
  /** Whether batch inference sends the same requests. It has no examples of a cached prefix, and no calls for one scorer. */
  isBatchAlike: boolean;
}

/**
 * Returns the ways, that of the settings first: with words for every verdict or only for failures, with a short prefix or one
 * that is cached, and with the cascade if the settings name one. A way that sends the same requests as another is left out.
 */
export function waysOf<S extends WaySettings>(settings: S): Way<S>[] {
  const all = [settings];
  for (const JUDGE_CASCADE of new Set([undefined, settings.JUDGE_CASCADE])) {
    for (const JUDGE_RATIONALES of ['all', 'failures'] as const) {
      for (const JUDGE_PREFIX of ['short', 'cached'] as const)
        all.push({ ...settings, JUDGE_RATIONALES, JUDGE_PREFIX, JUDGE_CASCADE });
    }
  }
  const ways = new Map<string, Way<S>>();
  for (const changed of all) {
    const scorers = activeScorers(changed).filter(isJudgeScorer);
    const requests = `${changed.JUDGE_CASCADE} ${versionsOf(scorers)}`;
    const isBatchAlike =
      changed.JUDGE_CALLS !== 'separate' &&
      judgeModels(changed).every((model) => parseJudgeId(model).scheme === 'bedrock') &&
      versionsOf(activeScorers(changed, 'batch').filter(isJudgeScorer)) === versionsOf(scorers);
    const given = (['JUDGE_RATIONALES', 'JUDGE_PREFIX', 'JUDGE_CASCADE'] as const).filter((name) => changed[name]);
    const name = given.map((setting) => `${setting}=${changed[setting]}`).join(' ');
    if (!ways.has(requests)) ways.set(requests, { name, settings: changed, scorers, isBatchAlike });
  }
  return [...ways.values()];
}

const versionsOf = (scorers: readonly JudgeScorer[]): string => scorers.map(({ version }) => version).join();

/** Returns the row of a way, and that of batch inference: the same answers at its price. */
export function wayReports(
  { name, isBatchAlike }: Pick<Way<WaySettings>, 'name' | 'isBatchAlike'>,
  { pairs, captures, spend }: Asked,
): WayReport[] {
  const agreement = wilson(pairs.filter(({ agrees }) => agrees).length, pairs.length);
  const row = (label: string, usd: number | null): WayReport => {
    const usdPer1000 = usd === null || captures === 0 ? null : (usd / captures) * 1000;
    return { name: label, n: pairs.length, agreement, captures, spend: { ...spend, usd }, usdPer1000 };
  };
  const rows = [row(name, spend.usd)];
  if (isBatchAlike) rows.push(row(`${name}, batch inference`, spend.usd === null ? null : spend.usd * BATCH_FACTOR));
  return rows;
}
