/** Tests of writing traces together with their verdicts, on servers that refuse, fail or are changed by people meanwhile. */
import type { S3Client } from '@aws-sdk/client-s3';
import { RUN_TAG } from '../../../src/captures/trace/ids.ts';
import type { TraceRecord } from '../../../src/captures/trace/types.ts';
import type { NewAssessment } from '../../../src/mlflow/types.ts';
import type { SeenRequest } from '../../doubles/misbehaving-server.ts';
import { chatTrace, DELETE, EXPERIMENT, idsOf, OTLP, POST, traces, verdict } from '../../helpers/mlflow-traces.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';

const VERSIONS = ['3.10.1', '3.17.2'];
const NOTHING = { written: [], alreadyThere: [], bare: [], refused: [] };

const mlflow = useScriptedMlflow({ retry: { baseMs: 2, capMs: 5 }, timeoutMs: 5_000 });

/** A clock that only the test sets forward. */
function stoppedClock() {
  const clock = { now: 1_800_000_000_000 };
  jest.spyOn(Date, 'now').mockImplementation(() => clock.now);
  return clock;
}
afterEach(() => jest.restoreAllMocks());

const verdictsOf = ({ traceId }: { traceId: string }): NewAssessment[] =>
  ['safety', 'fluency'].map((name) => verdict(traceId, name));
const judged = (records: readonly TraceRecord[]) => new Map(records.map((trace) => [trace.traceId, verdictsOf(trace)]));

function write(records: TraceRecord[], assessmentsOf = judged(records)) {
  mlflow.server.expect(idsOf(records));
  return mlflow.client.writeTraces(EXPERIMENT, records, assessmentsOf);
}
const isRead = ({ path }: SeenRequest) => /traces\/search/.test(path);
const posted = (): string[] =>
  mlflow.server.to(POST).map(({ body }) => JSON.parse(body.toString()).trace.trace_info.trace_id as string);
const storedVerdicts = (traceId: string) =>
  mlflow.server.stored.get(traceId)?.assessments.map(({ assessment_id: id }) => id);
const bothVerdicts = (traceId: string) => verdictsOf({ traceId }).map(({ assessmentId }) => assessmentId);
/** The OTLP requests with spans. One without asks whether the route exists. */
const hasSpans = ({ path, body }: SeenRequest): boolean => path === OTLP && body.length > 0;
const spanRequests = () => mlflow.server.requests.filter(hasSpans);

/** How far the clock goes with each post. */
const STEP_MS = 500;

