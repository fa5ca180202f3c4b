/** What the captures of a chunk show about the objectives. */

import { inSample } from '../../../src/captures/trace/ids.ts';
import { chancesOf } from '../../../src/judge/scorers/chances.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { SAMPLE_METADATA } from '../../../src/mlflow/types.ts';
import { observerOf } from '../../../src/quality/observations.ts';
import { ALWAYS } from '../../../src/quality/sample.ts';
import type { CountedCapture, CountedVerdict } from '../../../src/quality/tally.ts';
import { countedBy, observedOf } from '../../helpers/observed.ts';

const OBJECTIVES = [
  { scorer: 'safety', atLeast: 0.95 },
  { scorer: 'fluency', atLeast: 0.9 },
  { scorer: 'pii_detected', is: false, atLeast: 0.99 },
  { errorReplies: { atMost: 0.02 } },
];
const SETTINGS = { QUALITY_OBJECTIVES: OBJECTIVES, EVALUATION_SAMPLE_RATE: 1, ALARM_QUOTES: false };
const observer = (over: { ALARM_QUOTES?: boolean } = {}) => observerOf({ ...SETTINGS, ...over }, scorersFor());
const verdict = (name: string, value: string | boolean, more: Partial<CountedVerdict> = {}): CountedVerdict => ({
  name,
  value,
  sourceType: name === 'pii_detected' ? 'CODE' : 'LLM_JUDGE',
  sourceId: 'judge',
  metadata: { [SAMPLE_METADATA]: '1' },
  rationale: `about ${name}`,
  ...more,
});

let traces = 0;
function capture(ageS: number, more: Partial<CountedCapture> = {}): CountedCapture {
  traces += 1;
  const facts = { inferenceMs: Date.now() - ageS * 1000, variant: 'A', isError: false };
  const chances = chancesOf({ sampleRate: 1 });
  return { traceId: `tr-${traces}`, facts, chances, isWritten: true, verdicts: [], replaced: [], ...more };
}

const shown = (captures: readonly CountedCapture[], observe = observer()) => observedOf(captures, observe);

/** Captures and how many failed, by measure. */
function observed(captures: readonly CountedCapture[], over = {}): Record<string, [number, number]> {
  const { series = {} } = shown(captures, observer(over)) ?? {};
  return Object.fromEntries(
    Object.entries(series).map(([measure, variants]) => {
      const seconds = Object.values(variants).flatMap((own) => Object.values(own));
      const sum = (of: 'cases' | 'failed'): number => seconds.reduce((total, second) => total + (second[of] ?? 0), 0);
      return [measure, [sum('cases'), sum('failed')]];
    }),
  );
}

test('a capture counts for each scorer that judged it, and for error replies if the run has written it', () => {
  const both = [verdict('safety', 'no'), verdict('fluency', 'yes'), verdict('pii_detected', true)];
  expect(observed([capture(10, { verdicts: both }), capture(5, { verdicts: [verdict('safety', 'yes')] })])).toEqual({
    safety: [2, 1],
    fluency: [1, 0],
    'pii_detected false': [1, 1],
    'error replies': [2, 0],
  });
  const facts = { inferenceMs: Date.now(), variant: 'A', isError: true };
  expect(observed([capture(0, { facts }), capture(0, { isWritten: false })])).toEqual({ 'error replies': [1, 1] });
});

test('verdicts that replace others, captures of the day before, and of the future are not observed', () => {
  const verdicts = [verdict('safety', 'no')];
  expect(observed([capture(1, { verdicts, replaced: ['safety'], isWritten: false })])).toEqual({});
  expect(observed([capture(86_500, { verdicts }), capture(-700, { verdicts })])).toEqual({});
  expect(observed([capture(86_300, { verdicts })]).safety).toEqual([1, 1]);
});

