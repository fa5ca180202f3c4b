/** Planning, chunks, the summary and retries against an S3 double with faulty files and faulty replies. */
import { plannerDependencies as plannerOfLambda } from '../../../lambda/plan-captures/dependencies.ts';
import type { TraceRecord } from '../../../src/captures/trace/types.ts';
import type { RunOptions } from '../../../src/core/contract/input.ts';
import type { CaptureRange, ManifestLine, PlanRequest, PlanResult } from '../../../src/core/contract/payloads.ts';
import type { PlanReceipt, QuarantineEntry } from '../../../src/core/contract/receipts.ts';
import { NO_VERDICT_COUNTS } from '../../../src/core/contract/receipts.ts';
import { areaOf, replayKeys, workKeys } from '../../../src/core/contract/work-keys.ts';
import { withRanges } from '../../../src/monitoring/chunk/ranges.ts';
import { logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { forEachChunkOf } from '../../../src/monitoring/invocation.ts';
import { DrawChances } from '../../../src/monitoring/plan/draw-chances.ts';
import { planCaptures } from '../../../src/monitoring/plan/planner.ts';
import type { PlannerDependencies } from '../../../src/monitoring/plan/types.ts';
import { describeFailure } from '../../../src/monitoring/run-failure.ts';
import { summarizeRun } from '../../../src/monitoring/summarize-run.ts';
import type { RunSummary } from '../../../src/monitoring/summary.ts';
import { memoryLimits, memoryWriting } from '../../doubles/memory-table.ts';
import { S3Wire } from '../../doubles/s3-wire.ts';
import { AwsAnswers } from '../../helpers/aws-answers.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const CAPTURES = 'captures';
const WORK = 'work';
const HOUR = 'e/AllTraffic/2026/11/20/10';

const line = (id: string) =>
  JSON.stringify({
    captureData: {
      endpointInput: { observedContentType: 'text/plain', mode: 'INPUT', data: `ask ${id}`, encoding: 'CSV' },
    },
    eventMetadata: { eventId: id, inferenceTime: '2026-11-20T10:00:00Z' },
    eventVersion: '0',
  });
const lines = (name: string, count: number) =>
  Array.from({ length: count }, (_, n) => `${line(`${name}${n}`)}\n`).join('');

let wire: S3Wire;
let traces: TraceRecord[];
const running = new Set<string>();
let remainingMs: () => number;

beforeEach(async () => {
  wire = await S3Wire.start();
  traces = [];
  running.clear();
  remainingMs = () => 900_000;
});
afterEach(() => wire.stop());

const environment = testEnvironment({
  WORK_BUCKET: WORK,
  SAGEMAKER_ENDPOINT_NAME: 'e',
  DATA_CAPTURE_S3_BUCKET: CAPTURES,
  DATA_CAPTURE_S3_PREFIX: 'e/',
});

const plannerDependencies = (): PlannerDependencies => ({
  storage: wire.storage,
  environment,
  store: { resolveExperiment: async (name) => ({ id: '7', name, artifactLocation: '' }) },
  isRunning: async (arn) => running.has(arn),
  scorers: 1,
  chances: new DrawChances(environment, memoryLimits()),
  checkJudgeModel: async () => undefined,
  remainingMs: () => remainingMs(),
});

const plan = (
  name: string,
  input: unknown,
  cursor: string | null = null,
  more: Partial<PlannerDependencies> = {},
  request: Partial<PlanRequest> = {},
): Promise<PlanResult> =>
  planCaptures(
    {
      input,
      run: { name, arn: `arn:${name}`, startTime: new Date().toISOString() },
      part: cursor === null ? 0 : 1,
      nextChunk: 0,
      cursor,
      ...request,
    },
    { ...plannerDependencies(), ...more },
  );

const store = {
  getExperiment: async () => ({ id: '7', name: 'e', artifactLocation: '' }),
  getTraces: async () => new Map(),
  mendTraces: async () => [],
  spansForm: async () => 'otlp' as const,
  writeAssessments: async () => ({ written: [], alreadyThere: [] }),
  writeTraces: async (_: unknown, records: readonly TraceRecord[]) => {
    traces.push(...records);
    return { written: records.map(({ traceId }) => traceId), alreadyThere: [], bare: [], refused: [] };
  },
};
const logDependencies = () => ({ storage: wire.storage, store, environment, requestId: 'q', ...memoryWriting() });

const keysOf = (chunks: readonly ManifestLine[]): string[] =>
  chunks.flatMap(({ ranges, rangesIn }) => {
    const all = rangesIn === undefined ? ranges : (JSON.parse(wire.text(WORK, rangesIn) ?? '') as CaptureRange[]);
    return all.map(({ key }) => key);
  });

/** The chunks of all parts. */
const manifestOf = (name: string): ManifestLine[] =>
  wire
    .keys(WORK)
    .filter((key) => key.startsWith(areaOf('plan', name)))
    .flatMap((key) => {
      const { chunk, manifest } = wire.json<PlanReceipt>(WORK, key) ?? {};
      return chunk ?? (manifest === undefined ? [] : wire.lines<ManifestLine>(WORK, manifest));
    });

/** Runs one execution without evaluation, like the state machine. */
async function run(name: string, input: Record<string, unknown>, planned?: () => void): Promise<RunSummary> {
  const result = await plan(name, { evaluate: false, ...input });
  planned?.();
  const manifest = manifestOf(name);
  for (const line of result.outcome === 'planned' ? manifest : []) {
    const chunk = await withRanges({ storage: wire.storage, workBucket: WORK }, line);
    await logChunk({ run: name, chunk, options: result.options, attempt: 0 }, logDependencies()).catch(() => undefined);
  }
  return summarizeRun({ storage: wire.storage, workBucket: WORK }, { name, startTime: '' });
}

const backfill = { bucket: CAPTURES, prefix: 'e/' };
/** S3 answers so to requests for the captures whose keys have this in them. */
const failFor = (part: string, status: number, code: string): void => {
  wire.fault = ({ method, bucket, key }) =>
    method === 'GET' && bucket === CAPTURES && key.includes(part) ? { kind: 'error', status, code } : undefined;
};

test('the first part is short, so that its chunks run while the next is planned, but has chunks for many seats', async () => {
  for (let n = 0; n < 120; n += 1) {
    wire.put(CAPTURES, `${HOUR}/${String(n).padStart(3, '0')}.jsonl`, '{}\n'.repeat(500));
  }
  /** @returns the chunks of the first part, if planning takes so long */
  const firstPart = async (secondsAFile: number, more: object = {}) => {
    let left = 900_000;
    remainingMs = () => {
      left -= secondsAFile * 1000;
      return left;
    };
    const name = `p${secondsAFile}-${environment.MAX_FUNCTIONS}-${Object.keys(more).length}`;
    const { more: isMore } = await plan(name, { ...backfill, ...more });
    return { chunks: planOf(name)?.chunks ?? 0, isMore };
  };
  const hurried = await firstPart(4);
  expect(hurried.isMore).toBe(true);
  expect([50, 51]).toContain(hurried.chunks);
  // After half a minute it ends where it fills all functions; the chunk that is open then comes with it.
  for (const functions of [8, 20]) {
    environment.MAX_FUNCTIONS = functions;
    const { chunks } = await firstPart(0.25);
    expect((chunks - 1) % functions).toBe(0);
    expect(chunks).toBeGreaterThan(50);
    expect(chunks).toBeLessThan(85);
  }
  // More functions than that are not waited for.
  environment.MAX_FUNCTIONS = 110;
  const { chunks: some } = await firstPart(0.3);
  expect(some).toBeGreaterThan(80);
  expect(some).toBeLessThan(110);
  environment.MAX_FUNCTIONS = 8;
  expect(await firstPart(0.1)).toEqual({ chunks: 120, isMore: false });
  // Nothing runs beside a dry run.
  expect(await firstPart(1, { dryRun: true, evaluate: false })).toEqual({ chunks: 120, isMore: false });
});

const event = (key: string, more: object = {}) => ({
  detail: { bucket: { name: CAPTURES }, object: { key, ...more } },
});
const retry = (of: string, what: string) => ({ retry: { run: of, what } });
const planOf = (name: string) => wire.json<PlanReceipt>(WORK, workKeys.plan(name, 0));

describe('a file of a backfill', () => {
  beforeEach(() => {
    for (const name of ['a', 'b', 'c']) wire.put(CAPTURES, `${HOUR}/${name}.jsonl`, lines(name, 3));
  });

  test.each([
    ['was deleted', 404, 'NoSuchKey', 'CaptureMissing'],
    ['was archived', 403, 'InvalidObjectState', 'CaptureArchived'],
    ['was overwritten', 412, 'PreconditionFailed', 'CaptureChanged'],
    ['may not be read', 403, 'AccessDenied', 'StorageAccessDenied'],
  ])('that %s after it was listed fails alone, by name, and can be retried', async (_, status, code, name) => {
    failFor('b.jsonl', status, code);
    const summary = await run('first', backfill);
    expect(summary).toMatchObject({ status: 'failed', objects: 3, lines: { planned: 6, traced: 6, lost: 0 } });
    expect(summary.failedFiles).toMatchObject({ count: 1, first: [{ key: `${HOUR}/b.jsonl`, error: { name } }] });
    const { error, cause } = describeFailure(summary);
    expect(error).toBe(name);
    expect(cause).toContain(`${HOUR}/b.jsonl`);

    expect(await run('again', retry('first', 'failed'))).toMatchObject({ status: 'failed', lines: { planned: 0 } });
    wire.fault = () => undefined;
    wire.put(CAPTURES, `${HOUR}/b.jsonl`, lines('b', 4));
    expect(await run('healed', retry('again', 'failed'))).toMatchObject({ status: 'succeeded', lines: { traced: 4 } });
    expect(new Set(traces.map(({ traceId }) => traceId)).size).toBe(10);
  });

  test('of two attempts at a part, the first to end counts for both', async () => {
    // Too many files for a line of the manifest.
    for (let n = 0; n < 30; n += 1) wire.put(CAPTURES, `${HOUR}/d${n}.jsonl`, lines(`d${n}`, 1));
    const { storage } = wire;
    const late = Promise.withResolvers<void>();
    let hasBegun = false;
    const resolveExperiment = async (name: string) => {
      hasBegun = true;
      await late.promise;
      return { id: '7', name, artifactLocation: '' };
    };
    const lost = plan('twice', backfill, null, { store: { resolveExperiment } });
    while (!hasBegun) await new Promise((resolve) => setTimeout(resolve, 5));
    const counted = await plan('twice', backfill, null, {}, { attempt: 1 });
    const read = async () =>
      Promise.all(manifestOf('twice').map((line) => withRanges({ storage, workBucket: WORK }, line)));
    const planned = await read();
    wire.put(CAPTURES, `${HOUR}/e.jsonl`, lines('more', 9));
    wire.remove(CAPTURES, `${HOUR}/d7.jsonl`);
    late.resolve();
    expect(await lost).toEqual(counted);
    expect(await read()).toEqual(planned);
    expect(planned.flatMap(({ ranges }) => ranges)).toHaveLength(33);
  });

  describe('that S3 does not give', () => {
    const planAway = (name: string, attempt: number) => plan(name, backfill, null, {}, { attempt });

    test('is planned again with the others first, and at last it fails alone, by name', async () => {
      failFor('b.jsonl', 500, 'InternalError');
      for (const attempt of [0, 1, 2, 3]) {
        await expect(planAway('late', attempt)).rejects.toMatchObject({ name: 'StorageUnavailable' });
      }
      expect(planOf('late')).toBeUndefined();
      await planAway('late', 4);
      expect(planOf('late')).toMatchObject({
        objects: 3,
        lines: 6,
        failedFiles: [{ key: `${HOUR}/b.jsonl`, error: { name: 'StorageUnavailable' } }],
      });
      wire.fault = () => undefined;
      expect(await run('again', retry('late', 'failed'))).toMatchObject({ lines: { traced: 9 } });
    });

    test('is no failed file if S3 gives none of many', async () => {
      for (let n = 0; n < 18; n += 1) wire.put(CAPTURES, `${HOUR}/d${n}.jsonl`, lines(`d${n}`, 1));
      failFor('.jsonl', 500, 'InternalError');
      for (const attempt of [1, 2, 3, 4, 5, 6]) {
        await expect(planAway('outage', attempt)).rejects.toMatchObject({ name: 'StorageUnavailable' });
      }
      expect(planOf('outage')).toBeUndefined();
    });

    test('is no failed file while S3 throttles, however often the part is planned', async () => {
      failFor('b.jsonl', 503, 'SlowDown');
      for (const attempt of [0, 4, 10, 400]) {
        await expect(planAway('slow-down', attempt)).rejects.toMatchObject({ name: 'StorageThrottled' });
      }
      wire.fault = () => undefined;
      await planAway('slow-down', 401);
      expect(planOf('slow-down')).toMatchObject({ objects: 3, lines: 9 });
    });
  });

  test('that takes longer than a Lambda has fails alone, and planning continues after it', async () => {
    wire.put(CAPTURES, `${HOUR}/a.jsonl`, lines('a', 40_000));
    remainingMs = () => 30_001;
    const { cursor } = await plan('long', backfill);
    expect(planOf('long')?.failedFiles).toMatchObject([
      { key: `${HOUR}/a.jsonl`, error: { name: 'CaptureFileTooLarge' } },
    ]);
    remainingMs = () => 900_000;
    if (cursor !== null) await plan('long', backfill, cursor);
    const planned = manifestOf('long');
    expect(keysOf(planned)).toEqual([`${HOUR}/b.jsonl`, `${HOUR}/c.jsonl`]);
  });

  test('that is archived can be one of thousands: the next part continues after 1,000', async () => {
    for (let n = 0; n < 1_100; n += 1) wire.put(CAPTURES, `${HOUR}/many/${n}.jsonl`, 'x');
    failFor('/many/', 403, 'InvalidObjectState');
    const { cursor, more } = await plan('huge', backfill);
    expect({ more, failed: planOf('huge')?.failedFiles?.length }).toEqual({ more: true, failed: 1_000 });
    expect(await plan('huge', backfill, cursor)).toMatchObject({ more: false });
    const summary = await summarizeRun({ storage: wire.storage, workBucket: WORK }, { name: 'huge', startTime: '' });
    expect(summary).toMatchObject({ objects: 1_103, failedFiles: { count: 1_100 }, lines: { planned: 9 } });
    expect(describeFailure(summary)).toMatchObject({ cause: expect.stringContaining('CaptureArchived') });
  });

  test('that may not be read is one of thousands if a permission is missing, which ends the run', async () => {
    for (let n = 0; n < 1_100; n += 1) wire.put(CAPTURES, `${HOUR}/many/${n}.jsonl`, 'x');
    failFor('/many/', 403, 'AccessDenied');
    await expect(plan('huge', backfill)).rejects.toMatchObject({ name: 'StorageAccessDenied' });
  });

  test('that is archived fails by name if an event names it, and can be retried after it was restored', async () => {
    failFor('b.jsonl', 403, 'InvalidObjectState');
    const summary = await run('direct', event(`${HOUR}/b.jsonl`));
    expect(summary).toMatchObject({ status: 'failed', failedFiles: { count: 1 }, lines: { planned: 0, lost: 0 } });
    expect(describeFailure(summary)).toMatchObject({ error: 'CaptureArchived' });
    wire.fault = () => undefined;
    expect(await run('restored', retry('direct', 'failed'))).toMatchObject({ lines: { traced: 3 } });
  });

  test('fails alone in a dry run too', async () => {
    // It is deleted after its lines were counted.
    const gets = () => wire.requests.filter(({ method, key }) => method === 'GET' && key.endsWith('b.jsonl')).length;
    wire.fault = ({ method, key }) => {
      const isGone = method === 'GET' && key.endsWith('b.jsonl') && gets() > 1;
      return isGone ? { kind: 'error', status: 404, code: 'NoSuchKey' } : undefined;
    };
    await plan('dry', { ...backfill, dryRun: true });
    expect(planOf('dry')).toMatchObject({
      outcome: 'dryRun',
      estimate: { captures: 6 },
      failedFiles: [{ key: `${HOUR}/b.jsonl` }],
    });
  });
});

test('loses no line when S3 sends too few bytes', async () => {
  wire.put(CAPTURES, `${HOUR}/a.jsonl`, lines('a', 1_000));
  wire.fault = ({ method, headers }) =>
    method === 'GET' && headers.range === undefined ? { kind: 'short', bytes: 5_000 } : undefined;
  expect(await run('short', event(`${HOUR}/a.jsonl`))).toMatchObject({ status: 'succeeded', lines: { traced: 1_000 } });
});

test('packs hundreds of small files into a few chunks, whose many ranges are objects of their own', async () => {
  for (let n = 0; n < 505; n += 1)
    wire.put(CAPTURES, `${HOUR}/${String(n).padStart(99, '0')}.jsonl`, lines(`f${n}`, 1));
  expect(await run('small', backfill)).toMatchObject({
    status: 'succeeded',
    objects: 505,
    chunks: { planned: 2, logged: 2 },
    lines: { planned: 505, traced: 505 },
  });
  const manifest = manifestOf('small');
  expect(manifest.map(({ lines, ranges, rangesIn }) => [lines, ranges.length, rangesIn !== undefined])).toEqual([
    [500, 0, true],
    [5, 5, false],
  ]);
});

describe('a list of files', () => {
  const KEY = 'starts/some.jsonl';
  const input = { files: { key: KEY } };
  const list = (files: object[]): void => {
    const named = files.map((file) => ({ bucket: CAPTURES, ...file }));
    wire.put(WORK, KEY, named.map((file) => `${JSON.stringify(file)}\n`).join(''));
  };
  const FILES = 130;
  const LINES_EACH = 4;
  /** More than a chunk has. */
  const LINES = FILES * LINES_EACH;
  const keys = Array.from({ length: FILES }, (_, n) => `${HOUR}/${String(n).padStart(4, '0')}.jsonl`);

  test('of many files is a run of two chunks, and the same list again is a duplicate while it runs', async () => {
    for (const key of keys) wire.put(CAPTURES, key, lines(key, LINES_EACH));
    list(keys.map((key) => ({ key })));
    const summary = await run('first', input);
    expect(summary).toMatchObject({
      status: 'succeeded',
      objects: FILES,
      chunks: { planned: 2 },
      lines: { traced: LINES },
    });
    running.add('arn:first');
    const again = await run('again', input);
    expect(again).toMatchObject({ status: 'duplicate', duplicateOf: 'first', duplicates: FILES, objects: 0 });
    running.clear();
    // Its traces are in MLflow; a real store says so.
    expect(await run('later', input)).toMatchObject({ status: 'succeeded', lines: { planned: LINES } });
  });

  test('leaves out the files of a running execution, and files that it has twice', async () => {
    for (const name of ['a', 'b', 'c']) wire.put(CAPTURES, `${HOUR}/${name}.jsonl`, lines(name, 1));
    await run('first', event(`${HOUR}/b.jsonl`));
    running.add('arn:first');
    list(['a', 'b', 'c', 'a'].map((name) => ({ key: `${HOUR}/${name}.jsonl` })));
    const summary = await run('second', input);
    expect(summary).toMatchObject({ status: 'succeeded', objects: 2, duplicates: 2, lines: { planned: 2, traced: 2 } });
    expect(keysOf(manifestOf('second'))).toEqual(['a', 'c'].map((name) => `${HOUR}/${name}.jsonl`));
  });

  test('names files that are missing, not captures or of another endpoint, and processes the others', async () => {
    wire.put(CAPTURES, `${HOUR}/a.jsonl`, lines('a', 1));
    list([`${HOUR}/a.jsonl`, `${HOUR}/gone.jsonl`, `${HOUR}/a.txt`, 'other/a.jsonl'].map((key) => ({ key })));
    const summary = await run('first', input);
    expect(summary).toMatchObject({ status: 'failed', lines: { traced: 1 }, failedFiles: { count: 3 } });
    expect(summary.failedFiles?.first.map(({ error }) => error.name)).toEqual([
      'CaptureMissing',
      'NotACaptureFile',
      'OutsideCaptureScope',
    ]);
  });

  test('is planned in parts, each file once', async () => {
    for (const key of keys.slice(0, 90)) wire.put(CAPTURES, key, lines(key, 1));
    list(keys.slice(0, 90).map((key) => ({ key })));
    let left = 31_000;
    remainingMs = () => {
      left -= 50;
      return left;
    };
    const first = await plan('long', input);
    expect(first.more).toBe(true);
    remainingMs = () => 900_000;
    const rest = await plan('long', input, first.cursor);
    expect(rest.more).toBe(false);
    const planned = manifestOf('long');
    expect(keysOf(planned).toSorted()).toEqual(keys.slice(0, 90));
  });

  test('that is missing or has other lines is an invalid input', async () => {
    await expect(plan('none', input)).rejects.toMatchObject({ name: 'InvalidInput' });
    wire.put(WORK, KEY, '{"key":1}\n');
    await expect(plan('odd', input)).rejects.toMatchObject({ name: 'InvalidInput' });
  });
});

describe('one object', () => {
  const key = `${HOUR}/many lines+ü.jsonl`;

  test('is planned as byte ranges that contain all of its lines, and with the cost of the judge if it is asked', async () => {
    const body = `${lines('a', 1201)}\n`;
    wire.put(CAPTURES, key, body);
    expect(await plan('many', event(key))).toMatchObject({
      outcome: 'planned',
      more: false,
      cursor: null,
      nextChunk: 3,
    });
    const chunks = manifestOf('many');
    expect(chunks.map(({ lines, ranges, chunk }) => [lines, ranges[0]?.firstLine, chunk])).toEqual([
      [500, 1, 0],
      [500, 501, 1],
      [201, 1001, 2],
    ]);
    const read = chunks.flatMap(({ ranges }) => ranges).map(({ start, end }) => body.slice(start, end + 1));
    expect(read.join('').trimEnd()).toBe(body.trimEnd());
    expect(new Set(chunks.map(({ experimentId }) => experimentId))).toEqual(new Set(['7']));
    expect(planOf('many')?.estimate).toMatchObject({ captures: 1201, inputTokens: expect.any(Number) });
    await plan('unjudged', { ...event(key), evaluate: false });
    expect(planOf('unjudged')).not.toHaveProperty('estimate');
  });

  test('is planned by exactly one of many executions at the same time', async () => {
    wire.put(CAPTURES, key, lines('a', 1));
    const names = Array.from({ length: 8 }, (_, n) => `race-${n}`);
    for (const name of names) running.add(`arn:${name}`);
    const outcomes = await Promise.all(names.map(async (name) => (await plan(name, event(key))).outcome));
    expect(outcomes.filter((outcome) => outcome === 'planned')).toHaveLength(1);
  });

  test('is not planned if it is empty', async () => {
    wire.put(CAPTURES, key, '');
    expect((await plan('empty', event(key))).outcome).toBe('empty');
  });

  const gone = { level: 'error', model: 'm', message: 'It has ended: set BEDROCK_MODEL_ID.' };
  const judgeError = { name: 'JudgeModelGone', message: expect.stringContaining('set BEDROCK_MODEL_ID') };
  test.each<[string, object | undefined, object, Partial<PlanRequest>, object]>([
    ['has an end-of-life date', { level: 'warning', message: 'It ends.' }, {}, {}, { warnings: ['It ends.'] }],
    ['is active', undefined, {}, {}, {}],
    ['has ended', gone, {}, {}, { judgeError, warnings: [gone.message] }],
    ['has ended, while nothing is judged', gone, { evaluate: false }, {}, {}],
    ['has ended, in a later part, where it is not checked', gone, {}, { part: 1 }, {}],
  ])('is planned though the judge’s model %s', async (_, check, more, request, expected) => {
    wire.put(CAPTURES, key, lines('a', 1));
    const checkJudgeModel = async () => check as never;
    await plan('model', { ...event(key), ...more }, null, { checkJudgeModel }, request);
    const planned = wire.json<PlanReceipt>(WORK, workKeys.plan('model', request.part ?? 0));
    const { warnings, judgeError } = planned ?? {};
    expect([planned?.outcome, { ...(warnings && { warnings }), ...(judgeError && { judgeError }) }]).toEqual([
      'planned',
      expected,
    ]);
  });
});

test.each([
  [{ ...backfill, bucket: 'other' }, 'OutsideCaptureScope'],
  [{ ...backfill, prefix: 'e-v2' }, 'OutsideCaptureScope'],
  [retry('never-was', 'failed'), 'RunUnknown'],
])('refuses %j by the name %s', async (input, name) => {
  await expect(plan('refused', input)).rejects.toMatchObject({ name });
});

test('passes the only chunk of a run on with the plan, and writes it to the manifest too', async () => {
  wire.put(CAPTURES, `${HOUR}/a.jsonl`, lines('a', 500));
  const { chunk } = await plan('one', event(`${HOUR}/a.jsonl`));
  const [line] = manifestOf('one');
  expect(chunk).toEqual(line);
  wire.put(CAPTURES, `${HOUR}/b.jsonl`, lines('b', 501));
  expect((await plan('two', event(`${HOUR}/b.jsonl`))).chunk).toBeUndefined();
});

test('warns of a backfill that matches nothing and of a retry with nothing to do', async () => {
  expect(await run('nothing', { ...backfill, from: '2027-01-01T00:00:00Z' })).toMatchObject({
    status: 'succeeded',
    objects: 0,
    warnings: [expect.stringMatching(/matches no capture file.*2027-01-01/)],
  });
  expect((await run('again', retry('nothing', 'failed'))).warnings).toHaveLength(1);
});

test('reads files outside of hour folders in a backfill with an end', async () => {
  const loose = ['e/AllTraffic/3f2a9c.jsonl', 'e/AllTraffic/9.jsonl', 'e/AllTraffic/2026/11/21/x.jsonl'];
  const hours = ['2026/11/20/10', '2026/11/21/00', '2026/11/21/23', '2027/01/01/00'];
  for (const key of [...loose, ...hours.map((hour) => `e/AllTraffic/${hour}/f.jsonl`)]) {
    wire.put(CAPTURES, key, lines(key, 1));
  }
  await plan('loose', { ...backfill, to: '2026-11-20T11:00:00Z' });
  const keys = keysOf(manifestOf('loose'));
  expect(keys).toEqual([
    'e/AllTraffic/2026/11/20/10/f.jsonl',
    'e/AllTraffic/2026/11/21/x.jsonl',
    'e/AllTraffic/3f2a9c.jsonl',
    'e/AllTraffic/9.jsonl',
  ]);
});

test('reads files outside of hour folders before the window, with two listings for each day before it', async () => {
  const hours = ['10/31/05', '11/15/03', '11/15/07', '11/19/00', '11/19/23', '11/20/01', '11/20/10', '11/20/11'];
  const loose = ['10/loose', '11/15/00x', '11/15/05x', '11/15/loose', '11/19/loose', '11/20/05x', '11/20/10x', 'loose'];
  const keyOf = (key: string) => `e/AllTraffic/2026/${key}.jsonl`;
  for (const key of [...loose, ...hours.map((hour) => `${hour}/f`)].map(keyOf)) wire.put(CAPTURES, key, lines(key, 1));
  await plan('before', { ...backfill, from: '2026-11-20T11:00:00Z', to: '2026-11-20T12:00:00Z' });
  const keys = keysOf(manifestOf('before'));
  expect(keys).toEqual([...loose, '11/20/10/f', '11/20/11/f'].map(keyOf).sort());
  const listings = wire.requests.filter(({ bucket, key }) => bucket === CAPTURES && key === '');
  expect(listings.length).toBeLessThanOrEqual(1 + 4 * 2);
});

describe('a dry run', () => {
  beforeEach(() => wire.put(CAPTURES, `${HOUR}/a.jsonl`, lines('a', 1_200)));

  test('of a long file ends in time, and estimates the rest by its size', async () => {
    let left = 900_000;
    remainingMs = () => {
      left -= 290_000;
      return left;
    };
    const result = await plan('dry', { ...event(`${HOUR}/a.jsonl`), dryRun: true });
    expect(result).toMatchObject({ outcome: 'dryRun', more: false });
    expect(planOf('dry')).toMatchObject({ lines: 1_200, chunks: 3, estimate: { captures: 1_200 } });
    const [, bySize] =
      /; for lack of time, (\d+) lines by their size alone$/.exec(planOf('dry')?.estimate?.basis ?? '') ?? [];
    expect([200, 700]).toContain(Number(bySize));
  });

  test('names a judge model that is gone. A run traces its captures, and fails by that name', async () => {
    const gone = { model: 'm', state: 'ended', level: 'error', message: 'm was retired' } as const;
    const more = { checkJudgeModel: async () => gone };
    const input = event(`${HOUR}/a.jsonl`);
    await plan('run', input, null, more);
    const summary = await summarizeRun({ storage: wire.storage, workBucket: WORK }, { name: 'run', startTime: '' });
    expect(describeFailure(summary)).toMatchObject({
      error: 'JudgeModelGone',
      cause: expect.stringMatching(/^JudgeModelGone: m was retired.*BEDROCK_MODEL_ID.*Retry with/s),
    });
    await plan('dry', { ...input, dryRun: true }, null, more);
    expect(planOf('dry')).toMatchObject({ warnings: ['m was retired'], judgeModelEnding: true });
  });

  test('and a run warn of a setting of the judge that has no effect, unless nothing is judged', async () => {
    const JUDGE_GUIDELINES = { safety: { text: 'It is kind.' } } as never;
    const BEDROCK_MODEL_ID = 'meta.llama3-3-70b-instruct-v1:0';
    const more = {
      environment: { ...environment, JUDGE_PREFIX: 'cached' as const, BEDROCK_MODEL_ID, JUDGE_GUIDELINES },
    };
    const input = event(`${HOUR}/a.jsonl`);
    await plan('warned', input, null, more);
    await plan('warned-dry', { ...input, dryRun: true }, null, more);
    await plan('quiet', { ...input, evaluate: false }, null, more);
    const warned = [expect.stringContaining('JUDGE_PREFIX=cached has no effect')];
    expect(planOf('warned')?.warnings).toEqual(warned);
    expect(planOf('warned-dry')?.warnings).toEqual(warned);
    expect(planOf('quiet')?.warnings).toBeUndefined();
  });

  test('has no equations', async () => {
    const summary = await run('dry', { ...event(`${HOUR}/a.jsonl`), dryRun: true });
    expect(summary).toMatchObject({ status: 'dryRun', equations: { lines: null, verdicts: null } });
  });
});

describe('the name of an execution that judges in batch', () => {
  const key = `${HOUR}/a.jsonl`;
  const batch = { ...event(key), judge: 'batch' };
  beforeEach(() => wire.put(CAPTURES, key, lines('a', 1)));

  test.each(['a=b', 'a+b', 'a@b', 'Prüfung', '試験'])('%s is refused before anything is planned', async (name) => {
    await expect(plan(name, batch)).rejects.toMatchObject({ name: 'RunNameNotForBatch' });
    expect(wire.keys(WORK)).toEqual([]);
    for (const input of [event(key), { ...batch, evaluate: false }, { ...batch, dryRun: true }]) {
      await expect(plan(name, input)).resolves.toMatchObject({ more: false });
    }
  });

  test.each(["a-b_c.d!e*f'(g)", '0f5c9a52-3c1b-2d1e_a7b7e2c1-51d2-4f6f'])('%s is accepted', async (name) => {
    await expect(plan(name, batch)).resolves.toMatchObject({ outcome: 'planned' });
    // By it, the captures are traced also if no job can be checked.
    expect(wire.lines(WORK, workKeys.batchManifest(name))).toEqual(manifestOf(name));
  });

  test('is also that of a retry, which takes over the judge of the earlier run', async () => {
    await plan('first', batch);
    await expect(plan('second=try', retry('first', 'failed'))).rejects.toMatchObject({ name: 'RunNameNotForBatch' });
  });
});

describe('two executions of one file at the same time', () => {
  const key = `${HOUR}/a.jsonl`;
  beforeEach(() => {
    wire.put(CAPTURES, key, lines('a', 1));
    running.add('arn:first');
  });

  test.each([
    [{ evaluate: false }, {}, 'planned'],
    [{ sampleRate: 0 }, {}, 'planned'],
    [{ budgetUsd: 0.01 }, {}, 'planned'],
    [{}, { reevaluate: true }, 'planned'],
    [{}, { judge: 'batch' }, 'planned'],
    [{}, { sampleRate: 1, reevaluate: false }, 'duplicate'],
    [{ evaluate: false }, { evaluate: false, budgetUsd: 1 }, 'duplicate'],
  ])('with the options %j and %j: the second is %s', async (first, second, outcome) => {
    expect((await plan('first', { ...event(key), ...first })).outcome).toBe('planned');
    expect((await plan('second', { ...event(key), ...second })).outcome).toBe(outcome);
  });

  describe('while Step Functions does not know the owner', () => {
    const aws = new AwsAnswers();
    const { env } = process;
    beforeEach(async () => {
      await aws.start();
      const keys = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b', AWS_REGION: 'eu-west-1' };
      process.env = { ...env, ...keys, AWS_ENDPOINT_URL: aws.url };
      aws.answers = {
        DescribeExecution: [400, { __type: 'ExecutionDoesNotExist', message: 'Execution Does Not Exist' }],
      };
    });
    afterEach(async () => {
      process.env = env;
      jest.restoreAllMocks();
      await aws.close();
    });
    const second = async () => {
      const { isRunning } = plannerOfLambda(environment);
      return (await plan('second', event(key), null, { isRunning })).outcome;
    };

    test('a new claim counts, since Step Functions may know its owner in a moment', async () => {
      expect((await plan('first', event(key))).outcome).toBe('planned');
      expect(await second()).toBe('duplicate');
    });

    test('an older claim does not, since its owner was deleted', async () => {
      expect((await plan('first', event(key))).outcome).toBe('planned');
      const now = Date.now();
      jest.spyOn(Date, 'now').mockReturnValue(now + 301_000);
      expect(await second()).toBe('planned');
    });
  });
});

describe('a file that was written twice in quick succession', () => {
  const key = `${HOUR}/a.jsonl`;

  test('is read in the version of its event if the bucket has versioning', async () => {
    wire.put(CAPTURES, key, lines('old', 2), { versionId: 'v1' });
    wire.put(CAPTURES, key, lines('new', 3), { versionId: 'v2' });
    expect(await run('one', event(key, { 'version-id': 'v1' }))).toMatchObject({ lines: { traced: 2 } });
    expect(await run('two', event(key, { 'version-id': 'v2' }))).toMatchObject({ lines: { traced: 3 } });
    const { failedFiles } = await run('three', event(key, { 'version-id': 'v3' }));
    const error = { name: 'CaptureMissing', message: expect.stringContaining('version v3') };
    expect(failedFiles?.first).toMatchObject([{ key, versionId: 'v3', error }]);
  });

  test('causes a warning if the bucket has no versioning', async () => {
    wire.put(CAPTURES, key, lines('new', 3));
    const etag = (await wire.storage.head(CAPTURES, key))?.etag;
    const summary = await run('late', event(key, { etag: 'earlier' }));
    expect(summary).toMatchObject({ status: 'succeeded', warnings: [expect.stringContaining('etag earlier, now')] });
    expect(summary).not.toHaveProperty('judgeModelEnding');
    expect(await run('in-time', event(key, { etag }))).not.toHaveProperty('warnings');
  });
});

describe('quarantined lines', () => {
  const key = `${HOUR}/a.jsonl`;
  const text = `not json\r\n{"a":1}\n${lines('good', 1)}also not\n`;
  const at = (n: number) => workKeys.quarantine('first', n);

  beforeEach(async () => {
    wire.put(CAPTURES, key, text);
    await run('first', { ...event(key), sampleRate: 0.5 });
  });

  test('are retried from their stored bytes and options when everything else has expired', async () => {
    for (const name of wire.keys(WORK).filter((name) => name.startsWith('runs/'))) wire.remove(WORK, name);
    wire.remove(CAPTURES, key);
    const summary = await run('later', retry('first', 'quarantined'));
    expect(summary).toMatchObject({ status: 'succeeded', lines: { planned: 3, quarantined: 3, lost: 0 } });
    expect(summary.options).toMatchObject({ sampleRate: 0.5 });
    const places = (name: string) =>
      wire
        .keys(WORK)
        .filter((one) => one.startsWith(areaOf('quarantine', name)))
        .flatMap((one) => wire.lines<QuarantineEntry>(WORK, one))
        .map(({ line: number, start, end, etag, base64, reason }) => ({ number, start, end, etag, base64, reason }));
    expect(places('later')).toEqual(places('first'));
  });

  test('of a direct invocation can be retried', async () => {
    const deps = { ...logDependencies(), requestId: 'abc' };
    await forEachChunkOf({ bucket: CAPTURES, key }, deps, '7', async (request) => {
      await logChunk(request, logDependencies());
    });
    expect(await run('later', retry('invoke-abc', 'quarantined'))).toMatchObject({ lines: { planned: 3 } });
  });

  test('without stored bytes fail by name when their file was deleted', async () => {
    const [entry] = wire.lines<QuarantineEntry>(WORK, at(0));
    wire.put(WORK, at(0), JSON.stringify({ ...entry, base64: undefined }));
    wire.remove(CAPTURES, key);
    expect((await run('later', retry('first', 'quarantined'))).failedChunks).toMatchObject([
      { error: { name: 'CaptureMissing' } },
    ]);
  });

  test('of an earlier execution forbid a new execution of the same name', async () => {
    const old = new Date(Date.now() - 91 * 86_400_000);
    wire.put(WORK, at(0), wire.text(WORK, at(0)) ?? '', { modified: old });
    await expect(plan('first', event(key))).rejects.toMatchObject({ name: 'RunNameTaken' });
    await expect(plan('other', event(key))).resolves.toMatchObject({ outcome: 'planned' });
  });
});

describe('a retry', () => {
  const options = async (name: string, input: object): Promise<RunOptions> => (await plan(name, input)).options;
  beforeEach(() => wire.put(CAPTURES, `${HOUR}/a.jsonl`, lines('a', 1)));

  test('continues a run, with its re-evaluation, and lists the runs of the chain', async () => {
    await plan('anew', { ...backfill, reevaluate: true });
    const first = await options('second', retry('anew', 'failed'));
    expect(first).toMatchObject({ reevaluate: true, continues: ['anew'] });
    expect(await options('third', retry('second', 'held'))).toMatchObject({
      reevaluate: true,
      continues: ['anew', 'second'],
    });
    expect(await options('off', { ...retry('anew', 'failed'), reevaluate: false })).toMatchObject({
      reevaluate: false,
    });
    await plan('usual', backfill);
    expect(await options('again', retry('usual', 'failed'))).toMatchObject({ continues: ['usual'] });
    const anew = await options('judged-anew', { ...retry('again', 'failed'), reevaluate: true });
    expect(anew).toMatchObject({ reevaluate: true });
    expect(anew).not.toHaveProperty('continues');
  });

  test('of `failed` runs only chunks again that have failed verdicts or no receipt', async () => {
    // Too long to share a chunk.
    for (const name of ['a', 'b', 'c']) wire.put(CAPTURES, `${HOUR}/${name}.jsonl`, lines(name, 300));
    await plan('first', backfill);
    const done = { run: 'first', attempt: 0, requestId: 'q', startedAt: '1', endedAt: '2', ok: true };
    for (const chunk of [0, 1]) {
      const counts = { ...NO_VERDICT_COUNTS, failed: chunk };
      const log = { ...done, chunk, step: 'log' };
      const evaluated = JSON.stringify({ ...done, chunk, step: 'evaluate', counts, log });
      wire.put(WORK, workKeys.receipt('first', chunk, 'evaluate', 0, 'q'), evaluated);
    }
    await plan('again', retry('first', 'failed'));
    const again = manifestOf('again');
    expect(keysOf(again)).toEqual([`${HOUR}/b.jsonl`, `${HOUR}/c.jsonl`]);
    // The second chunk has all of its traces.
    expect(again.map(({ traced }) => traced)).toEqual([true, undefined]);
    expect((await plan('third', retry('again', 'failed'))).options.continues).toEqual(['first', 'again']);
  });

  test('of `failed` runs only the files again that a chunk could not read', async () => {
    for (const name of ['b', 'c']) wire.put(CAPTURES, `${HOUR}/${name}.jsonl`, lines(name, 2));
    const gone = (): void => wire.remove(CAPTURES, `${HOUR}/b.jsonl`);
    const first = await run('first', backfill, gone);
    expect(first).toMatchObject({ status: 'failed', lines: { planned: 5, traced: 3, lost: 2 } });
    expect(first.failedChunks).toMatchObject([
      { chunk: 0, step: 'log', key: `${HOUR}/b.jsonl`, lines: 2, error: { name: 'CaptureMissing' } },
    ]);
    expect(describeFailure(first).cause).toMatch(/2 of 5 lines .* chunk 0 \(log\): CaptureMissing/);
    expect(await run('again', retry('first', 'failed'))).toMatchObject({ lines: { planned: 2, traced: 0, lost: 2 } });
    expect(keysOf(manifestOf('again'))).toEqual([`${HOUR}/b.jsonl`]);
  });

  describe('of `failed` over a file that was overwritten under the run', () => {
    const [key, other] = [`${HOUR}/a.jsonl`, `${HOUR}/b.jsonl`];
    const overwritten = (by: string) => run('first', backfill, () => wire.put(CAPTURES, key, by));

    test.each([
      ['alone', 3, []],
      ['with another file in its chunk', 3, [other]],
      ['in several chunks', 1_200, []],
    ])('processes it as it is now if it grew: %s', async (_, count, others) => {
      wire.put(CAPTURES, key, lines('a', count));
      for (const one of others) wire.put(CAPTURES, one, lines('b', 2));
      const first = await overwritten(lines('a', count + 2));
      expect(first).toMatchObject({ status: 'failed', lines: { lost: count } });
      expect(await run('again', retry('first', 'failed'))).toMatchObject({
        status: 'succeeded',
        lines: { planned: count + 2, traced: count + 2, lost: 0 },
      });
      expect(new Set(traces.map(({ traceId }) => traceId)).size).toBe(count + 2 + 2 * others.length);
    });

    test('also if its last line had no ending', async () => {
      wire.put(CAPTURES, key, lines('a', 3).trimEnd());
      await overwritten(lines('a', 4));
      expect(await run('again', retry('first', 'failed'))).toMatchObject({ lines: { planned: 4, traced: 4 } });
    });

    test.each([
      ['with other lines', () => lines('other', 4)],
      ['with fewer lines', () => lines('a', 2)],
    ])('loses its lines by name if it was overwritten %s', async (_, by) => {
      wire.put(CAPTURES, key, lines('a', 3));
      await overwritten(by());
      const again = await run('again', retry('first', 'failed'));
      expect(again).toMatchObject({ status: 'failed', lines: { planned: 3, traced: 0, lost: 3 } });
      expect(again.failedChunks).toMatchObject([{ key, error: { name: 'CaptureChanged' } }]);
    });
  });

  test('of `held` does not take over the budget, and warns of it', async () => {
    await plan('poor', { ...backfill, budgetUsd: 0.05 });
    expect(await options('freed', retry('poor', 'held'))).not.toHaveProperty('budgetUsd');
    expect(planOf('freed')?.warnings).toContainEqual(
      expect.stringContaining('does not take over the budget of poor, 0.05 dollars'),
    );
    expect(await options('richer', { ...retry('poor', 'held'), budgetUsd: 5 })).toMatchObject({ budgetUsd: 5 });
    expect(await options('same', retry('poor', 'failed'))).toMatchObject({ budgetUsd: 0.05 });
  });
});

describe('a run over a replay', () => {
  const input = { replay: { run: 'replayed', experimentId: '99' } };

  beforeEach(() => {
    for (const shard of [0, 1]) wire.put(WORK, replayKeys.exchanges('replayed', shard), lines(`s${shard}-`, 3));
    wire.put(WORK, replayKeys.exchanges('replayed-2', 0), lines('other', 3));
    wire.put(CAPTURES, `${HOUR}/a.jsonl`, lines('a', 1));
  });

  test('plans the exchanges of that replay alone, for its own experiment, and one question about each', async () => {
    const resolveExperiment = () => Promise.reject(new Error('not needed'));
    await plan('judging', input, null, { scorers: 9, store: { resolveExperiment } });
    const manifest = manifestOf('judging');
    expect(keysOf(manifest)).toEqual([0, 1].map((shard) => replayKeys.exchanges('replayed', shard)));
    expect(new Set(manifest.map(({ experimentId }) => experimentId))).toEqual(new Set(['99']));
    expect(planOf('judging')).toMatchObject({ outcome: 'planned', scorers: 1, options: { ...input, sampleRate: 1 } });
    // The sizes of lines do not tell how many replies differ.
    expect(planOf('judging')).not.toHaveProperty('estimate');
  });

  test('is retried as one over that replay', async () => {
    await plan('judging', input);
    await plan('again', retry('judging', 'failed'));
    const options = { ...input, continues: ['judging'] };
    expect(planOf('again')).toMatchObject({ outcome: 'planned', scorers: 1, options });
    expect(keysOf(manifestOf('again'))).toEqual(keysOf(manifestOf('judging')));
  });

  test.each([{ judge: 'batch' }, { dryRun: true }])('is not retried with %j', async (more) => {
    await plan('judging', input);
    await expect(plan('again', { ...retry('judging', 'failed'), ...more })).rejects.toMatchObject({
      name: 'InvalidInput',
      message: expect.stringContaining('A run over a replay has no dry run, and no batch inference'),
    });
    expect(wire.keys(WORK).filter((key) => key.startsWith(areaOf('plan', 'again')))).toEqual([]);
  });
});
