/** Rules about arriving captures, losses and costs. */

import { DAY_MS } from '../captures/files/capture-path.ts';
import type { QualityCell } from '../core/contract/quality.ts';
import { many, time } from '../core/text/figure-text.ts';
import { singleLine } from '../core/text/terminal-text.ts';
import { sum } from '../core/values/sum.ts';
import { burstsIn } from '../quality/bursts.ts';
import { ERROR_REPLIES } from '../quality/objectives.ts';
import { missingBy } from '../quality/outcomes.ts';
import { twoSources } from '../quality/two-sources.ts';
import { besideText, listed } from './facts.ts';
import {
  FEWEST,
  type Found,
  hourText,
  isFinding,
  MAX_LISTED,
  type Rules,
  shareIn,
  shareText,
  worstOf,
} from './known.ts';
import { type Bounds, bounded } from './measures.ts';

/**
 * Shares from which on an endpoint needs a look, and is bad: for error replies, for calls without a reply, and for
 * lines.
 */
const ERROR_BOUNDS: Bounds = { look: 0.05, bad: 0.2 };
const QUARANTINE_BOUNDS: Bounds = { look: 0.01, bad: 0.1 };
/** Once this share of the budget is spent, its end before the end of the day is predicted. */
const FORESEEN = 0.2;
/** If the last captures are older, they do not represent an endpoint without traffic. A night is shorter. */
const QUIET_MS = DAY_MS;
/** Alarms about captures that are lost. */
const LOSSES = ['CapturesMissing', 'EventLost', 'EventNotDelivered'];

export const NOT_IN_QUARANTINE = 'no line is in quarantine';