describe.each(VERSIONS)('MLflow %s', (version) => {
  beforeEach(() => mlflow.start(version));

  test('each trace is posted once, with its verdicts', async () => {
    const records = traces(250);
    const result = await write(records);
    expect({ ...result, written: result.written.sort() }).toEqual({ ...NOTHING, written: idsOf(records) });
    expect(posted().sort()).toEqual(idsOf(records));
    for (const { traceId } of records) expect(storedVerdicts(traceId)).toEqual(bothVerdicts(traceId));
    const requests = mlflow.server.requests.filter(({ path }) => !path.includes('/mlflow-artifacts/'));
    expect(requests.length).toBeLessThanOrEqual(1.2 * records.length);
  });

  test('a trace that exists is not posted', async () => {
    const records = traces(5);
    const [first] = idsOf(records);
    mlflow.server.taken.set(first ?? '', 1);
    const result = await write(records);
    expect(result).toMatchObject({ alreadyThere: [first], bare: [], refused: [] });
    expect(posted().sort()).toEqual(idsOf(records).slice(1));
  });

  test('a trace is posted at most 5 s after a read that did not find it', async () => {
    const records = traces(60);
    const clock = stoppedClock();
    const readAt = new Map<string, number>();
    const ages: number[] = [];
    mlflow.server.fault((request) => {
      if (isRead(request)) for (const { traceId } of records) readAt.set(traceId, clock.now);
      if (request.path !== POST) return undefined;
      for (const traceId of mlflow.server.tracesOf(request)) ages.push(clock.now - (readAt.get(traceId) ?? 0));
      clock.now += STEP_MS;
      return ages.length % 7 === 0 ? { kind: 'reply', status: 429 } : undefined;
    });
    await write(records);
    expect(ages.length).toBeGreaterThan(records.length);
    // The clock advances while a read and a post are on their way, by the three other posts that may arrive meanwhile.
    expect(Math.max(...ages)).toBeLessThanOrEqual(5_000 + 2 * 3 * STEP_MS);
    expect(mlflow.server.requests.filter(isRead).length).toBeGreaterThan(5);
  });

  test.each(['cut', 'reply'] as const)('a post with an unknown outcome (%s) is not sent again', async (kind) => {
    const records = traces(4);
    let times = 0;
    mlflow.server.fault((request) => {
      if (request.path !== POST || times++ % 2 > 0) return undefined;
      mlflow.server.take(request);
      return kind === 'cut' ? { kind } : { kind, status: 500 };
    });
    expect((await write(records)).written.sort()).toEqual(idsOf(records));
    expect(posted().sort()).toEqual(idsOf(records));
  });

  test('a trace that another run wrote, while the reply was lost, is left to the caller', async () => {
    const [plain] = traces(1) as [TraceRecord];
    const one = { ...plain, tags: { ...plain.tags, [RUN_TAG]: 'this-run' } };
    mlflow.server.fault((request) => {
      if (request.path !== POST) return undefined;
      mlflow.server.taken.set(one.traceId, 1);
      mlflow.server.stored.set(one.traceId, { tags: { [RUN_TAG]: 'other-run' }, assessments: [] });
      return { kind: 'cut' };
    });
    expect(await write([one])).toEqual({ ...NOTHING, alreadyThere: [one.traceId] });
    expect(posted()).toHaveLength(1);
  });

  test.each([400, 500])('a trace whose verdicts are refused with %i is written without them', async (status) => {
    const records = traces(6);
    const odd = records[3]?.traceId ?? '';
    const isOdd = ({ path, body }: SeenRequest) =>
      path === POST && body.includes(odd) && body.includes('assessment_id');
    mlflow.server.refuse(isOdd, status, 'no such source');
    const result = await write(records);
    expect(result).toMatchObject({ alreadyThere: [], bare: [odd], refused: [] });
    expect(result.written.sort()).toEqual(idsOf(records));
    expect(storedVerdicts(odd)).toEqual([]);
    expect(mlflow.server.stored.size).toBe(records.length);
  });

  test('a trace that is refused with and without verdicts is refused once', async () => {
    const records = traces(6);
    const odd = records[3]?.traceId ?? '';
    const isOdd = (request: SeenRequest) =>
      [POST, OTLP].includes(request.path) && mlflow.server.tracesOf(request).includes(odd);
    mlflow.server.refuse(isOdd, 400, 'no');
    const result = await write(records);
    expect(result.refused).toEqual([{ traceId: odd, reason: expect.objectContaining({ name: 'MlflowRefused' }) }]);
    expect(result.written).toHaveLength(5);
    expect(result.bare).toEqual([]);
  });

  test('traces without verdicts are written with the others', async () => {
    const records = traces(6);
    const some = judged(records.slice(2));
    expect((await write(records, some)).written.sort()).toEqual(idsOf(records));
    for (const { traceId } of records) {
      expect(storedVerdicts(traceId)).toEqual(some.has(traceId) ? bothVerdicts(traceId) : []);
    }
  });
});

test('a trace that another run writes while its file is put for longer than 5 s is not posted', async () => {
  await mlflow.start('3.10.1');
  const clock = stoppedClock();
  const [one] = traces(1) as [TraceRecord];
  mlflow.server.fault(({ method }) => {
    if (method !== 'PUT') return undefined;
    clock.now += 6_000;
    mlflow.server.taken.set(one.traceId, 1);
    return undefined;
  });
  expect(await write([one])).toMatchObject({ written: [], alreadyThere: [one.traceId] });
  expect(posted()).toEqual([]);
});

