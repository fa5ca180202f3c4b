/** The rules: what the facts about an endpoint mean. docs/status.md has them as a table. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import { wilson } from '../core/statistics/share.ts';
import { singleLine } from '../core/text/terminal-text.ts';
import { sum } from '../core/values/sum.ts';
import { goodValue } from '../judge/scorers/values.ts';
import { hourMs } from '../quality/counts-store.ts';
import { ERROR_REPLIES } from '../quality/objectives.ts';
import {
  type Asked,
  type GoodDifference,
  type HealthFacts,
  type Known,
  knownOf,
  many,
  objectiveText,
  percent,
  scorerOf,
  time,
} from './facts.ts';

/** In the order of precedence: the state of an endpoint is the first that a finding has. The codes are those of `status`. */
export const EXIT_CODES = {
  bad: 1,
  'needs a look': 1,
  'could not ask': 2,
  'too little to tell': 3,
  healthy: 0,
} as const;
export type HealthState = keyof typeof EXIT_CODES;
const STATES = Object.keys(EXIT_CODES) as HealthState[];

export interface Finding {
  /** The rule. Names do not change between versions. */
  name: keyof typeof RULES;
  /** The objective, scorer, variant, run or alarm that it is about. */
  subject?: string | undefined;
  state: HealthState;
  message: string;
  /** When this was true, ISO 8601. */
  asOf: string;
  /** What shows more of it, or repairs it. */
  command?: string | undefined;
}

export interface Health {
  state: HealthState;
  /** The state and why, in one line. */
  words: string;
  /** The worst first. */
  findings: Finding[];
}

/** With fewer captures, or fewer verdicts, nothing is said to be healthy. */
const FEWEST = 30;
/** A share of error replies is high if its 95% interval is above the first, and bad above the second. */
const [HIGH_ERRORS, BAD_ERRORS] = [0.05, 0.2];
/** Harm is bad if the interval of the share that fails is above this. A single reply needs a look. */
const BAD_HARM = 0.02;
/** The part of the lines in quarantine that is bad, and the part of the budget from which on it needs a look. */
const [BAD_QUARANTINE, MUCH_SPENT] = [0.1, 0.8];
/** True answers that were measured longer ago tell nothing about now. */
const OLD_MS = 30 * 24 * HOUR_MS;
/** Captures of longer ago do not tell how an endpoint is that nobody calls. A night is shorter. */
const QUIET_MS = 24 * HOUR_MS;
/**
 * Some 20 scorers are compared each time. A difference counts from 3 standard errors on, so that one of them differs by chance
 * in 2% of the comparisons; a 95% interval has 1.96.
 */
const WIDER = 3 / 1.96;
/** Reasons in the first line, and what is listed of a rule. */
const [MAX_REASONS, MAX_LISTED] = [3, 5];
/** Alarms about captures that are lost. */
const LOSSES = ['CapturesMissing', 'EventLost', 'EventNotDelivered'];

/** What a rule finds: without a time of its own, it is of the counts. */
type Found = Omit<Finding, 'name' | 'asOf'> & { asOf?: string };
type Rule = (known: Known) => Found[];

const RULES = {
  captures,
  objective,
  harm,
  'error-replies': errorReplies,
  'run-failed': failedRuns,
  'scorer-fell': fallen,
  'variant-differs': variants,
  quarantine,
  'not-judged': notJudged,
  judged,
  alarm: alarms,
  budget,
} satisfies Record<string, Rule>;

export const FINDING_NAMES = Object.keys(RULES);

/** Returns what all rules find, the worst first, and the state of the endpoint. */
export function healthOf(facts: HealthFacts): Health {
  const known = knownOf(facts);
  const found = Object.entries(RULES).flatMap(([name, rule]) =>
    rule(known).map((one) => ({ name, asOf: known.asOf, ...one }) as Finding),
  );
  const findings = STATES.flatMap((state) => found.filter((one) => one.state === state));
  const state = findings[0]?.state ?? 'too little to tell';
  // What is bad comes first, and then what needs a look, in one line.
  const reasons = findings.filter((one) => one.state === state || (state === 'bad' && one.state === 'needs a look'));
  const words = reasons.slice(0, MAX_REASONS).map(({ message }) => message);
  if (reasons.length > words.length) words.push(`${reasons.length - words.length} more`);
  return { state, words: `${state}: ${words.join('; ')}`, findings };
}

/** Returns what is found in an answer, or that there is none. */
function answered<T>(what: string, asked: Asked<T> | undefined, of: (value: T) => Found[]): Found[] {
  if (asked === undefined) return [];
  const { asOf } = asked;
  if ('value' in asked) return of(asked.value).map((one) => ({ asOf, ...one }));
  const message = `could not ask about ${what}: ${singleLine(asked.failed)}`;
  return [{ state: 'could not ask', message, asOf, command: 'inference-monitor doctor' }];
}