export const OPERATION_RULES = {
  captures({ calls, quiet, isOfRun, nowMs, now: asOf, totals, command }): Found[] {
    const { captures: all = 0 } = totals;
    const arrived = `${many(all, isOfRun ? 'new capture' : 'capture')}${besideText(totals)}`;
    const missing = (calls?.missing ?? []).map(
      ({ variant, captures, invocations, percent: sampled, fromMs, toMs }): Found => {
        const of = `${many(captures, 'capture')} of ${many(invocations, 'invocation')} of variant ${singleLine(variant)}`;
        const why = sampled === 0 ? 'Data Capture is off' : `Data Capture takes ${sampled}%`;
        const message = `captures are missing: ${of} from ${time(fromMs)} to ${hourText(toMs)}, and ${why}`;
        return { subject: variant, state: 'bad', asOf, message, command: command('doctor') };
      },
    );
    if (missing.length > 0) return missing;
    const state = all < FEWEST ? 'too little to tell' : 'healthy';
    if (quiet === undefined) return [{ state, message: all < FEWEST ? `${arrived}, of at least ${FEWEST}` : arrived }];
    const isOld = nowMs - Date.parse(quiet.since) > QUIET_MS;
    const why = calls === undefined ? '' : `: ${many(calls.invocations, 'invocation')} in the window`;
    const message = `${arrived}, no captures since ${time(quiet.since)}${why}`;
    return [{ state: isOld ? 'too little to tell' : state, asOf, message }];
  },

  /** What the servers measure tells why replies are slow or fail. It has no bounds. */
  'endpoint-load': ({ load = new Map() }) =>
    Array.from(load, ([variant, text]): Found => {
      const of = variant === '' ? '' : ` of variant ${singleLine(variant)}`;
      const message = `measured by the servers${of}: ${singleLine(text)}`;
      return { subject: variant || undefined, state: 'healthy', message };
    }),

  'error-replies'({ spans, served, hasObjective, since, comparisons }): Found[] {
    const found = ({ captures = 0, errorReplies: errors = 0, errorKinds }: QualityCell, of: string): Found[] => {
      if (captures <= 0) return [];
      const { state, ...figure } = bounded(shareIn(errors, captures), ERROR_BOUNDS, comparisons);
      const message = `${shareText(figure)} of the captures${of} are error replies${listed(errorKinds)}`;
      return [{ state, isWithin: figure.isWithin, message, command: since('rates', '--by', 'hour') }];
    };
    const all = hasObjective(ERROR_REPLIES) ? [] : spans.flatMap(({ totals, of }) => found(totals, of));
    const byVariant = served.length > 1 ? served : [];
    const own = byVariant.flatMap(({ variant: subject, totals }) =>
      found(totals, ` of variant ${singleLine(subject)}`).map((one) => ({ ...one, subject, variants: [subject] })),
    );
    // A variant that is somewhat worse is reported by the comparison of variants.
    return [...worstOf(all), ...own.filter(({ state }) => state === 'bad')];
  },

  /**
   * Calls without a reply do not count as captures. The client counts its own, and CloudWatch counts those that failed
   * in the endpoint.
   */
  'failed-calls'({ spans, totals, calls, comparisons, since }): Found[] {
    const found = (part: number, all: number, what: string, why: string): Found[] => {
      if (part <= 0) return [];
      const { state, ...figure } = bounded(shareIn(part, all), ERROR_BOUNDS, comparisons);
      const message = `${shareText(figure)} of ${many(all, 'call')}${why}`;
      return [{ subject: what, state, isWithin: figure.isWithin, message, command: since('rates', '--by', 'hour') }];
    };
    const failedIn = ({ failedCalls = {} }: QualityCell): number => sum(Object.values(failedCalls));
    const callsIn = (cell: QualityCell): number => (cell.captures ?? 0) + failedIn(cell);
    const { invocations = 0, serverErrors = 0 } = calls ?? {};
    const all = Math.max(callsIn(totals), invocations);
    const [lost, refused] = ['calls without a reply', 'replies of 5XX by CloudWatch'];
    const own = spans.flatMap(({ totals: cell, of }) => {
      const why = `${of} are ${lost}${listed(cell.failedCalls)}`;
      return found(failedIn(cell), of === '' ? all : callsIn(cell), lost, why);
    });
    return [...worstOf(own), ...found(serverErrors, all, refused, ` are ${refused}`)];
  },

  'two-sources': ({ cells, command }) =>
    twoSources(cells).map((message) => ({ state: 'needs a look', message, command: command('doctor') })),

  /** A note alone: the facts do not tell a load test from a good day. */
  burst: ({ cells, command }) => burstsIn(cells, command).map((message) => ({ state: 'healthy', message })),

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

  quarantine({ lines, totals, whichRuns, comparisons }): Found[] {
    const { quarantined = {} } = lines ?? totals;
    const count = sum(Object.values(quarantined));
    if (count <= 0) return [{ state: 'healthy', message: NOT_IN_QUARANTINE }];
    const all = Math.max(count, lines?.all ?? count + (totals.captures ?? 0));
    const { state, ...figure } = bounded(shareIn(count, all), QUARANTINE_BOUNDS, comparisons);
    const share = isFinding(state) ? `, ${shareText(figure)}` : '';
    const message = `${many(count, 'line')} in quarantine${share}${listed(quarantined)}`;
    return [{ state, isWithin: figure.isWithin, message, command: whichRuns }];
  },

  /** Items that were masked, by kind, field and pattern. */
  masked({ totals: { masked: { 'not masked': withheld = 0, ...items } = {} } }) {
    const count = sum(Object.values(items));
    if (count + withheld === 0) return [];
    const left = withheld > 0 ? `; ${many(withheld, 'capture')} without text, since masking failed` : '';
    const message = `${many(count, 'item')} masked${listed(items)}${left}`;
    return [{ state: withheld > 0 ? 'needs a look' : 'healthy', message }];
  },

  'not-judged'({ totals, whichRuns }) {
    const { held = 0, failed = 0 } = missingBy(totals.notJudged);
    const missing = held + failed;
    const why = listed({ 'held by the budget': held, failed });
    const message = `${many(missing, 'verdict')} ${missing === 1 ? 'is' : 'are'} missing${why}`;
    return missing <= 0 ? [] : [{ state: 'needs a look', message, command: whichRuns }];
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

  budget({ budget, totals: { judgeUsd = 0 }, nowMs, sampleRate }): Found[] {
    if (budget === undefined) return [];
    const { usd, limit } = budget;
    const without = `$${judgeUsd.toFixed(2)} for the judge in the window; there is no daily budget`;
    if (limit === 0) return [{ state: 'healthy', message: without }];
    const used = `$${usd.toFixed(2)} of today's budget of $${limit.toFixed(2)} (UTC)`;
    const [elapsedMs, isUsed] = [nowMs % DAY_MS, usd >= limit];
    const ofDay = (usd * DAY_MS) / elapsedMs;
    if (usd < FORESEEN * limit || ofDay <= limit) return [{ state: 'healthy', message: used }];
    const endMs = nowMs - elapsedMs + (limit / ofDay) * DAY_MS;
    const when = isUsed ? 'is used up' : `will be used up about ${time(endMs)}`;
    // Held verdicts are not included in the spending.
    const lasts = (((sampleRate ?? 1) * limit) / ofDay).toPrecision(1);
    const what =
      sampleRate === undefined
        ? 'the rest of the day is judged for what is left. Runs of older captures, rules and replays share the budget'
        : `EVALUATION_SAMPLE_RATE=${lasts} would last${isUsed ? ', or less' : ''}`;
    return [{ state: 'needs a look', message: `${used}: it ${when}; ${what}` }];
  },

  kept: ({ kept, now: asOf }) =>
    kept === undefined ? [] : [{ state: 'healthy', asOf, message: `captures are kept ${kept}` }],
} satisfies Rules;
