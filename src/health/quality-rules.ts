/** Rules about the quality of replies: objectives, default bounds, falls, and changes that a healthy state excludes. */

import { DAY_MS, HOUR_MS } from '../captures/files/capture-path.ts';
import { many, percent, time } from '../core/text/figure-text.ts';
import { singleLine } from '../core/text/terminal-text.ts';
import { boundsOf } from '../judge/scorers/values.ts';
import type { Scorer } from '../judge/types.ts';
import { hourMs } from '../quality/counts-store.ts';
import { ERROR_REPLIES } from '../quality/objectives.ts';
import { quantilesText } from '../quality/quantiles.ts';
import { isWithin, objectiveText, scorerOf } from './facts.ts';
import { historyOf } from './history.ts';
import {
  FEWEST,
  type Found,
  hourText,
  isFinding,
  type Known,
  levelText,
  MAX_LISTED,
  type Rules,
  STATES,
  shareIn,
  shareText,
  worstOf,
} from './known.ts';
import {
  apartFrom,
  askedOf,
  type Bounded,
  type Bounds,
  bounded,
  type Fall,
  FEWEST_HARMFUL,
  MOST_POINTS,
  sumWithin,
} from './measures.ts';
import { judgedIn, shareOf } from './series.ts';

/** Shares of empty replies among replies in words: needs a look, and bad. */
const EMPTY_BOUNDS: Bounds = { look: 0.01, bad: 0.05 };
/** Shares of captures without an applicable scorer: needs a look, and not measured. */
const UNMEASURED_BOUNDS: Bounds = { look: 0.05, bad: 0.95 };
/** Older measurements of true answers do not describe the present. */
const OLD_MS = 30 * DAY_MS;

/** Whether true answers were measured recently. */
const hasTruth = ({ objectives, nowMs }: Known): boolean =>
  objectives.some(({ measured }) => measured && nowMs - hourMs(measured.end) < OLD_MS);

/** A run has no weeks before it: bounds decide, if replies were asked about. */
function ofRun({ history, judged, window, totals: { captures = 0 } }: Known): Found[] {
  if (captures === 0) return [];
  const isAsked = judged.some(({ name }) => {
    const series = history.series.get(name);
    return series !== undefined && askedOf(series, window) >= captures / 2;
  });
  if (!isAsked) return [{ state: 'too little to tell', message: 'no scorer is asked of half of the captures' }];
  return [{ state: 'healthy', message: 'no share is clearly beyond its bound; falls need the weeks before' }];
}

