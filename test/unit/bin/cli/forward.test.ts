/** What the command `forward` lists, follows and prints. */
import { Readable } from 'node:stream';
import { reportText } from '../../../../bin/commands/forward.ts';
import { filesToForward, followFiles, type PendingFile } from '../../../../bin/operate/forwarding.ts';
import { receiptKey } from '../../../../src/monitoring/arthur/forward-file.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';

const FORWARDING = { prefix: 'ep/', suffix: '-x.jsonl', queue: 'q', deadLetters: 'd' };
const PLACES = { captureBucket: 'b', workBucket: 'work' };
let memory: MemoryStorage;
beforeEach(() => {
  memory = new MemoryStorage();
});

function receipt(key: string, etag: string, state: string, more: object = {}): void {
  const file = { bucket: 'b', key, etag };
  memory.put(receiptKey(file), { ...file, state, message: 'm', untilMs: 0, posts: 1, unknown: 0, at: '', ...more });
}

/** Answers of SQS with so many messages in the queue. */
const queueOf = (messages: () => number) => ({
  config: {
    region: async () => 'eu-west-1',
    credentials: { accessKeyId: 'a', secretAccessKey: 'b' },
    requestHandler: {
      handle: async () => ({
        response: {
          statusCode: 200,
          body: Readable.from([JSON.stringify({ Attributes: { ApproximateNumberOfMessages: String(messages()) } })]),
        },
      }),
    },
  },
});

test('the files of the hours of a window are listed, with the suffix, without those that are forwarded', async () => {
  const etags: Record<string, string> = {};
  for (const name of ['09/a-x', '10/a-x', '10/b-x', '10/c', '11/a-x', '12/a-x']) {
    etags[name] = memory.put(`ep/AllTraffic/2026/11/20/${name}.jsonl`, name).etag;
  }
  receipt('ep/AllTraffic/2026/11/20/10/b-x.jsonl', etags['10/b-x'] ?? '', 'forwarded');
  receipt('ep/AllTraffic/2026/11/20/11/a-x.jsonl', etags['11/a-x'] ?? '', 'failed');
  const window = { fromMs: Date.parse('2026-11-20T10:00:00Z'), toMs: Date.parse('2026-11-20T12:00:00Z') };
  const listing = Object.assign(memory.storage, { listFolder: memory.list.bind(memory) });
  const { pending, before } = await filesToForward(listing, PLACES, FORWARDING, window);
  expect(pending.map(({ file }) => file.key.slice('ep/AllTraffic/2026/11/20/'.length))).toEqual([
    '10/a-x.jsonl',
    '11/a-x.jsonl',
  ]);
  expect(pending.map((one) => one.before !== undefined)).toEqual([false, true]);
  expect(before).toBe(1);
  const outside = filesToForward(listing, PLACES, FORWARDING, { within: 'other/' });
  await expect(outside).rejects.toMatchObject({ name: 'OutsideCaptureScope' });
});

describe('following', () => {
  const pendingOf = (...names: string[]): PendingFile[] =>
    names.map((key) => ({ file: memory.put(key, key), before: undefined }));
  const follow = (files: PendingFile[], messages: () => number, looks: [number, number][] = []) =>
    followFiles(
      { storage: memory.storage, lambda: queueOf(messages) as never, workBucket: 'work' },
      FORWARDING,
      files,
      (done, waiting) => looks.push([done, waiting]),
      new AbortController().signal,
      1,
    );

  test('ends when each file is forwarded or failed anew', async () => {
    const files = pendingOf('ep/1', '2', '3');
    const [first, second, third] = files as [PendingFile, PendingFile, PendingFile];
    receipt('ep/1', first.file.etag, 'forwarded', { counts: { total: 2, success: 2, failure: 0 } });
    receipt('3', third.file.etag, 'failed', { error: { name: 'Old', message: '' } });
    third.before = (await memory.getText('', receiptKey(third.file)))?.etag;
    let looks = 0;
    const progress: [number, number][] = [];
    const found = await follow(
      files,
      () => {
        looks += 1;
        if (looks === 1) receipt('2', second.file.etag, 'waiting');
        if (looks === 2) {
          receipt('2', second.file.etag, 'forwarded');
          receipt('3', third.file.etag, 'failed', { error: { name: 'ArthurTooLarge', message: 'why' } });
        }
        return 1;
      },
      progress,
    );
    expect(found.forwarded.map(({ key }) => key)).toEqual(['ep/1', '2']);
    expect(found.failed).toEqual([{ key: '3', name: 'ArthurTooLarge', message: 'why' }]);
    expect(progress).toContainEqual([1, 1]);
  });

  test('ends when the queue is empty, and says which files are not forwarded, with their last error', async () => {
    const files = pendingOf('1', '2');
    const error = { name: 'ArthurUnavailable', message: 'why' };
    receipt('1', files[0]?.file.etag ?? '', 'waiting', { error });
    let looks = 0;
    const found = await follow(files, () => {
      looks += 1;
      return looks === 10 ? 1 : 0;
    });
    expect(found).toEqual({
      forwarded: [],
      failed: [{ key: '1', ...error }, expect.objectContaining({ key: '2', name: 'NotForwarded' })],
    });
    // The empty queue counts anew after each message.
    expect(looks).toBe(55);
  });
});

test('the text names what failed, and what Arthur may have twice', () => {
  const report = {
    files: 3,
    bytes: 5_000,
    before: 2,
    sent: true,
    forwarded: 2,
    inferences: 1_400,
    rejected: 7,
    unknown: 1,
  };
  const text = reportText(
    { ...report, failed: [{ key: 'ep/a\u001b[1m', name: 'ArthurTooLarge', message: 'why' }] },
    {},
  );
  expect(text).toContain('3 files to forward, 5,000 bytes; 2 were forwarded before\n');
  expect(text).toContain('2 forwarded: Arthur took 1,400 inferences, and not 7; 1 files failed\n');
  expect(text).toContain('1 posts had no answer: Arthur may have those files twice\n');
  expect(text).toMatch(/ep\/a \[1m +ArthurTooLarge +why/);
  const letters = { ...report, failed: [{ name: 'ArthurRefused', message: 'why' }] };
  expect(reportText(letters, { failed: true })).toMatch(/ArthurRefused +why\n3 dead letters were put back\.\n$/);
  expect(reportText({ ...letters, files: 0, failed: [] }, { failed: true })).toBe('There are no dead letters.\n');
});