test('a trace that another run writes while a post waits for the rate limit of the stack is not posted', async () => {
  await mlflow.start('3.10.1');
  const clock = stoppedClock();
  const [one] = traces(1) as [TraceRecord];
  let taken = 0;
  const acquire = async () => {
    taken += 1;
    // After the file of spans was read back, it is that of the post.
    const last = mlflow.server.requests.at(-1);
    if (last?.method !== 'GET' || !last.path.includes(one.traceId)) return;
    clock.now += 6_000;
    mlflow.server.taken.set(one.traceId, 1);
  };
  const limited = mlflow.connect({ limits: { rate: { acquire } } });
  mlflow.server.expect([one.traceId]);
  const result = await limited.writeTraces(EXPERIMENT, [one], judged([one]));
  expect(result).toMatchObject({ written: [], alreadyThere: [one.traceId] });
  expect(posted()).toEqual([]);
  // One more than the requests: the wait of the post that was not made.
  expect(taken).toBe(mlflow.server.requests.length + 1);
});

test('files are put into S3 while three other traces are posted, so MLflow does not wait for S3', async () => {
  await mlflow.start('3.10.1');
  const put: string[] = [];
  const send = async ({ input }: { input: { Key: string } }) => void put.push(input.Key);
  const client = mlflow.connect({ s3: { send } as unknown as S3Client });
  const records = traces(12);
  mlflow.server.expect(idsOf(records));
  let free: () => void = () => {};
  const freed = new Promise<void>((resolve) => (free = resolve));
  mlflow.server.fault((request) =>
    request.path === POST ? { kind: 'after', work: () => freed, next: mlflow.server.take(request) } : undefined,
  );
  const inS3 = { ...EXPERIMENT, artifactLocation: 's3://bucket/7' };
  const writing = client.writeTraces(inS3, records, judged(records));
  while (posted().length < 3 || put.length < 8) await new Promise((resolve) => setTimeout(resolve, 5));
  // Time for more, if they were not bounded.
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect([posted().length, put.length]).toEqual([3, 8]);
  free();
  expect((await writing).written.sort()).toEqual(idsOf(records));
});

test('every request waits once for the rate limit', async () => {
  await mlflow.start('3.17.2');
  let taken = 0;
  const acquire = async () => {
    taken += 1;
  };
  const limited = mlflow.connect({ limits: { rate: { acquire } } });
  const records = traces(5);
  mlflow.server.expect(idsOf(records));
  await limited.writeTraces(EXPERIMENT, records, judged(records.slice(2)));
  expect(taken).toBe(mlflow.server.requests.length);
});