export const QUALITY_RULES = {
  objective(known) {
    const { objectives, nowMs, active, asOf: counted, command, since: worstSince, factorOf, comparisons } = known;
    return objectives.map((rate): Found => {
      const { objective: subject, missed, since, measured, measure, value, of = 0, bound, represented } = rate;
      const asOf = measured === undefined ? counted : new Date(hourMs(measured.end)).toISOString();
      const isOld = nowMs - Date.parse(asOf) > OLD_MS;
      const scorer = scorerOf(measure, active);
      const command_ = worstSince('worst', ...(active.some(({ name }) => name === scorer) ? ['--scorer', scorer] : []));
      const show = measured === undefined ? command_ : command('ground-truth', '--by', 'variant');
      const isUntold = measured !== undefined && missed === null;
      const unseen = missed === null && value !== null && !isUntold ? '; its detector has had no new captures yet' : '';
      const stale = isOld ? `; stale, nothing newer than ${time(asOf)} is measured` : '';
      const told = rate.why === undefined ? '' : `; ${rate.why}`;
      const text = `${objectiveText(rate)}${told}${unseen}${stale}`;
      if (missed) {
        const when = `${isOld ? 'was' : 'is'} missed${since === null ? '' : ` since ${time(since)}`}`;
        const found = { subject, asOf, message: `${subject} ${when}: ${text}`, command: show };
        return { ...found, since: since ?? undefined, state: isOld ? 'needs a look' : 'bad' };
      }
      const about = { subject, asOf, isWithin: isWithin(rate) };
      if (value === null || isOld || isUntold)
        return { ...about, state: 'too little to tell', message: `${subject}: ${text}` };
      if (measured !== undefined) return { ...about, state: 'healthy', message: `${subject}: ${text}` };
      // The figure and the state must agree, whatever the detector has seen.
      const failing = 'atLeast' in bound ? { share: 1 - value, of } : { share: value, of };
      const most = 'atLeast' in bound ? 1 - bound.atLeast : bound.atMost;
      const factor = scorer === ERROR_REPLIES ? 1 : factorOf(scorer);
      const independent = { share: failing.share, of: of / factor, ...(represented && { represented }) };
      const { state, level } = bounded(independent, { look: most, bad: Infinity }, comparisons);
      const why = {
        'needs a look': `, with ${levelText(level)}`,
        'too little to tell': `, though not with ${levelText(level)}`,
      }[state as string];
      const message = why === undefined ? text : `${text}; the interval is wholly beyond the objective${why}`;
      return { ...about, state, message: `${subject}: ${message}`, command: why && show };
    });
  },

  /** A scorer without an objective, and every scorer of harm, has default bounds. */
  bound(known): Found[] {
    const { judged, subjects, history, factorOf, window, comparisons, hasObjective, since } = known;
    return judged.flatMap((scorer) => {
      const { name } = scorer;
      const bounds = boundsOf(scorer);
      const series = history.series.get(name);
      if (series === undefined || bounds.look === Infinity || (scorer.severity !== 'harm' && hasObjective(name)))
        return [];
      const found = subjects.flatMap((variant): Found[] => {
        const strata = sumWithin(series, window, variant);
        const failing = shareOf(strata);
        if (failing.of === 0) return [];
        const least = scorer.severity === 'harm' ? FEWEST_HARMFUL : 0;
        const figure = bounded({ ...failing, of: failing.of / factorOf(name) }, bounds, comparisons, least);
        const about = { subject: name, variants: variant === undefined ? undefined : [variant] };
        const text = boundText(figure, scorer, judgedIn(strata), variant);
        return [{ ...about, ...text, command: since('worst', '--scorer', name) }];
      });
      const [all, ...own] = found;
      if (all === undefined) return [];
      // A variant is named where it is worse than all together.
      return [all, ...own.filter(({ state }) => isFinding(state) && STATES.indexOf(state) < STATES.indexOf(all.state))];
    });
  },

  fall({ falls: { falls }, judged, calls, since }): Found[] {
    const isHarm = (scorer: string): boolean =>
      judged.some(({ name, severity }) => name === scorer && severity === 'harm');
    const shown = falls.filter(({ scorer, after }) => !isHarm(scorer) || after.share * after.of >= FEWEST_HARMFUL);
    return shown.map((fall) => ({
      subject: fall.scorer,
      state: 'needs a look',
      message: fallText(fall, calls?.configuration),
      since: fall.since && new Date(fall.since.at).toISOString(),
      variants: fall.variants.length > 0 ? fall.variants : undefined,
      command: since('worst', '--scorer', fall.scorer),
    }));
  },

  /** The changes that a healthy state excludes. */
  excluded(known): Found[] {
    const { falls, isOfRun, history, judged, nowMs, totals } = known;
    const { excluded, few, newJudges } = falls;
    if (isOfRun) return ofRun(known);
    const notes = newJudges.map(({ scorer, sinceMs, isKnown }): Found => {
      const told = `${scorer}: another judge since ${time(sinceMs)}`;
      if (isKnown) return { subject: scorer, state: 'healthy', message: told };
      const message = `${told}, and too few of its verdicts to compare with`;
      return { subject: scorer, state: 'too little to tell', message };
    });
    const compared = excluded.flatMap(({ spanMs, points }) =>
      points === undefined ? [] : [{ points, span: spanMs === DAY_MS ? '24 hours' : 'three days' }],
    );
    const [first, longest] = [compared[0], compared.at(-1)];
    if (first === undefined || longest === undefined) {
      if (hasTruth(known)) return notes;
      const wait = `falls are known from a day after the first capture on`;
      const none =
        judged.length === 0
          ? 'no scorer says whether replies are good'
          : 'no scorer is asked of half of the captures, now and in the same hours before';
      const isNew = nowMs - history.firstMs < DAY_MS;
      const message = (totals.captures ?? 0) > 0 && !isNew ? none : wait;
      return [{ state: 'too little to tell', message }, ...notes];
    }
    const isTold = longest.points <= MOST_POINTS;
    const rest = compared.slice(1).map(({ points, span }) => `, nor ${pointsText(points)} in ${span}`);
    const fewText = isTold && few.length > 0 ? ` (too few to tell: ${few.map(singleLine).join(', ')})` : '';
    const message = isTold
      ? `no scorer is ${pointsText(first.points)} worse in ${first.span}${rest.join('')}${fewText}`
      : `a scorer could be ${pointsText(longest.points)} worse in ${longest.span} without being found`;
    return [{ state: isTold ? 'healthy' : 'too little to tell', message }, ...notes];
  },

  unmeasured(known): Found[] {
    const { totals, comparisons } = known;
    const { captures = 0, unmeasured = 0 } = totals;
    if (unmeasured <= 0) return [];
    const { state, value, isWithin } = bounded(shareIn(unmeasured, captures), UNMEASURED_BOUNDS, comparisons);
    const message = `${percent(value)} of ${many(captures, 'capture')} are not measured: no scorer applies to these replies`;
    if (hasTruth(known) || state === 'too little to tell') return [{ state: 'healthy', isWithin, message }];
    return [{ state: state === 'bad' ? 'not measured' : state, isWithin, message }];
  },

  'empty-replies'({ spans, comparisons, since }): Found[] {
    const found = spans.flatMap(({ totals: { replies: { words: { all = 0, empty = 0 } = {} } = {} }, of }): Found[] => {
      if (all === 0) return [];
      const { state, ...figure } = bounded(shareIn(empty, all), EMPTY_BOUNDS, comparisons);
      const message = `${shareText(figure)} of ${many(all, 'reply', 'replies')} in words${of} are empty`;
      return [{ state, isWithin: figure.isWithin, message, command: since('rates', '--by', 'hour') }];
    });
    return worstOf(found);
  },

  'variant-differs'({ others, reference, shadow, cells, window, active, factorOf, since }) {
    const all = historyOf(cells, active, [ERROR_REPLIES]);
    const found = apartFrom(reference, others, { ...all, factorOf }, window);
    return [...Map.groupBy(found, ({ variant }) => variant)].map(([variant, worse]): Found => {
      const texts = worse.map(({ scorer, before, after }) => `${scorer} ${pointsText(after.share - before.share)}`);
      const kind = shadow.includes(variant) ? 'shadow variant' : 'variant';
      const message = `${kind} ${singleLine(variant)} is worse than ${singleLine(reference)}: ${texts.slice(0, MAX_LISTED).join(', ')}`;
      const command = since('rates', '--by', 'variant');
      const about = { subject: variant, scorer: worse[0]?.scorer, variants: [variant] };
      return { ...about, state: 'needs a look', message, command };
    });
  },

  /** Reports a sample that is too small, if replies can be judged. */
  judged({ rates, active }) {
    const judges = active.filter(({ kind }) => kind === 'judge').map(({ name }) => name);
    const asked = rates.filter(({ scorer, captures }) => captures > 0 && judges.includes(scorer));
    if (asked.length === 0) return [];
    const most = Math.max(...asked.map(({ n }) => n));
    const message = `${many(most, 'capture')} judged`;
    if (most >= FEWEST) return [{ state: 'healthy', message }];
    return [{ state: 'too little to tell', message: `${message}, of at least ${FEWEST}` }];
  },

  /** The callers' measurements. Limits for times are set by objectives. */
  times({ rates, active }) {
    const timed = active.flatMap((one) => (one.kind === 'code' && one.isAsked ? [one.name] : []));
    return rates.flatMap(({ scorer: subject, n, quantiles }): Found[] => {
      const message = quantiles && `${subject}: ${quantilesText(quantiles)} of ${many(n, 'reply', 'replies')}`;
      return message && timed.includes(subject) ? [{ subject, state: 'healthy', message }] : [];
    });
  },
} satisfies Rules;