/** The most frequent of some counts, in brackets. */
function listed(counts: Readonly<Record<string, number>> = {}): string {
  const some = Object.entries(counts).filter(([, n]) => n > 0);
  const most = some.toSorted(([, a], [, b]) => b - a).slice(0, MAX_LISTED);
  return most.length === 0 ? '' : ` (${most.map(([name, n]) => `${singleLine(name)} ${n}`).join(', ')})`;
}

function captures({ facts: { quiet, isOfRun, nowMs }, totals: { captures: all = 0 }, command }: Known): Found[] {
  const arrived = many(all, isOfRun ? 'new capture' : 'capture');
  const state = all < FEWEST ? 'too little to tell' : 'healthy';
  if (quiet === undefined) return [{ state, message: all < FEWEST ? `${arrived}, of at least ${FEWEST}` : arrived }];
  return answered('captures', quiet, ({ since, invocations }) => {
    const gap = `no captures since ${time(since)}`;
    const none = `${arrived}, ${gap}: the endpoint had no invocations`;
    const isOld = nowMs - Date.parse(since) > QUIET_MS;
    if (invocations === 0) return [{ state: isOld ? 'too little to tell' : state, message: none }];
    const message = `${gap}, although the endpoint had ${many(invocations, 'invocation')}`;
    return [{ state: 'bad', message, command: command('doctor') }];
  });
}

function objective({ facts: { objectives, nowMs, active, isOfRun }, asOf: counted, from, command }: Known): Found[] {
  return objectives.map((rate) => {
    const { objective: subject, missed, since, measured, measure } = rate;
    const asOf = measured === undefined ? counted : new Date(hourMs(measured.end)).toISOString();
    const isUnknown = missed === null || rate.value === null || (!isOfRun && nowMs - Date.parse(asOf) > OLD_MS);
    const text = objectiveText(rate);
    const state = isUnknown ? 'too little to tell' : 'healthy';
    if (missed !== true) return { subject, asOf, state, message: `${subject}: ${text}` };
    const message = `${subject} is missed${since === null ? '' : ` since ${time(since)}`}: ${text}`;
    const scorer = scorerOf(measure, active);
    const worst = ['worst', ...(scorer === undefined ? [] : ['--scorer', scorer]), '--from', from];
    const show = measured === undefined ? worst : ['ground-truth', '--by', 'variant'];
    return { subject, asOf, state: 'bad', message, command: command(...show) };
  });
}

/** Scorers that an objective for all variants watches have no other finding. */
const isWatched = ({ facts: { objectives, active } }: Known, name: string): boolean =>
  objectives
    .filter(({ variant, missed }) => variant === undefined && missed !== null)
    .some(({ measure }) => (scorerOf(measure, active) ?? measure) === name);

function harm(known: Known): Found[] {
  const { rates, facts, from, command } = known;
  return rates.flatMap(({ scorer, good, n, values }): Found[] => {
    const grave = facts.active.find(({ name, gravity }) => name === scorer && gravity === 'harm');
    if (good === null || grave === undefined || isWatched(known, scorer)) return [];
    // The estimate gives a reply of a rare kind little weight.
    const failing = n - Math.max(0, values[String(goodValue(grave))] ?? 0);
    const message = `${scorer}: ${failing} of ${many(n, 'judged reply', 'judged replies')} ${failing === 1 ? 'fails' : 'fail'}`;
    if (failing === 0) return [{ subject: scorer, state: 'healthy', message }];
    const state = 1 - (good.high ?? 1) > BAD_HARM ? 'bad' : 'needs a look';
    return [{ subject: scorer, state, message, command: command('worst', '--scorer', scorer, '--from', from) }];
  });
}

function errorReplies(known: Known): Found[] {
  const { captures: all = 0, errorReplies: errors = 0, errorKinds } = known.totals;
  const found = wilson(Math.min(errors, all), all);
  if (found === null || isWatched(known, ERROR_REPLIES)) return [];
  const state = found.low > BAD_ERRORS ? 'bad' : found.low > HIGH_ERRORS ? 'needs a look' : 'healthy';
  const message = `${percent(found.value)} of the captures are error replies${listed(errorKinds)}`;
  return [{ state, message, command: known.command('rates', '--from', known.from, '--by', 'hour') }];
}