describe('by OTLP', () => {
  beforeEach(() => mlflow.start('3.17.2'));

  test('the spans follow the posts, 100 traces in a request, without tags that a person may have changed', async () => {
    const records = traces(250);
    await write(records);
    expect(spanRequests().map((request) => mlflow.server.tracesOf(request).length)).toEqual([100, 100, 50]);
    for (const { body } of spanRequests()) expect(body.includes('mlflow.traceTag.')).toBe(false);
    expect([...mlflow.server.files.keys()]).toEqual([]);
  });

  test('a trace that a person deletes before its spans are sent is not recreated', async () => {
    const records = traces(3);
    const [gone = '', ...kept] = idsOf(records);
    let reads = 0;
    mlflow.server.fault((request) => {
      if (isRead(request)) reads += 1;
      // The second read comes just before the spans.
      if (isRead(request) && reads === 2) {
        mlflow.server.taken.delete(gone);
        mlflow.server.stored.delete(gone);
      }
      return undefined;
    });
    expect((await write(records)).written.sort()).toEqual(idsOf(records));
    expect([...mlflow.server.stored.keys()].sort()).toEqual(kept);
    expect(mlflow.server.tracesOf(spanRequests()[0] as SeenRequest).sort()).toEqual(kept);
  });

  test('a trace that a person deletes while its spans are sent is deleted again', async () => {
    const records = traces(3);
    const [gone = '', ...kept] = idsOf(records);
    mlflow.server.fault((request) => {
      if (!hasSpans(request)) return undefined;
      mlflow.server.taken.delete(gone);
      mlflow.server.stored.delete(gone);
      return undefined;
    });
    expect((await write(records)).written.sort()).toEqual(idsOf(records));
    expect([...mlflow.server.stored.keys()].sort()).toEqual(kept);
    expect(mlflow.server.to(DELETE).map(({ body }) => JSON.parse(body.toString()).request_ids)).toEqual([[gone]]);
  });

  test('spans that could not be sent are added by the next attempt, and those that exist are not sent again', async () => {
    const records = traces(4);
    mlflow.server.expect(idsOf(records));
    mlflow.server.refuse(hasSpans, 503);
    const impatient = mlflow.connect({ retry: { baseMs: 1, capMs: 1, attempts: 2 } });
    await expect(impatient.writeTraces(EXPERIMENT, records, judged(records))).rejects.toMatchObject({
      name: 'MlflowUnavailable',
    });
    mlflow.server.fault(() => undefined);
    const others = [chatTrace('7', 'another')];
    mlflow.server.expect(idsOf([...records, ...others]));
    await mlflow.client.writeTraces(EXPERIMENT, others, judged(others));
    const before = spanRequests().length;
    expect(await mlflow.client.mendTraces(EXPERIMENT, [...records, ...others])).toEqual([]);
    expect(await mlflow.client.mendTraces(EXPERIMENT, [...records, ...others])).toEqual([]);
    const sent = spanRequests().slice(before);
    expect(sent.map((request) => mlflow.server.tracesOf(request).sort())).toEqual([idsOf(records)]);
    for (const { traceId } of records) expect(storedVerdicts(traceId)).toEqual(bothVerdicts(traceId));
  });

  test('a trace whose spans are refused is deleted, also by the next attempt', async () => {
    const records = traces(4);
    const odd = records[1]?.traceId ?? '';
    mlflow.server.expect(idsOf(records));
    const hasSpansOf = (traceId: string) => (request: SeenRequest) =>
      request.path === OTLP && mlflow.server.tracesOf(request).includes(traceId);
    mlflow.server.refuse(hasSpansOf(odd), 503);
    const impatient = mlflow.connect({ retry: { baseMs: 1, capMs: 1, attempts: 2 } });
    await expect(impatient.writeTraces(EXPERIMENT, records, judged(records))).rejects.toThrow();
    mlflow.server.refuse(hasSpansOf(odd), 413);
    expect(await mlflow.client.mendTraces(EXPERIMENT, records)).toEqual([
      { traceId: odd, reason: expect.objectContaining({ name: 'MlflowRefused' }) },
    ]);
    expect([...mlflow.server.stored.keys()].sort()).toEqual(idsOf(records).filter((id) => id !== odd));
    const others = traces(4).map((trace) => ({ ...trace, traceId: trace.traceId.replace(/....$/, 'ffff') }));
    const other = others[1]?.traceId ?? '';
    mlflow.server.refuse(hasSpansOf(other), 413);
    expect((await write(others)).refused.map(({ traceId }) => traceId)).toEqual([other]);
    expect(mlflow.server.stored.has(other)).toBe(false);
  });

  test.each([404, 501])('the spans are put as files if the route is missing (%i), before any post', async (status) => {
    mlflow.server.refuse(({ path }) => path === OTLP, status);
    const records = traces(3);
    expect((await write(records)).written.sort()).toEqual(idsOf(records));
    expect(mlflow.server.files.size).toBe(3);
    for (const { body } of mlflow.server.to(POST)) expect(body.includes('request_preview')).toBe(true);
    for (const { traceId } of records) expect(storedVerdicts(traceId)).toEqual(bothVerdicts(traceId));
  });

  test('the spans of posted traces are put as files if the route disappears', async () => {
    mlflow.server.refuse(hasSpans, 404);
    const records = traces(3);
    expect((await write(records)).written.sort()).toEqual(idsOf(records));
    expect(posted()).toHaveLength(3);
    expect(mlflow.server.files.size).toBe(3);
  });
});
