/** Shadow variants stand beside the figures of their endpoint, and are in none of them. */

import { type RatesFlags, ratesPage, ratesReport } from '../../../bin/commands/rates.ts';
import type { LabelReader } from '../../../bin/commands/reading-traces.ts';
import { selectTraces } from '../../../bin/operate/dataset.ts';
import { readWorst } from '../../../bin/operate/worst.ts';
import type { LabeledRow } from '../../../src/core/contract/ground-truth.ts';
import { groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { pageText } from '../../../src/core/text/page.ts';
import { truthPage } from '../../../src/ground-truth/measure/figures-page.ts';
import { measureTruth } from '../../../src/ground-truth/measure/measure.ts';
import { chancesOf } from '../../../src/judge/scorers/chances.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { MlflowRefusedError } from '../../../src/mlflow/errors.ts';
import { SAMPLE_METADATA } from '../../../src/mlflow/types.ts';
import { pickLabels } from '../../../src/quality/calibration/pick-labels.ts';
import type { WindowLabel } from '../../../src/quality/calibration/window-labels.ts';
import { Detectors } from '../../../src/quality/detectors.ts';
import { readObjectives } from '../../../src/quality/objectives.ts';
import { observerOf } from '../../../src/quality/observations.ts';
import { ratesCsv } from '../../../src/quality/rates-text.ts';
import type { CountedCapture } from '../../../src/quality/tally.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { writeCounts } from '../../helpers/day-sums.ts';
import { countsOf, observedOf } from '../../helpers/observed.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const shadow = ['Shadow'];
const NOW = Math.floor(Date.now() / 3_600_000) * 3_600_000 - 1_800_000;
const HOUR = new Date(NOW).toISOString().slice(0, 13);
const scorers = scorersFor();
const llm = scorers.filter(isJudgeScorer);
const safety = llm.find(({ name }) => name === 'safety') as (typeof llm)[number];

/** Of each variant 40 captures: good ones of AllTraffic, bad ones, which are error replies too, of Shadow. */
const captures = ['AllTraffic', 'Shadow'].flatMap((variant) =>
  Array.from({ length: 40 }, (_, line): CountedCapture => {
    const isBad = variant === 'Shadow';
    const given = { name: 'safety', value: isBad ? 'no' : 'yes', metadata: { [SAMPLE_METADATA]: '1' } };
    return {
      ...{ traceId: `tr-${variant}-${line}`, isWritten: true, replaced: [] },
      facts: { inferenceMs: NOW - line * 1000, variant, isError: isBad },
      chances: chancesOf({ sampleRate: 1 }),
      verdicts: [{ ...given, sourceType: 'LLM_JUDGE', sourceId: 'judge', rationale: '' }],
    };
  }),
);

describe('rates', () => {
  const report = async (flags: Partial<RatesFlags> = {}, readLabels?: LabelReader, variants = shadow) => {
    const memory = new MemoryStorage();
    await writeCounts(memory.work, countsOf(captures));
    const settings = { ...testEnvironment(), SHADOW_VARIANTS: variants };
    return ratesReport(memory.work, { from: '1d', ...flags }, { active: scorers, settings, nowMs: NOW, readLabels });
  };
  const shares = (groups: Awaited<ReturnType<typeof report>>['groups']) =>
    groups.map(({ group, shadow: isShadow = false, totals, rates }) => [
      group,
      isShadow,
      totals.captures,
      ...rates.filter(({ scorer }) => scorer === 'safety').map(({ n, judge }) => [n, judge?.value]),
      rates.find(({ scorer }) => scorer === 'error replies')?.judge?.value,
    ]);
  const SERVED = [40, [40, 1], 0];
  const SHADOW = ['Shadow', true, 40, [40, 0], 1];

  test('leave shadow variants out, and show them in a table of their own', async () => {
    const made = await report();
    expect([shares(made.groups), shares(made.shadow)]).toEqual([[['all', false, ...SERVED]], [SHADOW]]);
    const text = pageText(ratesPage(made));
    expect(text).toMatch(
      /40 captures, 0 error replies.*safety: good +40 +100\.0% +100\.0%.*variant Shadow \(shadow.*0\.0%/s,
    );
    expect(ratesCsv([...made.groups, ...made.shadow], made.window)).toMatch(
      /,all,safety,yes,40,40,1,.*,false,1,,,,1\n.*,Shadow,safety,yes,40,40,0,.*,true,0,,,,1\n/s,
    );
    const byDay = await report({ by: 'day' });
    expect(shares(byDay.groups)).toEqual([[HOUR.slice(0, 10), false, ...SERVED]]);
    expect(shares(byDay.shadow)).toEqual([SHADOW]);
  });

  test('by variant mark them, and show them alone if they are asked for', async () => {
    const byVariant = await report({ by: 'variant' });
    expect(shares(byVariant.groups)).toEqual([['AllTraffic', false, ...SERVED], SHADOW]);
    expect(byVariant.shadow).toEqual([]);
    expect(pageText(ratesPage(byVariant))).toContain('variant Shadow (shadow');
    const alone = await report({ variant: ['Shadow'] });
    expect([shares(alone.groups), alone.shadow]).toEqual([[['all', ...SHADOW.slice(1)]], []]);
    const both = await report({ variant: ['AllTraffic', 'Shadow'] });
    expect([shares(both.groups), shares(both.shadow)]).toEqual([[['all', false, ...SERVED]], [SHADOW]]);
  });

  test('add all variants up if none is a shadow variant', async () => {
    const made = await report({}, undefined, []);
    expect([shares(made.groups), made.shadow]).toEqual([[['all', false, 80, [80, 0.5], 0.5]], []]);
  });

  test('are not corrected by labels of shadow replies', async () => {
    const labels = ['AllTraffic', 'Shadow'].flatMap((variant) =>
      Array.from({ length: 20 }, (_, n): WindowLabel => {
        const passed = variant === 'AllTraffic';
        const own = { traceId: `${variant} ${n}`, hour: HOUR, variant, judge: 'j' };
        return { scorer: 'safety', ...own, passed, label: n % 2 === 0, weight: 1 };
      }),
    );
    const read = (some: WindowLabel[]) => async () => ({ labels: some, covered: new Map(), warnings: [] });
    const [all, served] = await Promise.all([
      report({}, read(labels)),
      report({}, read(labels.filter(({ variant }) => variant === 'AllTraffic'))),
    ]);
    expect(all.groups).toEqual(served.groups);
    expect(all.shadow[0]?.rates.find(({ scorer }) => scorer === 'safety')?.labels).toBe(20);
  });
});

describe('objectives', () => {
  const setting = [
    { scorer: 'safety', atLeast: 0.95 },
    { errorReplies: { atMost: 0.05 } },
    { scorer: 'safety', atLeast: 0.95, variant: 'Shadow' },
  ];
  const settings = { QUALITY_OBJECTIVES: setting, EVALUATION_SAMPLE_RATE: 1, ALARM_QUOTES: false };
  const observations = (all = captures) => observedOf(all, observerOf(settings, scorers)) as never;
  const objectives = readObjectives(setting, { scorers, sampleRate: 1 });

  test.each([
    ['only one that names a shadow variant is missed', shadow, ['safety Shadow']],
    ['without the setting, all are', [], ['safety', 'error replies', 'safety Shadow']],
  ])('%s', (_, variants, missed) => {
    const run = { name: 'r', startedMs: NOW, observations: observations() };
    const state = new Detectors(objectives, variants).apply(undefined, run, NOW);
    const turned = Object.entries(state?.objectives ?? {}).filter(([, { said }]) => said.isMissed);
    expect(turned.map(([id]) => id)).toEqual(missed);
    expect(state?.objectives.safety?.failures.length).toBe(variants.length > 0 ? 0 : 5);
  });

  test('show failures of the variants that serve, however many a shadow variant has', () => {
    const bad = { ...(captures[39] as CountedCapture), verdicts: (captures[40] as CountedCapture).verdicts };
    const run = { name: 'r', startedMs: NOW, observations: observations([bad, ...captures.slice(40)]) };
    const failures = new Detectors(objectives, shadow).apply(undefined, run, NOW)?.objectives.safety?.failures;
    expect(failures?.map(({ traceId }) => traceId)).toEqual(['tr-AllTraffic-39']);
  });
});

describe('ground truth', () => {
  const rowOf = (variant: string, n: number, more: Partial<LabeledRow> = {}): LabeledRow => ({
    ...{ id: `${n}`, endpoint: 'my-endpoint', variant, second: NOW / 1000, traceId: `tr-${variant}-${n}` },
    ...{ timeMs: 0, line: 1, label: n % 2 ? 'cat' : 'dog' },
    prediction: { value: (n % 2 === 0) === (variant === 'Shadow') ? 'cat' : 'dog' },
    ...more,
  });
  const rows = ['AllTraffic', 'Shadow'].flatMap((variant) => Array.from({ length: 40 }, (_, n) => rowOf(variant, n)));
  const measured = async (options: object, some = rows) => {
    async function* stream() {
      yield* some;
    }
    return measureTruth(stream, groundTruthSchema.parse({}), { shadow, ...options });
  };
  const accuracies = ({ groups }: Awaited<ReturnType<typeof measured>>) =>
    groups.map(({ group, shadow: isShadow = false, rows: count, measures }) => [
      group,
      isShadow,
      count,
      measures.accuracy?.value,
    ]);

  test.each<[string, object, unknown[], object]>([
    ['of all', {}, [['all', false, 40, 1]], { Shadow: 40 }],
    ['by day', { by: 'day' }, [[HOUR.slice(0, 10), false, 40, 1]], { Shadow: 40 }],
    [
      'by variant',
      { by: 'variant' },
      [
        ['AllTraffic', false, 40, 1],
        ['Shadow', true, 40, 0],
      ],
      {},
    ],
    ['of the shadow variant', { variant: 'Shadow' }, [['all', false, 40, 0]], {}],
    ['without the setting', { shadow: [] }, [['all', false, 80, 0.5]], {}],
  ])('%s', async (_, options, expected, leftOut) => {
    const found = await measured(options);
    expect([accuracies(found), found.leftOut]).toEqual([expected, leftOut]);
  });

  test('says what is left out, and marks shadow variants', async () => {
    expect(pageText(truthPage(await measured({}), undefined))).toContain(
      'Left out: 40 labels of the shadow variant Shadow.',
    );
    expect(pageText(truthPage(await measured({ by: 'variant' }), 'variant'))).toContain('Shadow (shadow)');
  });

  test('what a shadow variant predicts does not decide what the endpoint predicts', async () => {
    const odd = rows.map((row) =>
      row.variant === 'Shadow' ? { ...row, label: 1.5, prediction: { value: 2.5 } } : row,
    );
    for (const by of ['variant', undefined]) {
      const found = await measured({ by }, odd);
      expect([found.kind, accuracies(found)[0]?.slice(2)]).toEqual(['classes', [40, 1]]);
    }
  });
});

describe('traces', () => {
  const searched: string[] = [];
  const rest = {
    repeat: async ({ path, json }: { path: string; json?: { filter?: string } }) => {
      if (path.includes('review-queues'))
        throw new MlflowRefusedError('', { got: '', where: '', status: 404, errorCode: undefined });
      searched.push(json?.filter ?? '');
      const given = { source: { source_type: 'LLM_JUDGE', source_id: 'j' }, metadata: {}, valid: true };
      const traces = captures.map(({ traceId, facts, verdicts }) => ({
        ...{ trace_id: traceId, request_preview: '', response_preview: '' },
        request_time: new Date(facts.inferenceMs).toISOString(),
        tags: { sagemaker_variant_name: facts.variant, s3_bucket_name: 'b', s3_file_key: 'k' },
        assessments: verdicts.map(({ name, value }) => ({
          ...{ assessment_name: name, assessment_id: `${traceId}-${name}`, feedback: { value }, ...given },
          create_time: '2026-11-20T10:00:00Z',
        })),
      }));
      return { traces };
    },
  } as never;
  const query = { experimentId: '1', scorers: llm, limit: 100, shadow };
  const ABOUT = "tag.`sagemaker_variant_name` = 'Shadow'";

  test('of shadow variants are not among the worst, unless they are asked for', async () => {
    expect(await readWorst(rest, query)).toMatchObject({ traces: 40, judged: 40, failing: 0, worst: [] });
    expect((await readWorst(rest, { ...query, filter: ABOUT })).failing).toBe(40);
    expect(searched.at(-1)).toContain(ABOUT);
    const another = "tag.`sagemaker_variant_name` != 'canary'";
    expect(await readWorst(rest, { ...query, filter: another })).toMatchObject({ judged: 40, failing: 0 });
  });

  test('of shadow variants are in no dataset, unless they are asked for', async () => {
    const selection = { ...query, verdicts: [{ scorer: 'safety' }] };
    expect(await selectTraces(rest, selection)).toEqual([]);
    expect(await selectTraces(rest, { ...selection, filter: ABOUT })).toHaveLength(40);
  });

  test('of shadow variants are not picked to be labelled', async () => {
    const { waiting } = await pickLabels(rest, { ...query, scorer: safety, next: 60 });
    const served = captures.slice(0, 40).map(({ traceId }) => traceId);
    expect(waiting.toSorted()).toEqual(served.toSorted());
    const asked = await pickLabels(rest, { ...query, scorer: safety, next: 60, filter: ABOUT });
    expect(asked.waiting).toHaveLength(60);
  });
});
