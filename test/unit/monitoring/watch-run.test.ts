/** What watches the quality of runs begins its costly work with the first run that it watches. */
import type { RunSummary } from '../../../src/monitoring/summary.ts';
import { connectQuality } from '../../../src/monitoring/watch-run.ts';
import { createDetector } from '../../../src/quality/detector.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

jest.mock('../../../src/quality/detector.ts', () => {
  const actual = jest.requireActual('../../../src/quality/detector.ts');
  return { ...actual, createDetector: jest.fn(actual.createDetector) };
});

const ENVIRONMENT = testEnvironment({ QUALITY_OBJECTIVES: '[{"scorer":"safety","atLeast":0.95}]' });
const SUMMARY = {
  run: 'r',
  startedAt: '2026-11-20T10:00:00Z',
  input: { detail: { bucket: { name: 'b' }, object: { key: 'my-endpoint/A/2026/11/20/10/a.jsonl' } } },
  options: { reevaluate: false },
} as unknown as RunSummary;

test('the limits of detectors are calculated for the first run of new captures, and kept', async () => {
  const watch = connectQuality(ENVIRONMENT, new MemoryStorage().storage);
  const quality = new RunSums();
  await watch(SUMMARY, quality);
  quality.add({ '2026-11-20T10': { A: { captures: 1 } } });
  quality.observe({ safety: { A: { 1763632800: { cases: 1 } } } });
  await watch({ ...SUMMARY, options: { reevaluate: true } } as RunSummary, quality);
  expect(createDetector).not.toHaveBeenCalled();
  await watch(SUMMARY, quality);
  await watch({ ...SUMMARY, run: 's' }, quality);
  expect(createDetector).toHaveBeenCalledTimes(1);
});
