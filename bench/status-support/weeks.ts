/** Simulated endpoints whose truth is known, as the counts that runs would have made of them. */

import { DAY_MS } from '../../src/captures/files/capture-path.ts';
import type { QualityCell } from '../../src/core/contract/quality.ts';
import { Random } from '../../src/core/values/random.ts';
import { type History, historyOf } from '../../src/health/history.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { canFail, goodValue } from '../../src/judge/scorers/values.ts';
import type { Scorer } from '../../src/judge/types.ts';
import type { CountedCell } from '../../src/quality/counts-store.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { exponential } from '../support/exponential.ts';

const HOUR_MS = 3_600_000;
/** A Monday. */
export const BEGIN_MS = Date.parse('2026-09-07T00:00:00Z');
/** Weeks before the one that is looked at. */
export const BEFORE_MS = 42 * DAY_MS;
export const CHANGE_MS = BEGIN_MS + BEFORE_MS;

/** Failing shares of a healthy endpoint, by scorer; 0.3% of others. */
const USUAL: Readonly<Record<string, number>> = {
  ...{ relevance_to_query: 0.05, completeness: 0.1, fluency: 0.03, coherence: 0.15, follows_objective: 0.08 },
  ...{
    safety: 0.002,
    no_harmful_advice: 0.002,
    cut_off: 0.02,
    refusal: 0.05,
    professional_tone: 0.02,
    repeated_text: 0.005,
  },
};
export const ACTIVE: readonly Scorer[] = scorersFor().filter(
  (scorer) => canFail(scorer) && scorer.name !== 'tool_call_correctness' && scorer.name !== 'valid_json',
);

export interface Endpoint {
  /** Judged captures a day. */
  perDay: number;
  /** The share of the traffic by variant. */
  variants?: readonly number[];
  /** Turns of a conversation, and the correlation of their verdicts. */
  turns?: number;
  alike?: number;
  /** Nights and weekends have less traffic. */
  hasWeek?: boolean;
  /** Returns the failing share, if it is not the usual one. */
  failing?(scorer: string, at: { ms: number; variant: number }): number | undefined;
  /** Returns the share of replies in words that are empty. */
  empty?(ms: number): number;
  /** No scorer applies. */
  isUnmeasured?: boolean;
}

export interface Simulated {
  cells: readonly CountedCell[];
  history: History;
}

function trafficOf(ms: number, hasWeek = false): number {
  if (!hasWeek) return 1;
  const date = new Date(ms);
  const ofDay = date.getUTCHours() >= 8 && date.getUTCHours() < 22 ? 1.5 : 0.3;
  return ofDay * (date.getUTCDay() % 6 === 0 ? 0.15 : 1.34);
}

const poisson = (random: Random, mean: number): number => {
  if (mean > 50) return Math.max(0, Math.round(mean + Math.sqrt(mean) * random.normal()));
  let [count, left] = [0, mean];
  for (left -= exponential(random, 1); left > 0; left -= exponential(random, 1)) count += 1;
  return count;
};

/** Returns the counts of some days. */
export function simulate(endpoint: Endpoint, days: number, seed: number): Simulated {
  const random = new Random(seed);
  const { variants = [1] } = endpoint;
  const cells: CountedCell[] = [];
  for (let ms = BEGIN_MS; ms < BEGIN_MS + days * DAY_MS; ms += HOUR_MS) {
    for (const [variant, share] of variants.entries()) {
      const cell = cellOf(endpoint, { ms, variant }, share, random);
      if (cell !== undefined) cells.push({ hour: hourOf(ms), variant: `v${variant}`, cell });
    }
  }
  return { cells, history: historyOf(cells, ACTIVE) };
}

function cellOf(
  endpoint: Endpoint,
  at: { ms: number; variant: number },
  share: number,
  random: Random,
): QualityCell | undefined {
  const { perDay, turns = 1, alike = 0, hasWeek, failing, empty, isUnmeasured = false } = endpoint;
  const conversations = poisson(random, (perDay / 24 / turns) * share * trafficOf(at.ms, hasWeek));
  const captures = conversations * turns;
  if (captures === 0) return undefined;
  if (isUnmeasured) return { captures, unmeasured: captures };
  const silent = random.binomial(captures, empty?.(at.ms) ?? 0);
  const scorers: NonNullable<QualityCell['scorers']> = {};
  for (const scorer of ACTIVE) {
    const p = failing?.(scorer.name, at) ?? USUAL[scorer.name] ?? 0.003;
    // With this probability all turns of a conversation have the same verdict.
    const same = alike === 0 ? 0 : random.binomial(conversations, alike);
    const all = turns * random.binomial(same, p) + random.binomial(captures - turns * same, p);
    const n = captures - silent;
    const failed = Math.min(n, all);
    const good = goodValue(scorer);
    const bad = typeof good === 'boolean' ? String(!good) : good === 'yes' ? 'no' : 'incoherent';
    const values = { [String(good)]: n - failed, [bad]: failed };
    scorers[scorer.name] =
      scorer.kind === 'code' ? { all: { values } } : { '1': { captures: n, values, versions: { a: n } } };
  }
  return { captures, replies: { words: { all: captures, empty: silent } }, scorers };
}