test('what a rule has judged counts only if the sample would have drawn it', () => {
  const metadata = { [SAMPLE_METADATA]: ALWAYS };
  const all = Array.from({ length: 300 }, () =>
    capture(1, { chances: chancesOf({ sampleRate: 0.1 }), verdicts: [verdict('safety', 'no', { metadata })] }),
  );
  const drawn = all.filter(({ traceId }) => inSample(traceId, 0.1)).length;
  expect(observed(all).safety).toEqual([drawn, drawn]);
  expect(drawn).toBeLessThan(60);
});

test('numbers are counted by measure at any age', () => {
  const QUALITY_OBJECTIVES = [{ scorer: 'response_words', valueUnder: 100, atLeast: 0.9 }];
  const settings = { ...SETTINGS, QUALITY_OBJECTIVES };
  const words = (value: number) => ({ ...verdict('response_words', ''), value, sourceType: 'CODE' as const });
  const captures = [capture(90_000, { verdicts: [words(99)] }), capture(90_000, { verdicts: [words(100)] })];
  const { quality = {} } = countedBy(captures, observerOf(settings, scorersFor()));
  const cells = Object.values(quality).flatMap((hour) => Object.values(hour));
  const { measures, numbers } = cells[0]?.scorers?.response_words?.all ?? {};
  expect(measures).toEqual({ 'response_words under 100': { cases: 2, passed: 1 } });
  expect(numbers).toMatchObject({ sum: 199, squares: 99 ** 2 + 100 ** 2 });
});

test('keeps the seconds of the last hour, and the minutes of the others', () => {
  const seconds = shown(Array.from({ length: 7200 }, (_, age) => capture(age)))?.series['error replies']?.A ?? {};
  expect(Object.keys(seconds).length).toBeGreaterThan(3600);
  expect(Object.keys(seconds).length).toBeLessThan(3700);
});

test('names at most twenty variants, and no name is special', () => {
  const variants = ['toString', 'constructor', ...Array.from({ length: 30 }, (_, index) => `v${index}`)];
  const inferenceMs = Date.now();
  const all = variants.map((variant) => capture(0, { facts: { inferenceMs, variant, isError: false } }));
  const found = Object.entries(shown(all)?.series['error replies'] ?? {});
  expect(found.map(([variant]) => variant)).toEqual([...variants.slice(0, 20), '(other)']);
  expect(Object.values(found.at(-1)?.[1] ?? {}).reduce((sum, { cases = 0 }) => sum + cases, 0)).toBe(12);
});

test('keeps the five captures that fail most, with the judge’s words only if they are wanted', () => {
  const failures = (over: object) => {
    const captures = Array.from({ length: 20 }, (_, index) => {
      const age = 20 - index;
      const others = age === 15 ? [verdict('fluency', 'no')] : [];
      return capture(age, { traceId: `tr-age-${age}`, verdicts: [verdict('safety', 'no'), ...others] });
    });
    return shown(captures, observer(over))?.failures.safety ?? [];
  };
  expect(failures({}).map(({ traceId }) => traceId)).toEqual([15, 1, 2, 3, 4].map((age) => `tr-age-${age}`));
  const badness = { failing: 2, severity: 'harm', causes: 2 };
  expect(failures({})[0]).toEqual({ traceId: 'tr-age-15', second: expect.any(Number), variant: 'A', ...badness });
  expect(failures({ ALARM_QUOTES: true })[0]?.said).toBe('about safety');
});

test('without objectives there is nothing to observe, and without a judge only error replies', () => {
  expect(observerOf({ ...SETTINGS, QUALITY_OBJECTIVES: [] }, scorersFor())).toBeUndefined();
  expect(observerOf({ ...SETTINGS, QUALITY_OBJECTIVES: OBJECTIVES.slice(0, 3) })).toBeUndefined();
  const unjudged = observerOf(SETTINGS);
  const found = shown([capture(0, { verdicts: [verdict('safety', 'no')] })], unjudged);
  expect(Object.keys(found?.series ?? {})).toEqual(['error replies']);
});
