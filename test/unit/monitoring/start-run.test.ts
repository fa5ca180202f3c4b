/** The start of a run over the events of a window. The queue delivers at least once and in any order. */

import { backfillObjects, capturedObject } from '../../../src/captures/files/capture-objects.ts';
import type { FilesInput, ListedFile } from '../../../src/core/contract/input.ts';
import { captureScope } from '../../../src/judge/capture-scope.ts';
import { type QueuedEvent, startRun } from '../../../src/monitoring/start-run.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const event = (n: number, object: object = {}): QueuedEvent => ({
  messageId: `message-${n}`,
  body: JSON.stringify({
    version: '0',
    source: 'aws.s3',
    'detail-type': 'Object Created',
    detail: {
      version: '0',
      bucket: { name: 'captures' },
      object: {
        key: `e/AllTraffic/2026/11/20/10/${n} ü+.jsonl`,
        size: 900,
        etag: `etag-${n}`,
        sequencer: '0',
        ...object,
      },
    },
  }),
  attributes: { SentTimestamp: String(Date.parse('2026-11-20T10:00:00Z') + n) },
});

let memory: MemoryStorage;
let started: { name: string; input: FilesInput }[];
let fault: Error | undefined;
beforeEach(() => {
  memory = new MemoryStorage();
  started = [];
  fault = undefined;
});

async function deliver(messages: QueuedEvent[]) {
  const start = async (name: string, input: FilesInput): Promise<void> => {
    if (fault !== undefined) throw fault;
    started.push({ name, input });
  };
  const { batchItemFailures } = await startRun(messages, { storage: memory.storage, workBucket: 'work', start });
  const last = started.at(-1);
  const files = last === undefined ? [] : await memory.getJsonLines<ListedFile>('', last.input.files.key);
  return { failed: batchItemFailures.map(({ itemIdentifier }) => itemIdentifier), files, name: last?.name };
}

const thousand = Array.from({ length: 1_000 }, (_, n) => event(n));

test('a thousand events start one execution, with the list of their files in the work bucket', async () => {
  const { failed, files, name } = await deliver(thousand);
  expect({ failed, started: started.length, files: files.length }).toEqual({ failed: [], started: 1, files: 1_000 });
  expect(files).toContainEqual({ bucket: 'captures', key: 'e/AllTraffic/2026/11/20/10/7 ü+.jsonl', etag: 'etag-7' });
  expect(name).toMatch(/^files-2026-11-20T10-00-00-[0-9a-f]{16}$/);
  expect(started[0]?.input).toEqual({ files: { key: `starts/${name}.jsonl` } });
});

test('the same messages in another order get the same name and the same list', async () => {
  const first = await deliver(thousand);
  const again = await deliver(thousand.toReversed());
  expect(again).toEqual(first);
  // A batch with one message more or less is another one.
  expect((await deliver(thousand.slice(1))).name).not.toBe(first.name);
});

test('an event that is delivered twice is one file, and another version of it is another file', async () => {
  const twice = { ...event(1), messageId: 'message-9' };
  const other = event(1, { etag: 'new', 'version-id': 'v2' });
  const old = event(1, { 'version-id': 'null' });
  const { files } = await deliver([
    event(1),
    twice,
    { ...other, messageId: 'message-3' },
    { ...old, messageId: 'm-4' },
  ]);
  expect(files.map(({ etag, versionId }) => [etag, versionId])).toEqual([
    ['new', 'v2'],
    ['etag-1', undefined],
  ]);
});

test('what is not an event of a file goes back to the queue, and the others are started', async () => {
  const broken = { ...event(2), body: '{"detail":{}}' };
  const text = { ...event(3), body: 'no JSON' };
  const { failed, files } = await deliver([event(1), broken, text]);
  expect({ failed, files: files.length }).toEqual({ failed: ['message-2', 'message-3'], files: 1 });
  started = [];
  expect(await deliver([broken])).toMatchObject({ failed: ['message-2'], name: undefined });
});

test('a batch that cannot be started goes back to the queue as a whole', async () => {
  fault = new Error('throttled');
  await expect(deliver([event(1)])).rejects.toThrow('throttled');
});

test('captures of a judge below the same prefix start nothing, and are left out of the list of others', async () => {
  const { excludes } = captureScope(
    testEnvironment({ BEDROCK_MODEL_ID: 'sagemaker:/My-Judge/llama', JUDGE_CASCADE: 'sagemaker:/cheap' }),
  );
  const start = jest.fn(async () => {});
  const deliverAll = (events: QueuedEvent[]) =>
    startRun(events, { storage: memory.storage, workBucket: 'work', excludes, start });
  const of = (n: number, endpoint: string) => event(n, { key: `all/${endpoint}/AllTraffic/2026/11/20/10/${n}.jsonl` });
  expect(await deliverAll([of(1, 'my-judge'), of(2, 'cheap')])).toEqual({ batchItemFailures: [] });
  expect(start).not.toHaveBeenCalled();
  await deliverAll([of(3, 'my-judge'), of(4, 'my-judge-2'), of(5, 'other')]);
  const [list] = [...memory.objects.values()].map(String);
  expect(list).toMatch(/my-judge-2\/.*\n.*other\//);
  expect(list).not.toContain('my-judge/');
});

test('captures of a judge are no part of a backfill, and are refused by name', async () => {
  const scope = captureScope(testEnvironment({ BEDROCK_MODEL_ID: 'sagemaker:/judge', DATA_CAPTURE_S3_PREFIX: 'all/' }));
  const keyOf = (endpoint: string) => `all/${endpoint}/AllTraffic/2026/11/20/10/a.jsonl`;
  for (const endpoint of ['judge', 'other']) memory.put(keyOf(endpoint), '{}');
  const input = { bucket: scope.bucket, prefix: 'all/' };
  const found: string[] = [];
  for await (const { key } of backfillObjects(memory.storage, scope, input, undefined)) found.push(key);
  expect(found).toEqual([keyOf('other')]);
  await expect(capturedObject(memory.storage, scope, scope.bucket, keyOf('judge'))).rejects.toMatchObject({
    name: 'OutsideCaptureScope',
  });
});
