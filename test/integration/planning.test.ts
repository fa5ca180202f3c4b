/** Planning against emulated S3: the files, the byte ranges, the parts, and the claim. */
import { CreateBucketCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { type AwsClients, destroyClients } from '../../bin/operate/aws-clients.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { ManifestLine, PlanRequest, PlanResult } from '../../src/core/contract/payloads.ts';
import type { PlanReceipt } from '../../src/core/contract/receipts.ts';
import type { ModelCheck } from '../../src/judge/model-check.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import type { PlannerDependencies } from '../../src/monitoring/plan/types.ts';
import { testEnvironment } from '../helpers/test-environment.ts';

const CAPTURES = 'captures';
const WORK = 'work';
const line = (second: number, text = 'hello') =>
  JSON.stringify({
    captureData: {
      endpointInput: {
        observedContentType: 'application/json',
        mode: 'INPUT',
        data: `{"inputs":"${text}"}`,
        encoding: 'JSON',
      },
    },
    eventMetadata: {
      eventId: `e${second}`,
      inferenceTime: new Date(Date.UTC(2026, 10, 20, 10, 0, second)).toISOString(),
    },
    eventVersion: '0',
  });

let ministack: MiniStack;
let clients: AwsClients;
let s3: S3Client;
let dependencies: PlannerDependencies;
const running = new Set<string>();

beforeAll(async () => {
  ministack = await startMiniStack();
  clients = emulatedClients(ministack);
  s3 = clients.s3;
  for (const Bucket of [CAPTURES, WORK]) await s3.send(new CreateBucketCommand({ Bucket }));
  dependencies = {
    storage: new Storage(s3),
    environment: testEnvironment({
      WORK_BUCKET: WORK,
      DATA_CAPTURE_S3_BUCKET: CAPTURES,
      DATA_CAPTURE_S3_PREFIX: 'my-endpoint/',
    }),
    store: { resolveExperiment: async (name) => ({ id: '7', name, artifactLocation: 'mlflow-artifacts:/7' }) },
    isRunning: async (arn) => running.has(arn),
    scorers: 11,
    checkJudgeModel: async () => undefined,
    remainingMs: () => 900_000,
  };
});

afterAll(async () => {
  if (clients) destroyClients(clients);
  await ministack?.stop();
});

const put = (Key: string, Body: string) => s3.send(new PutObjectCommand({ Bucket: CAPTURES, Key, Body }));

const request = (name: string, input: unknown, more: Partial<PlanRequest> = {}): PlanRequest => ({
  input,
  run: { name, arn: `arn:${name}`, startTime: '2026-11-20T12:00:00Z' },
  part: 0,
  nextChunk: 0,
  cursor: null,
  ...more,
});

const event = (key: string) => ({ detail: { bucket: { name: CAPTURES }, object: { key } } });

async function manifestOf({ chunk, manifest }: PlanResult): Promise<ManifestLine[]> {
  if (chunk !== undefined) return [chunk];
  return manifest === undefined ? [] : dependencies.storage.getJsonLines(manifest.bucket, manifest.key);
}

const plannedKeys = async (result: PlanResult) =>
  (await manifestOf(result)).flatMap(({ ranges }) => ranges.map(({ key }) => key));

describe('one object', () => {
  test('is planned as byte ranges that contain all of its lines', async () => {
    const key = 'my-endpoint/AllTraffic/2026/11/20/10/many lines+ü.jsonl';
    const body = `${Array.from({ length: 1201 }, (_, n) => line(n)).join('\n')}\n\n`;
    await put(key, body);
    const result = await planCaptures(request('many', event(key)), dependencies);
    expect(result).toMatchObject({ outcome: 'planned', more: false, cursor: null, nextChunk: 3 });
    const chunks = await manifestOf(result);
    expect(chunks.map(({ lines, ranges, chunk }) => [lines, ranges[0]?.firstLine, chunk])).toEqual([
      [500, 1, 0],
      [500, 501, 1],
      [201, 1001, 2],
    ]);
    const bytes = Buffer.from(body);
    const ranges = chunks.flatMap((chunk) => chunk.ranges);
    const read = ranges.map(({ start, end }) => bytes.subarray(start, end + 1).toString()).join('');
    expect(read.trimEnd()).toBe(body.trimEnd());
    expect(new Set(chunks.map(({ experimentId }) => experimentId))).toEqual(new Set(['7']));
    // The plan estimates the cost of the judge, and has no estimate without evaluation.
    const plan = await dependencies.storage.getJson<PlanReceipt>(WORK, 'runs/many/plan/00000000.json');
    expect(plan?.estimate).toMatchObject({ captures: 1201, inputTokens: expect.any(Number) });
    await planCaptures(request('unjudged', { ...event(key), evaluate: false }), dependencies);
    expect(await dependencies.storage.getJson(WORK, 'runs/unjudged/plan/00000000.json')).not.toHaveProperty('estimate');
  });

  test('is not planned if it is empty', async () => {
    await put('my-endpoint/empty.jsonl', '');
    const result = await planCaptures(request('empty', event('my-endpoint/empty.jsonl')), dependencies);
    expect(result.outcome).toBe('empty');
  });

  test.each([
    ['my-endpoint/missing.jsonl', 'CaptureMissing'],
    ['my-endpoint/notes.txt', 'NotACaptureFile'],
    ['my-endpoint-v2/a.jsonl', 'OutsideCaptureScope'],
  ])('%s fails by the name %s', async (key, name) => {
    expect(await planCaptures(request(name, event(key)), dependencies)).toMatchObject({ outcome: 'empty' });
    const plan = await dependencies.storage.getJson(WORK, `runs/${name}/plan/00000000.json`);
    expect(plan).toMatchObject({ failedFiles: [{ key, error: { name } }] });
  });

  test('is planned by exactly one of many executions at the same time', async () => {
    await put('my-endpoint/race.jsonl', line(1));
    const names = Array.from({ length: 8 }, (_, n) => `race-${n}`);
    for (const name of names) running.add(`arn:${name}`);
    const outcomes = await Promise.all(
      names.map(
        async (name) => (await planCaptures(request(name, event('my-endpoint/race.jsonl')), dependencies)).outcome,
      ),
    );
    expect(outcomes.filter((outcome) => outcome === 'planned')).toHaveLength(1);
    running.clear();
  });
});

describe('the judge’s model', () => {
  const key = 'my-endpoint/model.jsonl';
  const withModel = (check: Partial<ModelCheck> | undefined) => ({
    ...dependencies,
    checkJudgeModel: async () => check as ModelCheck | undefined,
  });
  const legacy = { level: 'warning', message: 'It ends on 2027-01-31.' } as const;
  const gone = { level: 'error', model: 'm', message: 'It has ended: set BEDROCK_MODEL_ID to a newer model.' } as const;
  const planOf = (run: string) => dependencies.storage.getJson<PlanReceipt>(WORK, `runs/${run}/plan/00000000.json`);

  beforeAll(() => put(key, line(1)));

  test('causes a warning if it has an end-of-life date, and the run continues', async () => {
    expect((await planCaptures(request('legacy', event(key)), withModel(legacy))).outcome).toBe('planned');
    expect((await planOf('legacy'))?.warnings).toEqual([legacy.message]);
    expect((await planCaptures(request('active', event(key)), withModel(undefined))).outcome).toBe('planned');
    expect(await planOf('active')).not.toHaveProperty('warnings');
  });

  test('stops no run if it has ended: the plan says why there will be no verdicts, unless nothing is judged', async () => {
    expect((await planCaptures(request('gone', event(key)), withModel(gone))).outcome).toBe('planned');
    const judgeError = { name: 'JudgeModelGone', message: expect.stringContaining('set BEDROCK_MODEL_ID') };
    expect(await planOf('gone')).toMatchObject({ judgeError });
    const off = { ...event(key), evaluate: false };
    expect((await planCaptures(request('off', off), withModel(gone))).outcome).toBe('planned');
    expect(await planOf('off')).not.toHaveProperty('judgeError');
    const dry = { ...event(key), dryRun: true };
    expect((await planCaptures(request('dry-gone', dry), withModel(gone))).outcome).toBe('dryRun');
    expect((await planOf('dry-gone'))?.warnings).toEqual([gone.message]);
  });

  test('is checked when a run starts, not in each part', async () => {
    const later = request('later', event(key), { part: 1 });
    expect((await planCaptures(later, withModel(gone))).outcome).toBe('planned');
  });
});

describe('a backfill', () => {
  const hours = ['08', '09', '10', '11', '12', '13'];
  const keyOf = (variant: string, hour: string) => `my-endpoint/back/${variant}/2026/11/20/${hour}/f.jsonl`;

  beforeAll(async () => {
    for (const variant of ['A', 'B']) for (const hour of hours) await put(keyOf(variant, hour), line(1));
    await put('my-endpoint/back/loose.jsonl', line(1));
    await put('my-endpoint/back/readme.txt', 'no capture');
  });

  const input = { bucket: CAPTURES, prefix: 'my-endpoint/back' };

  test('plans all files of a prefix', async () => {
    const result = await planCaptures(request('all', input), dependencies);
    expect(await plannedKeys(result)).toHaveLength(13);
  });

  test('skips hour folders that are more than an hour outside of the window', async () => {
    const window = { from: '2026-11-20T10:00:00Z', to: '2026-11-20T11:00:00Z' };
    const result = await planCaptures(request('window', { ...input, ...window }), dependencies);
    expect(await plannedKeys(result)).toEqual([
      ...['09', '10', '11'].map((hour) => keyOf('A', hour)),
      ...['09', '10', '11'].map((hour) => keyOf('B', hour)),
      'my-endpoint/back/loose.jsonl',
    ]);
    expect(result.options.window).toEqual({ fromMs: Date.UTC(2026, 10, 20, 10), toMs: Date.UTC(2026, 10, 20, 11) });
  });

  test('is refused for another bucket or prefix', async () => {
    for (const other of [
      { ...input, bucket: 'other' },
      { ...input, prefix: 'my-endpoint-v2' },
    ]) {
      await expect(planCaptures(request('other', other), dependencies)).rejects.toMatchObject({
        name: 'OutsideCaptureScope',
      });
    }
  });

  test('of a prefix without files is empty', async () => {
    const result = await planCaptures(request('none', { ...input, prefix: 'my-endpoint/nothing' }), dependencies);
    expect(result.outcome).toBe('empty');
  });
});

test('refuses a retry of an unknown run by name', async () => {
  const input = { retry: { run: 'never-was', what: 'failed' } };
  await expect(planCaptures(request('retry', input), dependencies)).rejects.toMatchObject({ name: 'RunUnknown' });
});