// ------------------------------------------------------------------------------------------------------------ text

const pointsText = (share: number): string => many(Math.max(1, Math.ceil(100 * share - 1e-9)), 'point');
/** Such as `24 hours`, and `3 days`. */
const spanText = (ms: number): string =>
  ms > DAY_MS ? many(Math.floor(ms / DAY_MS), 'day') : many(Math.floor(ms / HOUR_MS), 'hour');

function boundText(figure: Bounded, scorer: Scorer, n: number, variant: string | undefined) {
  const { state, isWithin } = figure;
  const { look, bad } = boundsOf(scorer);
  const of = variant === undefined ? '' : ` of variant ${singleLine(variant)}`;
  const share = `${scorer.name}: ${shareText(figure)} of ${many(n, 'reply', 'replies')}${of} fail`;
  if (state === 'healthy') return { state, isWithin, message: share };
  const beyond = `; by default, ${percent(state === 'bad' ? bad : look)} ${state === 'bad' ? 'is bad' : 'needs a look'}`;
  if (state === 'too little to tell') return { state, message: `${share}${beyond}, which the 95% interval is beyond` };
  const atLeast = Math.max(0.05, Math.floor(100 * (1 - figure.high)) / 100);
  const normal = `{"scorer":"${scorer.name}","atLeast":${atLeast}} in QUALITY_OBJECTIVES says that this is normal here`;
  return { state, message: `${share}${beyond}${scorer.severity === 'harm' ? '' : `. ${normal}`}` };
}

/** A configuration that was made so shortly before a fall may be its cause. */
const CAUSE_MS = 6 * HOUR_MS;

function fallText(fall: Fall, configuration?: { name: string; sinceMs: number }): string {
  const { scorer, before, after, spanMs, variants, baselineMs, since, failures } = fall;
  const than = `the same hours of the ${spanText(baselineMs)} before`;
  const figures = `${percent(1 - after.share)} good in the last ${spanText(spanMs)}, ${percent(1 - before.share)} in ${than}`;
  const kind = variants.length === 1 ? 'variant' : 'variants';
  const whom = variants.length === 0 ? '' : `, ${kind} ${variants.map(singleLine).join(', ')}`;
  const about = since && `; since about ${time(since.at)} (${hourText(since.from)} to ${hourText(since.to)})`;
  const seen = failures ? `, failures from ${time(failures.first)} to ${time(failures.last)}` : '';
  const isNear =
    since &&
    configuration &&
    since.at - configuration.sinceMs >= -HOUR_MS &&
    since.at - configuration.sinceMs <= CAUSE_MS;
  const why = isNear ? `; configuration ${singleLine(configuration.name)} since ${time(configuration.sinceMs)}` : '';
  return `${scorer}: ${figures}${whom}${about ?? ''}${seen}${why}`;
}
