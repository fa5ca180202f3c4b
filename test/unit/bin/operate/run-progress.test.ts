/** How following a run reads receipts. The rest of it is tested on a deployed stack. */
import { Readable } from 'node:stream';
import { runWatcher } from '../../../../bin/operate/run-progress.ts';
import { Storage } from '../../../../src/core/aws/storage.ts';
import { areaOf, workKeys } from '../../../../src/core/contract/work-keys.ts';

const CHUNKS = 10_500;
const RUN = { name: 'r', arn: 'arn:execution:r' };
const PAGE = 1_000;

const plan = { objects: 1, lines: CHUNKS, chunks: CHUNKS, more: false, options: { evaluate: false } };
const counts = { lines: 1 };
/** The first chunk never ends, so that it is the first open one of every poll. */
const receipts = Array.from({ length: CHUNKS }, (_, chunk) => ({
  key: workKeys.receipt(RUN.name, chunk, 'log', 0, 'id'),
  receipt: { chunk, step: 'log', attempt: 0, ok: chunk > 0, counts, error: { name: 'E', message: 'm' } },
}));
const objects = new Map<string, unknown>([
  [`${areaOf('plan', RUN.name)}000000.json`, plan],
  ...receipts.map(({ key, receipt }) => [key, receipt] as const),
]);
const keys = [...objects.keys()].sort();

/** S3 and Step Functions at the wire. */
async function send(command: { input: Record<string, string> }) {
  const { input } = command;
  switch (command.constructor.name) {
    case 'ListObjectsV2Command': {
      const { Prefix = '', StartAfter = '' } = input;
      const found = keys.filter((key) => key.startsWith(Prefix) && key > StartAfter);
      return { Contents: found.slice(0, PAGE).map((Key) => ({ Key })), IsTruncated: found.length > PAGE };
    }
    case 'GetObjectCommand': {
      const value = objects.get(input.Key ?? '');
      if (value === undefined) throw Object.assign(new Error('gone'), { name: 'NoSuchKey' });
      const text = JSON.stringify(value);
      return { Body: Readable.from([Buffer.from(text)]), ETag: '"e"', ContentLength: text.length };
    }
    default:
      return { status: 'RUNNING', mapRuns: [] };
  }
}

test('a chunk that never ends does not hide the receipts behind it, however many there are', async () => {
  const poll = runWatcher({ send } as never, { storage: new Storage({ send } as never), workBucket: 'work' }, RUN);
  let lines = 0;
  for (let i = 0; i < CHUNKS / 250 && lines < CHUNKS - 1; i += 1) ({ lines } = await poll());
  expect(lines).toBe(CHUNKS - 1);
}, 60_000);
