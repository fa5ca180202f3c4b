/** What the command `forward` lists, and asks of SQS. */
import { Readable } from 'node:stream';
import { filesToForward, putBack, sendEvents } from '../../../../bin/operate/forwarding.ts';
import type { ForwardEnvironment } from '../../../../src/core/settings/environment.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';

const FORWARDING = {
  ...{ DATA_CAPTURE_S3_BUCKET: 'b', ARTHUR_S3_PREFIX: 'ep/', ARTHUR_S3_SUFFIX: '-x.jsonl' },
  ...{ QUEUE_URL: 'http://sqs/q', DEAD_LETTERS_URL: 'http://sqs/dead' },
} as ForwardEnvironment;
const HOURS = 'ep/AllTraffic/2026/11/20/';
const window = { fromMs: Date.parse('2026-11-20T10:00:00Z'), toMs: Date.parse('2026-11-20T12:00:00Z') };
let memory: MemoryStorage;
let asked: { operation: string; input: Record<string, unknown> }[];

beforeEach(() => {
  memory = new MemoryStorage();
  asked = [];
  for (const name of ['09/a-x', '10/a-x', '10/b', '11/a-x', '12/a-x']) memory.put(`${HOURS}${name}.jsonl`, name);
});

/** A client of SQS that gets these answers. */
const sqs = (answer: (queue: string) => object) => {
  const handle = async ({ headers, body }: { headers: Record<string, string>; body: string }) => {
    const input = JSON.parse(body);
    asked.push({ operation: headers['x-amz-target'] ?? '', input });
    return { response: { statusCode: 200, body: Readable.from([JSON.stringify(answer(input.QueueUrl))]) } };
  };
  const credentials = { accessKeyId: 'a', secretAccessKey: 'b' };
  return { config: { region: async () => 'eu-west-1', credentials, requestHandler: { handle } } } as never;
};

test.each([FORWARDING.QUEUE_URL, undefined])(
  'the files of the hours of a window are sent to %s, with the suffix, and without a queue only counted',
  async (queue) => {
    const storage = Object.assign(memory.storage, { listFolder: memory.list.bind(memory) });
    const client = sqs(() => ({}));
    const sent: number[] = [];
    const send = (within?: string) =>
      sendEvents(client, queue, filesToForward(storage, FORWARDING, { ...window, within }), (files) =>
        sent.push(files),
      );
    expect([await send(), sent]).toEqual([{ files: 2, bytes: 12 }, [1, 2]]);
    const events = asked.map(({ input }) => [input.QueueUrl, JSON.parse(String(input.MessageBody)).detail]);
    const expected = ['10/a-x', '11/a-x'].map((name) => {
      const object = { key: `${HOURS}${name}.jsonl`, etag: expect.any(String), size: 6 };
      return [queue, { bucket: { name: 'b' }, object }];
    });
    expect(events).toEqual(queue === undefined ? [] : expect.arrayContaining(expected));
    expect(events).toHaveLength(queue === undefined ? 0 : 2);
    await expect(send('other/')).rejects.toMatchObject({ name: 'OutsideCaptureScope' });
  },
);

test('dead letters are put back by SQS itself', async () => {
  const client = sqs((queue) => ({ Attributes: { QueueArn: `arn of ${queue}`, ApproximateNumberOfMessages: '3' } }));
  expect(await putBack(client, FORWARDING, false)).toBe(3);
  expect(asked.map(({ operation }) => operation)).not.toContain('AmazonSQS.StartMessageMoveTask');
  expect(await putBack(client, FORWARDING, true)).toBe(3);
  expect(asked.at(-1)).toEqual({
    operation: 'AmazonSQS.StartMessageMoveTask',
    input: { SourceArn: 'arn of http://sqs/dead', DestinationArn: 'arn of http://sqs/q' },
  });
});
