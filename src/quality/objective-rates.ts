/** The rate of each objective in a window, with the estimate that rates have, and whether the objective is missed. */
import type { Work } from '../core/aws/storage.ts';
import { correctedShare, weigh } from '../core/statistics/corrected-share.ts';
import type { Measured } from '../core/statistics/sampled-mean.ts';
import type { CountedCell } from './counts-store.ts';
import { readDetectors, readMeasurement } from './objective-states.ts';
import { ERROR_REPLIES, type Measure, type Objective, type ObjectiveSettings, objectivesOf } from './objectives.ts';
import { ERROR, emptyOf, passing, type Represented, sampleOf, strataOf } from './strata.ts';
import { readTrueObjectives, type TrueObjective } from './true-objectives.ts';

/** The rate of an objective, or of one of its variants, with its 95% interval. */
interface MeasuredRate extends Omit<Measured, 'value'>, Represented {
  /** The share that passes; of error replies the share that they are; a figure of true answers. `null` without any verdict or label. */
  value: number | null;
  /** Verdicts, or labelled predictions. */
  n: number;
  /** Number of independent cases of equal weight with the same information. Absent for true answers. */
  of?: number;
}

export interface ObjectiveRate extends MeasuredRate {
  /** Unique name: the measure, and the variant, if any. */
  objective: string;
  /** The scorer, with its condition, if any; `error replies`; or a figure of true answers. */
  measure: string;
  /** Absent: all variants together but shadow variants. */
  variant?: string;
  bound: { atLeast: number } | { atMost: number };
  /**
   * According to the detectors or the newest measurement. `null` if there is neither yet, or if the measurement cannot
   * decide.
   */
  missed: boolean | null;
  /** For true answers: the reason why the figure cannot decide. */
  why?: string;
  /** Time at which the objective became missed, or met again. `null` if it never was missed. */
  since: string | null;
  /** For true answers: the hours of inference in the newest measurement. */
  measured?: { from: string; end: string };
  /** Each variant separately, if the objective covers several. */
  variants?: (MeasuredRate & { variant: string })[];
}

/** @param cells of the window, of all variants */
export async function objectiveRates(
  work: Work,
  settings: ObjectiveSettings,
  cells: readonly CountedCell[],
): Promise<ObjectiveRate[]> {
  const states = await readDetectors(work);
  const rates = objectivesOf(settings).map((objective): ObjectiveRate => {
    const { id, measure } = objective;
    const own = cells.filter(({ variant }) => isAbout(objective, variant, settings));
    const byVariant = [...Map.groupBy(own, ({ variant }) => variant)].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const variants = byVariant.map(([variant, some]) => ({ variant, ...measureRate(measure, some) }));
    return {
      ...factsOf(objective, measure.name, states.get(id)),
      ...measureRate(measure, own),
      ...(variants.length > 1 ? { variants } : {}),
    };
  });
  for (const objective of readTrueObjectives(settings.QUALITY_OBJECTIVES)) {
    const found = await readMeasurement(work, objective.id);
    const { rows = 0, value = null, low = null, high = null } = found ?? {};
    rates.push({
      ...factsOf(objective, objective.measure, { isMissed: found?.missed ?? null, since: found?.since ?? 0 }),
      ...{ n: rows, captures: rows, value, low, high },
      ...(found?.why !== undefined && { why: found.why }),
      ...(found && { measured: { from: found.from, end: found.end } }),
    });
  }
  return rates;
}

/** Returns the share of the captures that passes the measure of an objective, or that is error replies. */
function measureRate({ name, scorer = ERROR_REPLIES, passes }: Measure, cells: readonly CountedCell[]): MeasuredRate {
  // The counts have every value as a text.
  const isPassing = (value: string) => passes(value) || (/^(true|false)$/.test(value) && passes(value === 'true'));
  const verdictsOf = passing((value) => (scorer === ERROR_REPLIES ? value === ERROR : isPassing(value)));
  const rows = strataOf(scorer, cells, (counts) => {
    const { cases: judged, passed = 0 } = counts.measures?.[name] ?? {};
    return judged === undefined ? verdictsOf(counts) : { judged, passed };
  });
  const { strata, beside, of: captures } = sampleOf(rows, emptyOf(scorer, cells));
  const { n = 0, judge } = correctedShare({ strata, labels: [], ...beside }) ?? {};
  const { value = null, low = null, high = null } = judge ?? {};
  return { n, ...captures, of: weigh(strata)?.of ?? 0, value, low, high };
}

const isAbout = ({ variant }: Objective, of: string, { SHADOW_VARIANTS: shadow }: ObjectiveSettings): boolean =>
  variant === undefined ? !shadow.includes(of) : variant === of;

type Status = { isMissed: boolean | null; since: number };

function factsOf({ id, bound, variant }: Objective | TrueObjective, measure: string, status?: Status) {
  const { isMissed: missed = null, since = 0 } = status ?? {};
  const time = since === 0 ? null : new Date(since * 1000).toISOString();
  return { objective: id, measure, ...(variant === undefined ? {} : { variant }), bound, missed, since: time };
}
