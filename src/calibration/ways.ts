/** The ways of judging that the settings offer, with each one's agreement with people and its price side by side. */
import { activeScorers } from '../judge/active-scorers.ts';
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
}

/**
 * Returns the ways, that of the settings first: with words for every verdict or only for failures, with a short prefix or one
 * that is cached, and with the cascade if the settings name one. A way that sends the same requests as another is left out.
 */
export function waysOf<S extends WaySettings>(settings: S): Way<S>[] {
  const changes = (['all', 'failures'] as const).flatMap((JUDGE_RATIONALES) =>
    (['short', 'cached'] as const).flatMap((JUDGE_PREFIX) =>
      [...new Set([undefined, settings.JUDGE_CASCADE])].map((JUDGE_CASCADE) => ({
        JUDGE_RATIONALES,
        JUDGE_PREFIX,
        JUDGE_CASCADE,
      })),
    ),
  );
  const { JUDGE_RATIONALES, JUDGE_PREFIX, JUDGE_CASCADE } = settings;
  const ways = new Map<string, Way<S>>();
  for (const change of [{ JUDGE_RATIONALES, JUDGE_PREFIX, JUDGE_CASCADE }, ...changes]) {
    const changed = { ...settings, ...change };
    const scorers = activeScorers(changed).filter(isJudgeScorer);
    const requests = `${change.JUDGE_CASCADE} ${scorers.map(({ version }) => version)}`;
    const given = Object.entries(change).filter(([, value]) => value !== undefined);
    const name = given.map(([setting, value]) => `${setting}=${value}`).join(' ');
    if (!ways.has(requests)) ways.set(requests, { name, settings: changed, scorers });
  }
  return [...ways.values()];
}

export function wayReport(name: string, { pairs, captures, spend }: Asked): WayReport {
  const agreement = wilson(pairs.filter(({ agrees }) => agrees).length, pairs.length);
  const usdPer1000 = spend.usd === null || captures === 0 ? null : (spend.usd / captures) * 1000;
  return { name, n: pairs.length, agreement, captures, spend, usdPer1000 };
}
