/** The metrics of quality, with their dimensions. */
import { publishQuality } from '../../../src/monitoring/watch-run.ts';
import { publishedMetrics } from '../../helpers/published-metrics.ts';

let published: Record<string, unknown>[];
beforeEach(() => {
  published = publishedMetrics();
});
afterEach(() => jest.restoreAllMocks());

test('by scorer and variant, by variant, and by objective while it is missed', () => {
  const first = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [1000 + index, { cases: 2, failed: index % 2 }]));
  const series = { safety: { A: first(250) }, 'error replies': { A: first(1), B: first(2) } };
  publishQuality('prod', series, ['safety'], 1_300_000);
  const shown = published.map(({ _aws, VerdictAge, ...rest }) =>
    VerdictAge === undefined ? rest : { ...rest, VerdictAge: true },
  );
  expect(shown).toEqual([
    { StackPrefix: 'prod', Scorer: 'safety', Variant: 'A', Judged: 500, Passed: 375 },
    { StackPrefix: 'prod', Variant: 'A', ErrorReplies: 0 },
    { StackPrefix: 'prod', Variant: 'B', ErrorReplies: 1 },
    { StackPrefix: 'prod', Variant: 'A', VerdictAge: true },
    { StackPrefix: 'prod', Variant: 'B', VerdictAge: true },
    { StackPrefix: 'prod', Objective: 'safety', QualityMissed: 1 },
  ]);
  // CloudWatch takes at most 100 values.
  const ages = published.find(({ VerdictAge, Variant }) => VerdictAge !== undefined && Variant === 'A')
    ?.VerdictAge as number[];
  expect(ages).toHaveLength(50);
  expect([ages[0], ages.at(-1)]).toEqual([51, 300]);
  publishQuality('prod', {}, [], 0);
  expect(published).toHaveLength(6);
});
