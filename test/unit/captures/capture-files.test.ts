/** The keys of capture files; and files and records that are no captures, which are named, on this machine as in S3. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findCaptures } from '../../../bin/operate/capture-files.ts';
import { decodeLine } from '../../../src/captures/decode.ts';
import { backfillObjects, capturedObject } from '../../../src/captures/files/capture-objects.ts';
import { capturePathOf, formatHour, hourPathOf } from '../../../src/captures/files/capture-path.ts';
import type { Storage } from '../../../src/core/aws/storage.ts';
import { captureScope } from '../../../src/judge/capture-scope.ts';
import { localFiles } from '../../../src/replay/source/open-source.ts';
import { chatLine } from '../../helpers/replay.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';
import { lineOf } from './arbitraries.ts';

const HASH = '0f1e2d3c4b5a6978';
const SME = `${HASH}/sme/e/AllTraffic/2026/11/20/10/a.jsonl`;
const OTHERS = [
  [`${HASH}/pod/2026/11/20/10/a.jsonl`, 'HyperPod'],
  [`${HASH}/alb/AWSLogs/1/elasticloadbalancing/x.jsonl`, 'HyperPod'],
  ['input/2026/11/20/10/f84a.json', 'batch transform'],
  ['out/output/2026/11/20/10/f84a.json', 'batch transform'],
  ['AWSLogs/1/BedrockModelInvocationLogs/us-east-1/2026/11/20/10/a.jsonl', 'Bedrock'],
] as const;
const settings = { DATA_CAPTURE_S3_BUCKET: 'b', DATA_CAPTURE_S3_PREFIX: '', BEDROCK_MODEL_ID: '' };
const SCOPE = captureScope({ ...settings, JUDGE_CASCADE: undefined });

/** A bucket with these keys. */
const bucketOf = (...keys: string[]) =>
  ({
    async *list() {
      for (const key of keys) yield { bucket: 'b', key, etag: '', size: 1, lastModifiedMs: 0 };
    },
  }) as unknown as Storage;

test.each(OTHERS)('%s is no capture file', async (key, name) => {
  const root = temporaryFolder('others-');
  const write = (path: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), `${chatLine('a', 0, 'Hi')}\n`);
  };
  write(key);
  const words = [localFiles(root), localFiles(join(root, key)), findCaptures(root), findCaptures(join(root, key))].map(
    (found) => found.then(JSON.stringify, ({ message }: Error) => message),
  );
  for (const said of await Promise.all(words)) expect(said).toMatch(new RegExp(`expected: Data Capture of .*${name}`));
  await expect(capturedObject(bucketOf(), SCOPE, 'b', key)).rejects.toThrow(name);
  write(SME);
  expect((await localFiles(root)).map(({ name: file }) => file)).toEqual([join(root, SME)]);
  expect((await findCaptures(root)).flatMap(({ files }) => files.map((file) => file.key))).toEqual([
    SME.slice(HASH.length + 5),
  ]);
  const listed = await Array.fromAsync(backfillObjects(bucketOf(SME, key), SCOPE, SCOPE, undefined));
  expect(listed.map((object) => object.key)).toEqual([SME]);
});

test.each([
  [{ schemaType: 'ModelInvocationLog', modelId: 'm', requestId: 'r', input: {} }, 'Bedrock'],
  [{ level: 'INFO', message: 'x', file_name: 'f', line_number: '7' }, 'NVIDIA NIM'],
  [{ request: {}, response: {}, workload_id: 'w', timestamp: 1 }, 'NVIDIA NIM'],
  [{ groundTruthData: {} }, 'ground truth'],
])('a record of another program is named: %j', (record, name) => {
  expect(JSON.stringify(decodeLine(lineOf(record), {}))).toMatch(
    new RegExp(`NotACaptureRecord.*${name}.*not a capture`),
  );
});

const hourMs = Date.UTC(2026, 0, 2, 3);

test.each([
  [
    'captures/my-endpoint/AllTraffic/2026/01/02/03/a.jsonl',
    { endpoint: 'my-endpoint', variant: 'AllTraffic', hourMs },
    'captures/my-endpoint/AllTraffic/',
  ],
  ['AllTraffic/2026/01/02/03/a.jsonl', { variant: 'AllTraffic', hourMs }, 'AllTraffic/'],
  ['2026/01/02/03/a.jsonl', { hourMs }, ''],
])('%s contains its endpoint, variant and hour', (key, path, base) => {
  expect(capturePathOf(key)).toEqual(path);
  expect(hourPathOf(key)).toEqual({ base, startMs: hourMs });
  expect(key).toContain(formatHour(hourMs + 3_599_999));
});

test.each([
  'a.jsonl',
  'e/2026/13/20/10/a.jsonl',
  'e/2026/02/30/10/a.jsonl',
  'e/2026/11/20/24/a.jsonl',
  'e/2026/11/20/a.jsonl',
  'x2026/11/20/10/a.jsonl',
])('%s has no hour folder', (key) => {
  expect([hourPathOf(key), capturePathOf(key)]).toEqual([undefined, {}]);
});