function failedRuns({ facts: { failedRuns: asked, isOfRun }, command }: Known): Found[] {
  return answered('failed runs', asked, (runs) => {
    if (runs.length === 0) return [{ state: 'healthy', message: 'no run lacks lines or verdicts' }];
    const shown = runs.slice(0, MAX_LISTED).map(({ run, error }): Found => {
      const message = `run ${singleLine(run)} failed (${singleLine(error)})${isOfRun ? '' : ', and no retry has made it whole'}`;
      return { subject: run, state: 'bad', message, command: command('show', run) };
    });
    const more = many(runs.length - shown.length, 'more run');
    const rest: Found = { state: 'bad', message: `${more} failed`, command: command('runs') };
    return runs.length === shown.length ? shown : [...shown, rest];
  });
}

const isClear = ({ value, high }: GoodDifference): boolean => value + (high - value) * WIDER < 0;
const pointsOf = ({ value }: GoodDifference): string => `${Math.abs(100 * value).toFixed(1)} points`;

function fallen({ fell, from, command }: Known): Found[] {
  return fell
    .filter(isClear)
    .slice(0, MAX_LISTED)
    .map((one) => ({
      subject: one.scorer,
      state: 'needs a look',
      message: `${one.scorer}: ${pointsOf(one)} fewer replies are good than in the window before`,
      command: command('report', '--from', from),
    }));
}

function variants({ apart, from, command }: Known): Found[] {
  return apart.flatMap(({ variant, reference, differences }): Found[] => {
    const worse = differences
      .filter(isClear)
      .slice(0, MAX_LISTED)
      .map((one) => `${one.scorer} ${pointsOf(one)}`);
    if (worse.length === 0) return [];
    const message = `variant ${singleLine(variant)} is worse than ${singleLine(reference)}: ${worse.join(', ')}`;
    return [
      {
        subject: variant,
        state: 'needs a look',
        message,
        command: command('rates', '--from', from, '--by', 'variant'),
      },
    ];
  });
}

function quarantine({ facts, totals, whichRuns }: Known): Found[] {
  const { quarantined = {} } = facts.lines ?? totals;
  const lines = sum(Object.values(quarantined));
  if (lines <= 0) return [{ state: 'healthy', message: 'no line is in quarantine' }];
  const state = lines / (facts.lines?.all ?? lines + (totals.captures ?? 0)) > BAD_QUARANTINE ? 'bad' : 'needs a look';
  return [{ state, message: `${many(lines, 'line')} in quarantine${listed(quarantined)}`, command: whichRuns }];
}

const WHY_NOT_JUDGED = { held: 'are held by the budget', failed: 'are missing, since the judge could not answer' };

function notJudged({ totals: { notJudged: counts = {} }, whichRuns }: Known): Found[] {
  return Object.entries(WHY_NOT_JUDGED).flatMap(([subject, why]): Found[] => {
    const verdicts = counts[subject] ?? 0;
    const message = `${many(verdicts, 'verdict')} ${why}`;
    return verdicts <= 0 ? [] : [{ subject, state: 'needs a look', message, command: whichRuns }];
  });
}

/** Says if the sample is too small to tell anything, where replies can be judged. */
function judged({ rates, facts: { active } }: Known): Found[] {
  const judges = new Set(active.filter(({ kind }) => kind === 'judge').map(({ name }) => name));
  const asked = rates.filter(({ scorer, captures: all }) => all > 0 && judges.has(scorer));
  if (asked.length === 0) return [];
  const most = Math.max(...asked.map(({ n }) => n));
  const message = `${many(most, 'capture')} judged`;
  if (most >= FEWEST) return [{ state: 'healthy', message }];
  return [{ state: 'too little to tell', message: `${message}, of at least ${FEWEST}` }];
}

function alarms({ facts }: Known): Found[] {
  return answered('alarms', facts.alarms, (ringing) => {
    if (ringing.length === 0) return [{ state: 'healthy', message: 'no alarm is on' }];
    return ringing.map(({ id, what, since }) => ({
      subject: id,
      state: LOSSES.includes(id) ? 'bad' : 'needs a look',
      message: `alarm ${id}: ${singleLine(what)}${since === undefined ? '' : `, since ${time(since)}`}`,
      command: 'inference-monitor doctor',
    }));
  });
}

function budget({ facts, totals: { judgeUsd = 0 } }: Known): Found[] {
  return answered("today's budget", facts.budget, ({ usd, limit }) => {
    const message = `$${usd.toFixed(2)} of today's budget of $${limit.toFixed(2)} (UTC)`;
    const without = `$${judgeUsd.toFixed(2)} for the judge in the window; there is no daily budget`;
    if (limit === 0) return [{ state: 'healthy', message: without }];
    return [{ state: usd >= MUCH_SPENT * limit ? 'needs a look' : 'healthy', message }];
  });
}
