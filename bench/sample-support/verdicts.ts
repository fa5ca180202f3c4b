/** Verdicts on the drawn captures of simulated days, and what the product's rates and detectors make of them. */
import type { QualityCounts } from '../../src/core/contract/quality.ts';
import type { Random } from '../../src/core/values/random.ts';
import { isJudgeScorer, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { addHours } from '../../src/quality/cell.ts';
import { cellsOf } from '../../src/quality/counts-store.ts';
import { Detectors, type DetectorsState } from '../../src/quality/detectors.ts';
import { readObjectives } from '../../src/quality/objectives.ts';
import { groupRates } from '../../src/quality/rates.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { type File, HOURS } from './days.ts';

const DAY_MS = Date.parse('2026-11-20T00:00:00Z');
const HOUR_MS = 3_600_000;
const SCORER = 'safety';
const SCORERS = scorersFor().filter(isJudgeScorer);
const OBJECTIVES = readObjectives([{ scorer: SCORER, atLeast: 0.95 }], { scorers: SCORERS, sampleRate: 1 });

/**
 * Whether the 95% interval of the day contains the true rate.
 *
 * @param part the share of the captures that is of the variant
 */
export function rateOfDay(files: readonly File[], good: (hour: number) => number, random: Random, part = 1): boolean {
  const counts: QualityCounts = {};
  let [all, right] = [0, 0];
  for (const { hour, lines, chance } of files) {
    const captures = random.binomial(lines, part);
    const judged = random.binomial(captures, chance);
    const yes = random.binomial(judged, good(hour));
    const cell = { captures, scorers: { [SCORER]: { [chance]: { captures, values: { yes, no: judged - yes } } } } };
    addHours(counts, { [hourOf(DAY_MS + hour * HOUR_MS)]: { AllTraffic: cell } });
    all += captures;
    right += captures * good(hour);
  }
  const window = { fromMs: DAY_MS, toMs: DAY_MS + 24 * HOUR_MS };
  const [group] = groupRates(cellsOf(counts), { window, active: SCORERS, scorers: [SCORER] });
  const { low, high } = group?.rates[0] ?? {};
  return low != null && high != null && low <= right / all && right / all <= high;
}

/** Whether the detector names a fall from 98 to 80% in the day, and nothing before. */
export function namesFall(files: readonly File[], fall: number, random: Random): boolean {
  const detectors = new Detectors(OBJECTIVES);
  let state: DetectorsState | undefined;
  for (const hour of HOURS) {
    const seconds: Record<string, { cases: number; failed: number }> = {};
    for (const { lines, chance } of files.filter((file) => file.hour === hour)) {
      for (let left = random.binomial(lines, chance); left > 0; left -= 1) {
        const second = DAY_MS / 1000 + 3600 * hour + random.below(3600);
        const one = seconds[second] ?? { cases: 0, failed: 0 };
        seconds[second] = one;
        one.cases += 1;
        if (random.next() < (hour < fall ? 0.02 : 0.2)) one.failed += 1;
      }
    }
    const startedMs = DAY_MS + (hour + 1) * HOUR_MS;
    const observations = { series: { [SCORER]: { AllTraffic: seconds } }, failures: {} };
    state = detectors.apply(state, { name: String(hour), startedMs, observations }, startedMs) ?? state;
    const isMissed = state?.outbox.some(({ change }) => change.isMissed) ?? false;
    if (isMissed) return hour >= fall;
  }
  return false;
}
