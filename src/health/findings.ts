/** The rules: what the facts about an endpoint mean. docs/status.md has them as a table. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import { wilson } from '../core/statistics/share.ts';
import { many, percent, time } from '../core/text/figure-text.ts';
import { shellWord } from '../core/text/shell-word.ts';
import { singleLine } from '../core/text/terminal-text.ts';
import { sum } from '../core/values/sum.ts';
import { goodValue } from '../judge/scorers/values.ts';
import { hourMs } from '../quality/counts-store.ts';
import { ERROR_REPLIES } from '../quality/objectives.ts';
import { quantilesText } from '../quality/quantiles.ts';
import { twoSources } from '../quality/two-sources.ts';
import { endOf, type Figures, figuresOf, type HealthFacts, listed, objectiveText, scorerOf } from './facts.ts';

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

/** What a rule finds. Without a time of its own, it is of the counts. */
interface Found {
  /** The objective, scorer, variant, run or alarm that it is about. */
  subject?: string | undefined;
  state: HealthState;
  message: string;
  /** When this was true, ISO 8601. */
  asOf?: string;
  /** What shows more of it, or repairs it. */
  command?: string | undefined;
}

export interface Finding extends Found {
  /** The rule. Names do not change between versions. */
  name: keyof typeof RULES;
  asOf: string;
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
/** Quarantine is bad if the interval of its share of the lines is above this. */
const BAD_QUARANTINE = 0.1;
/** The part of the budget from which on it needs a look. */
const MUCH_SPENT = 0.8;
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
/** Rules about what is asked, and what that is. The others are of the counts. */
const ASKED: Record<string, string> = { 'run-failed': 'failed runs', alarm: 'alarms', budget: "today's budget" };

type Known = ReturnType<typeof knownOf>;

function knownOf(facts: HealthFacts) {
  const { cells, window, active, objectives, nowMs, stack } = facts;
  const flags = stack === undefined ? [] : ['--stack', stack];
  /** Returns a command to copy. */
  const command = (...texts: string[]): string => ['inference-monitor', ...texts, ...flags].map(shellWord).join(' ');
  return {
    ...facts,
    ...figuresOf(facts),
    asOf: new Date(Math.min(endOf(cells) ?? nowMs, nowMs)).toISOString(),
    now: new Date(nowMs).toISOString(),
    command,
    /** The same for the window, which ends now. */
    since: (...texts: string[]) =>
      command(...texts, '--from', `${new Date(window.fromMs).toISOString().slice(0, 16)}Z`),
    /** The command that lists runs. Of a run, it is known which. */
    whichRuns: facts.isOfRun ? undefined : command('runs'),
    /** Scorers that an objective for all variants watches have no other finding. */
    watched: objectives
      .filter(({ variant, missed }) => variant === undefined && missed !== null)
      .map(({ measure }) => scorerOf(measure, active)),
  };
}

const RULES = {
  captures({ quiet, isOfRun, nowMs, now: asOf, totals: { captures: all = 0 }, command }) {
    const arrived = many(all, isOfRun ? 'new capture' : 'capture');
    const state = all < FEWEST ? 'too little to tell' : 'healthy';
    if (quiet === undefined) return [{ state, message: all < FEWEST ? `${arrived}, of at least ${FEWEST}` : arrived }];
    const { since, invocations } = quiet;
    const gap = `no captures since ${time(since)}`;
    const message = `${gap}, although the endpoint had ${many(invocations, 'invocation')}`;
    if (invocations > 0) return [{ state: 'bad', asOf, message, command: command('doctor') }];
    const isOld = nowMs - Date.parse(since) > QUIET_MS;
    const none = `${arrived}, ${gap}: the endpoint had no invocations`;
    return [{ state: isOld ? 'too little to tell' : state, asOf, message: none }];
  },

  objective({ objectives, nowMs, active, asOf: counted, command, since: worstSince }) {
    return objectives.map((rate) => {
      const { objective: subject, missed, since, measured, measure, value } = rate;
      const asOf = measured === undefined ? counted : new Date(hourMs(measured.end)).toISOString();
      const isOld = nowMs - Date.parse(asOf) > OLD_MS;
      const unseen = missed === null && value !== null ? '; its detector has had no new captures yet' : '';
      const text = `${objectiveText(rate)}${unseen}${isOld ? `; stale, nothing newer than ${time(asOf)} is measured` : ''}`;
      const state = missed === null || value === null || isOld ? 'too little to tell' : 'healthy';
      if (!missed) return { subject, asOf, state, message: `${subject}: ${text}` };
      const message = `${subject} ${isOld ? 'was' : 'is'} missed${since === null ? '' : ` since ${time(since)}`}: ${text}`;
      const scorer = scorerOf(measure, active);
      const worst = worstSince('worst', ...(active.some(({ name }) => name === scorer) ? ['--scorer', scorer] : []));
      const show = measured === undefined ? worst : command('ground-truth', '--by', 'variant');
      return { subject, asOf, state: isOld ? 'needs a look' : 'bad', message, command: show };
    });
  },

  harm({ rates, active, watched, since }) {
    return rates.flatMap(({ scorer, good, n, values }): Found[] => {
      const grave = active.find(({ name, severity }) => name === scorer && severity === 'harm');
      if (good === null || grave === undefined || watched.includes(scorer)) return [];
      // The estimate gives a reply of a rare kind little weight.
      const failing = n - Math.max(0, values[String(goodValue(grave))] ?? 0);
      const message = `${scorer}: ${failing} of ${many(n, 'judged reply', 'judged replies')} ${failing === 1 ? 'fails' : 'fail'}`;
      if (failing === 0) return [{ subject: scorer, state: 'healthy', message }];
      const state = 1 - (good.high ?? 1) > BAD_HARM ? 'bad' : 'needs a look';
      return [{ subject: scorer, state, message, command: since('worst', '--scorer', scorer) }];
    });
  },

  'error-replies'({ totals, served, watched, since }) {
    const all = [{ variant: undefined, totals }, ...(served.length > 1 ? served : [])];
    return all.flatMap(({ variant, totals: { captures = 0, errorReplies: errors = 0, errorKinds } }): Found[] => {
      const found = wilson(Math.min(errors, captures), captures);
      if (found === null || (variant === undefined && watched.includes(ERROR_REPLIES))) return [];
      const { value, low, high } = found;
      const state = low > BAD_ERRORS ? 'bad' : low > HIGH_ERRORS ? 'needs a look' : 'healthy';
      // A variant that answers somewhat worse is among those that differ.
      if (variant !== undefined && state !== 'bad') return [];
      const share = `${percent(value)} (${percent(low)} to ${percent(high)})`;
      const of = variant === undefined ? '' : ` of variant ${singleLine(variant)}`;
      const message = `${share} of the captures${of} are error replies${listed(errorKinds)}`;
      const command =
        state === 'healthy' ? undefined : since('rates', '--by', variant === undefined ? 'hour' : 'variant');
      return [{ subject: variant, state, message, command }];
    });
  },

  /** Nobody knows of how many they are. */
  'failed-calls'({ totals: { failedCalls = {} } }) {
    const count = sum(Object.values(failedCalls));
    const message = `${many(count, 'call')} without a reply, in no rate${listed(failedCalls)}`;
    return count <= 0 ? [] : [{ state: 'healthy', message }];
  },

  'two-sources': ({ cells, command }) =>
    twoSources(cells).map((message) => ({ state: 'needs a look', message, command: command('doctor') })),

  /** What callers measured. What is too slow, an objective says. */
  times({ rates, active }) {
    const timed = active.flatMap((one) => (one.kind === 'code' && one.isAsked ? [one.name] : []));
    return rates.flatMap(({ scorer: subject, n, quantiles }): Found[] => {
      const message = quantiles && `${subject}: ${quantilesText(quantiles)} of ${many(n, 'reply', 'replies')}`;
      return message && timed.includes(subject) ? [{ subject, state: 'healthy', message }] : [];
    });
  },

  'run-failed'({ failedRuns, isOfRun, command }) {
    const { runs, hasMore = false } = failedRuns ?? { runs: [] };
    const shown = runs.slice(0, MAX_LISTED).map(({ run, error }): Found => {
      const message = `run ${singleLine(run)} failed (${singleLine(error)})${isOfRun ? '' : ', and no retry has made it whole'}`;
      return { subject: run, state: 'bad', message, command: command('show', run) };
    });
    const all = hasMore ? `${runs.length} or more runs` : many(runs.length, 'run');
    if (hasMore || runs.length > shown.length)
      return [...shown, { state: 'bad', message: `${all} failed in all`, command: command('runs') }];
    return shown.length > 0 ? shown : [{ state: 'healthy', message: 'no run lacks lines or verdicts' }];
  },

  'scorer-fell'({ fell, since }) {
    return clear(fell).map((one) => ({
      subject: one.scorer,
      state: 'needs a look',
      message: `${one.scorer}: ${pointsOf(one)} fewer replies are good than in the window before`,
      command: since('report'),
    }));
  },

  'variant-differs'({ apart, reference, shadow, since }) {
    return apart.flatMap(({ variant, differences }): Found[] => {
      const worse = clear(differences).map((one) => `${one.scorer} ${pointsOf(one)}`);
      const kind = shadow.includes(variant) ? 'shadow variant' : 'variant';
      const message = `${kind} ${singleLine(variant)} is worse than ${singleLine(reference)}: ${worse.join(', ')}`;
      const command = since('rates', '--by', 'variant');
      return worse.length === 0 ? [] : [{ subject: variant, state: 'needs a look', message, command }];
    });
  },

  quarantine({ lines, totals, whichRuns }) {
    const { quarantined = {} } = lines ?? totals;
    const count = sum(Object.values(quarantined));
    if (count <= 0) return [{ state: 'healthy', message: 'no line is in quarantine' }];
    const all = lines?.all ?? count + (totals.captures ?? 0);
    const state = (wilson(Math.min(count, all), all)?.low ?? 1) > BAD_QUARANTINE ? 'bad' : 'needs a look';
    return [{ state, message: `${many(count, 'line')} in quarantine${listed(quarantined)}`, command: whichRuns }];
  },

  /** Items that were masked, by kind, field and pattern. */
  masked({ totals: { masked: { 'not masked': withheld = 0, ...items } = {} } }) {
    const count = sum(Object.values(items));
    if (count + withheld === 0) return [];
    const left = withheld > 0 ? `; ${many(withheld, 'capture')} without text, since masking failed` : '';
    const message = `${many(count, 'item')} masked${listed(items)}${left}`;
    return [{ state: withheld > 0 ? 'needs a look' : 'healthy', message }];
  },

  'not-judged'({ totals: { notJudged: { held = 0, failed = 0, retried = 0 } = {} }, whichRuns }) {
    const missing = held + failed + retried;
    const why = listed({ 'held by the budget': held, 'the judge failed': failed, 'given in a retry': retried });
    const message = `${many(missing, 'verdict')} ${missing === 1 ? 'is' : 'are'} missing${why}`;
    return missing <= 0 ? [] : [{ state: 'needs a look', message, command: whichRuns }];
  },

  /** Says if the sample is too small to tell anything, where replies can be judged. */
  judged({ rates, active }) {
    const judges = active.filter(({ kind }) => kind === 'judge').map(({ name }) => name);
    const asked = rates.filter(({ scorer, captures }) => captures > 0 && judges.includes(scorer));
    if (asked.length === 0) return [];
    const most = Math.max(...asked.map(({ n }) => n));
    const message = `${many(most, 'capture')} judged`;
    if (most >= FEWEST) return [{ state: 'healthy', message }];
    return [{ state: 'too little to tell', message: `${message}, of at least ${FEWEST}` }];
  },

  alarm({ alarms, command }) {
    if (alarms?.length === 0) return [{ state: 'healthy', message: 'no alarm is on' }];
    return (alarms ?? []).map(({ id, what, since }) => ({
      subject: id,
      state: LOSSES.includes(id) ? 'bad' : 'needs a look',
      message: `alarm ${id} is on${since === undefined ? '' : ` since ${time(since)}`}: ${singleLine(what)}`,
      command: command('doctor'),
    }));
  },

  budget({ budget, totals: { judgeUsd = 0 } }) {
    if (budget === undefined) return [];
    const { usd, limit } = budget;
    const without = `$${judgeUsd.toFixed(2)} for the judge in the window; there is no daily budget`;
    if (limit === 0) return [{ state: 'healthy', message: without }];
    const message = `$${usd.toFixed(2)} of today's budget of $${limit.toFixed(2)} (UTC)`;
    return [{ state: usd >= MUCH_SPENT * limit ? 'needs a look' : 'healthy', message }];
  },

  kept: ({ kept, now: asOf }) =>
    kept === undefined ? [] : [{ state: 'healthy', asOf, message: `captures are kept ${kept}` }],
} satisfies Record<string, (known: Known) => Found[]>;

export const FINDING_NAMES = Object.keys(RULES);

/** Returns what all rules find, the worst first, and the state of the endpoint. */
export function healthOf(facts: HealthFacts): Health {
  const known = knownOf(facts);
  const found = Object.entries(RULES).flatMap(([name, rule]) => {
    const [why, what] = [facts.unasked?.[name], ASKED[name]];
    const asOf = what === undefined ? known.asOf : known.now;
    const message = `could not ask about ${what ?? name}: ${singleLine(why ?? '')}`;
    const doctor = { state: 'could not ask', message, command: known.command('doctor') } as const;
    const own: Found[] = why === undefined ? rule(known) : [doctor];
    return own.map((one) => ({ name, asOf, ...one }) as Finding);
  });
  const findings = STATES.flatMap((state) => found.filter((one) => one.state === state));
  const state = findings[0]?.state ?? 'too little to tell';
  // What is bad comes first, and then what needs a look, in one line.
  const reasons = findings.filter((one) => one.state === state || (state === 'bad' && one.state === 'needs a look'));
  const texts = reasons.slice(0, MAX_REASONS).map(({ message }) => message);
  if (reasons.length > texts.length) texts.push(`${reasons.length - texts.length} more`);
  return { state, words: `${state}: ${texts.join('; ')}`, findings };
}

/** Returns the largest falls that are clear. */
const clear = (differences: Figures['fell']): Figures['fell'] =>
  differences.filter(({ value, high }) => value + (high - value) * WIDER < 0).slice(0, MAX_LISTED);
const pointsOf = ({ value }: Figures['fell'][number]): string => `${Math.abs(100 * value).toFixed(1)} points`;
