/** What happens when a run ends: metrics of quality, the page, people’s labels, and texts that go. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { replayKeys, workKeys } from '../../../src/core/contract/work-keys.ts';
import { logger } from '../../../src/core/process/logging.ts';
import { mlflowOf } from '../../../src/mlflow/connect.ts';
import { readLabelsDaily } from '../../../src/monitoring/read-labels.ts';
import { removeTexts } from '../../../src/monitoring/remove-texts.ts';
import type { RunSummary } from '../../../src/monitoring/summary.ts';
import { connectQuality, publishQuality } from '../../../src/monitoring/watch-run.ts';
import { writePage } from '../../../src/monitoring/write-page.ts';
import { createDetector } from '../../../src/quality/detector.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { askedStackIn, useAskedStack } from '../../helpers/asked-stack.ts';
import { HOUR_MS, NOW_MS } from '../../helpers/example-month.ts';
import { publishedMetrics } from '../../helpers/published-metrics.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

describe('the metrics of quality', () => {
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
});

describe('the page that runs write to the work bucket', () => {
  useAskedStack();

  const LATEST = workKeys.report('latest');
  const functionArn = 'arn:aws:lambda:us-east-1:000000000000:function:summarizer';

  test('is written once an hour, and when an objective changes, by one of several runs', async () => {
    const memory = new MemoryStorage();
    const stack = await askedStackIn({ storage: memory });
    const write = async (afterMs: number, changed = false) => {
      const nowMs = NOW_MS + afterMs;
      await writePage(changed, { ...stack, functionArn, nowMs });
      return memory.objects.get(LATEST)?.toString() ?? '';
    };
    const [one, other] = await Promise.all([write(0), write(0)]);
    expect(one).toMatch(/<h1>garden-helpdesk<\/h1>.*✓ <bdi>healthy: no scorer is [^<]*; 6,760 captures/s);
    expect(other).toBe(one);
    expect(memory.objects.get(workKeys.report('2026-11-30'))?.toString()).toBe(one);
    memory.writtenMs.set(LATEST, NOW_MS);
    expect(await write(HOUR_MS - 1)).toBe(one);
    const turned = await write(HOUR_MS - 1, true);
    expect(turned).not.toBe(one);
    expect(await write(HOUR_MS)).not.toBe(turned);
  });

  test('a bucket that does not answer delays no run', async () => {
    const memory = new MemoryStorage();
    const stack = await askedStackIn({ storage: memory });
    stack.storage.getText = () => new Promise(() => {});
    await writePage(false, { ...stack, functionArn, nowMs: NOW_MS, limitMs: 20 });
    expect(memory.objects.has(LATEST)).toBe(false);
  });

  test('a page that cannot be written fails no run', async () => {
    const memory = new MemoryStorage();
    const stack = await askedStackIn({ storage: memory });
    memory.putIf = () => Promise.reject(new Error('no'));
    await writePage(false, { ...stack, functionArn, nowMs: NOW_MS });
    expect(memory.objects.has(LATEST)).toBe(false);
  });
});

describe('the labels of people', () => {
  test('a reading that fails is logged, fails nothing, and waits for the next day', async () => {
    let asked = 0;
    const server = createServer((_, reply) => {
      asked += 1;
      reply.writeHead(403).end();
    });
    await new Promise<void>((done) => void server.listen(0, done));
    const MLFLOW_TRACKING_URI = `http://localhost:${(server.address() as AddressInfo).port}`;
    const warned = jest.spyOn(logger, 'warn').mockImplementation();
    const work = { storage: new MemoryStorage().storage, workBucket: 'work' };
    const read = (day: string) =>
      readLabelsDaily(work, {
        connect: async () => mlflowOf({ MLFLOW_TRACKING_URI }),
        ...{ settings: { MLFLOW_EXPERIMENT_NAME: 'e' }, scorers: [], hasTime: () => true },
        nowMs: Date.parse(`${day}T09:00:00Z`),
      });
    const askedBy = async (day: string): Promise<number> => {
      const before = asked;
      await read(day);
      return asked - before;
    };
    try {
      expect(await askedBy('2026-11-20')).toBeGreaterThan(0);
      expect(warned).toHaveBeenCalledWith(expect.stringContaining('A run of tomorrow'), { error: expect.any(Error) });
      expect(await askedBy('2026-11-20')).toBe(0);
      expect(await askedBy('2026-11-21')).toBeGreaterThan(0);
    } finally {
      warned.mockRestore();
      server.close();
      server.closeAllConnections();
    }
  });
});

test('the texts of the run go, and nothing else', async () => {
  const memory = new MemoryStorage();
  const texts = [workKeys.batchInput('r', 0, 1), workKeys.batchOutput('r', 'job', 1), replayKeys.exchanges('p', 0)];
  const others = [workKeys.batchInput('r2', 0, 1), workKeys.batchJobs('r'), replayKeys.exchanges('p2', 0)];
  for (const key of [...texts, ...others]) memory.put(key, 'x');
  await removeTexts({ storage: memory.storage, workBucket: 'w' }, 'r', 'p');
  expect([...memory.objects.keys()].toSorted()).toEqual(others.toSorted());
});

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
