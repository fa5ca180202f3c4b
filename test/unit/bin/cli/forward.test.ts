/** What the command `forward` lists, and asks of SQS. */
import { Readable } from 'node:stream';
import { filesToForward, putBack, sendEvents } from '../../../../bin/operate/forwarding.ts';
import type { ForwardEnvironment } from '../../../../src/core/settings/environment.ts';
import { MemoryStorage } from '../../../doubles/memory-storage.ts';

const FORWARDING = {
  ...{ DATA_CAPTURE_S3_BUCKET: 'b', ARTHUR_S3_PREFIX: 'ep/', ARTHUR_S3_SUFFIX: '-x.jsonl' },
  ...{ FORWARD_QUEUE: 'http://sqs/q', FORWARD_DEAD_LETTERS: 'http://sqs/dead' },
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

async function listed(within?: string): Promise<string[]> {
  const storage = Object.assign(memory.storage, { listFolder: memory.list.bind(memory) });
  const keys: string[] = [];
  for await (const { key } of filesToForward(storage, FORWARDING, { ...window, within })) keys.push(key);
  return keys;
}

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

test('the files of the hours of a window are listed, with the suffix', async () => {
  expect(await listed()).toEqual([`${HOURS}10/a-x.jsonl`, `${HOURS}11/a-x.jsonl`]);
  await expect(listed('other/')).rejects.toMatchObject({ name: 'OutsideCaptureScope' });
});

test.each([FORWARDING.FORWARD_QUEUE, undefined])(
  'their events are sent to %s, and without a queue only counted',
  async (queue) => {
    const many = async function* () {
      for (let n = 0; n < 12; n += 1) yield { bucket: 'b', key: `${n}`, etag: 'e', size: 5, lastModifiedMs: 0 };
    };
    const sent: number[] = [];
    const sum = await sendEvents(
      sqs(() => ({})),
      queue,
      many(),
      (files) => sent.push(files),
    );
    expect([sum, sent.at(-1)]).toEqual([{ files: 12, bytes: 60 }, 12]);
    const object = { key: '11', etag: 'e', size: 5 };
    const events = asked.map(({ input }) => JSON.parse(String(input.MessageBody)).detail);
    expect(events).toHaveLength(queue === undefined ? 0 : 12);
    if (queue !== undefined) expect(events).toContainEqual({ bucket: { name: 'b' }, object });
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
