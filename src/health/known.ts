/** The states, and the facts that all rules share. */
import { HOUR_MS } from '../captures/files/capture-path.ts';
import { percent } from '../core/text/figure-text.ts';
import { shellWord } from '../core/text/shell-word.ts';
import { canFail } from '../judge/scorers/values.ts';
import { hourMs, sumOfCells } from '../quality/counts-store.ts';
import { endOf, figuresOf, type HealthFacts, scorerOf } from './facts.ts';
import { type History, historyOf } from './history.ts';
import { type Bounded, fallsOf } from './measures.ts';
import TABLE from './states.json' with { type: 'json' };

/**
 * States in the order of precedence: an endpoint has the first state that a finding has. The codes are the exit codes
 * of `status`.
 */
export const EXIT_CODES = TABLE.exitCodes;
export type HealthState = keyof typeof EXIT_CODES;
export const STATES = Object.keys(EXIT_CODES) as HealthState[];

/** The result of a rule. Without its own time, it has the time of the counts. */
export interface Found {
  /** The objective, scorer, variant, run or alarm of the finding. */
  subject?: string | undefined;
  /** The scorer that shows it best, if it differs from the subject. */
  scorer?: string | undefined;
  state: HealthState;
  /** Whether the whole interval is within its bound. Absent without an interval. */
  isWithin?: boolean | undefined;
  message: string;
  /** Time at which the finding was true, ISO 8601. */
  asOf?: string;
  /** Command that shows details or repairs the fault. */
  command?: string | undefined;
  /** Time at which it began, if known, ISO 8601. */
  since?: string | undefined;
  /** The affected variants. Absent: all variants. */
  variants?: readonly string[] | undefined;
}

/** With fewer captures or verdicts, an endpoint is never called healthy. */
export const FEWEST = 30;
/** Maximum number of listed findings of a rule. */
export const MAX_LISTED = 5;
/** Bounds that do not belong to a scorer. */
const OTHER_BOUNDS = 7;
/** A share of all captures is also looked at over this time before now, so that it is named at once. */
const RECENT_MS = 6 * HOUR_MS;

export type Known = ReturnType<typeof knownOf>;
export type Rules = Record<string, (known: Known) => Found[]>;

export function knownOf(facts: HealthFacts) {
  const { cells, window, active, objectives, nowMs, stack, shadow } = facts;
  const flags = stack === undefined ? [] : ['--stack', stack];
  /** Returns a command to copy. */
  const command = (...texts: string[]): string => ['inference-monitor', ...texts, ...flags].map(shellWord).join(' ');
  const figures = figuresOf(facts);
  const endMs = Math.ceil(window.toMs / HOUR_MS) * HOUR_MS;
  const served = cells.filter(({ variant }) => !shadow.includes(variant));
  const recent = served.filter(({ hour }) => hourMs(hour) >= endMs - RECENT_MS);
  const history: History = facts.history ?? historyOf(served, active);
  const { toRead, factorOf } = history.until(endMs);
  const judged = active.filter((scorer) => canFail(scorer) && history.series.has(scorer.name));
  const variants = figures.served.map(({ variant }) => variant);
  const subjects = variants.length > 1 ? [undefined, ...variants] : [undefined];
  return {
    ...facts,
    ...figures,
    history,
    toRead,
    factorOf,
    judged,
    subjects,
    comparisons: judged.length * subjects.length + OTHER_BOUNDS,
    falls: fallsOf({ ...history, factorOf }, endMs, window, figures.totals.captures ?? 0),
    asOf: new Date(Math.min(endOf(cells) ?? nowMs, nowMs)).toISOString(),
    now: new Date(nowMs).toISOString(),
    command,
    /** A command for the window, which ends now. */
    since: (...texts: string[]) =>
      command(...texts, '--from', `${new Date(window.fromMs).toISOString().slice(0, 16)}Z`),
    /** The window, and its last hours, unless the facts cover a run. */
    spans: [
      { totals: figures.totals, of: '' },
      ...(facts.isOfRun ? [] : [{ totals: sumOfCells(recent), of: ` of the last ${RECENT_MS / HOUR_MS} hours` }]),
    ],
    /** The command that lists runs. Absent for a run, which is known. */
    whichRuns: facts.isOfRun ? undefined : command('runs'),
    /** Whether an objective for all variants covers the scorer. */
    hasObjective: (scorer: string): boolean =>
      objectives.some(({ variant, measure }) => variant === undefined && scorerOf(measure, active) === scorer),
  };
}

// ------------------------------------------------------------------------------------------------------------ text

export const isFinding = (state: HealthState): boolean => state !== 'healthy';

/** Returns the worst of several findings about the same subject. */
export const worstOf = (found: readonly Found[]): Found[] =>
  found.toSorted((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state)).slice(0, 1);

export const shareIn = (part: number, all: number) => ({ share: all > 0 ? Math.min(1, part / all) : 0, of: all });

/** Such as `99.97%`. */
export const levelText = (level: number): string => `${Number((100 * level).toPrecision(4))}%`;

export const shareText = ({ value, low, high, level }: Omit<Bounded, 'state'>): string =>
  `${percent(value)} (${levelText(level)}: ${percent(low)} to ${percent(high)})`;

/** An hour with its day, without the year. */
export const hourText = (at: string | number): string => new Date(at).toISOString().slice(5, 16).replace('T', ' ');

/** A sign for each state, so that the state does not depend on color. */
export const SIGNS = TABLE.signs;

/**
 * Returns the sign of a finding, and its state in words. A value within its bound may still not be clearly within it.
 */
export const signOf = ({ state, isWithin }: Pick<Found, 'state' | 'isWithin'>): [sign: string, words: string] =>
  state === 'healthy' && isWithin === false ? ['·', 'not clearly within'] : [SIGNS[state], state];
