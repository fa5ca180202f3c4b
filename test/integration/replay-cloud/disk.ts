/** Tests of replies that are much larger than the captured ones and do not fit on a shard's disk: no measurement is lost. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { replayKeys } from '../../../src/contract/work-keys.ts';
import { RECORD_FILE_BYTES, SHARD_FILES_PER_BYTE } from '../../../src/replay/cloud/limits.ts';
import { LINE_FILES } from '../../../src/replay/cloud/shard/shard-results.ts';
import type { StoredReply } from '../../../src/replay/compare/replies-file.ts';
import type { ReplayedLine } from '../../../src/replay/publish/replayed-line.ts';
import { chatLine } from '../../helpers/replay.ts';
import { type CloudRun, WORK } from '../../helpers/replay-cloud.ts';
import { cloud, TEST_MS } from './servers.ts';

const REQUESTS = 40;
/** Bytes of a reply's text. All files together need three times as much. */
const REPLY_BYTES = 60_000;
const MARK = 'many words ';

let talker: Server;

beforeAll(async () => {
  const content = MARK.repeat(REPLY_BYTES / MARK.length);
  const reply = JSON.stringify({
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  });
  talker = createServer((request, response) => {
    request.resume().once('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end(reply));
  });
  await new Promise<void>((resolve) => {
    talker.listen(0, '127.0.0.1', resolve);
  });
});
afterAll(() => talker?.close());

const LINES = Array.from({ length: REQUESTS }, (_, i) => chatLine(`event-${i}`, 0, `Question ${i}`, 'In short: no.'));
/** Bytes that a shard reserves on its disk for these captures. */
const PLANNED_BYTES = LINES.reduce((sum, line) => sum + RECORD_FILE_BYTES + line.length * SHARD_FILES_PER_BYTE, 0);

async function replayed(name: string, freeBytes: number): Promise<CloudRun> {
  await cloud.put(`${name}/00`, LINES);
  const run = cloud.run({
    source: { prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}/` },
    target: { url: `http://127.0.0.1:${(talker.address() as AddressInfo).port}/v1/chat/completions` },
    compare: true,
  });
  await run.plan(0);
  // The shard only needs to know that there is an MLflow run.
  const mlflow = { experiment: { id: '1', name: 'x' }, runId: 'r' };
  await cloud.storage.putJson(WORK, replayKeys.plan(run.name), { ...(await run.stored()), mlflow });
  expect(await run.shard(0, undefined, freeBytes)).toMatchObject({ sent: REQUESTS, failed: 0, skipped: 0 });
  return run;
}

const fileOf = <T>(run: CloudRun, name: string) => cloud.lines<T>(`${replayKeys.shardPrefix(run.name, 0)}${name}`);

async function bytesOf(run: CloudRun): Promise<number> {
  const prefix = replayKeys.shardPrefix(run.name, 0);
  let bytes = 0;
  for await (const { key, size } of cloud.storage.list(WORK, prefix)) {
    if (LINE_FILES.some((name) => key === `${prefix}${name}`)) bytes += size;
  }
  return bytes;
}

describe('a shard with a small disk', () => {
  test(
    'measures and compares replies without space, and marks them as not kept in all files',
    async () => {
      // There is space for what is planned, and for some of the replies.
      const free = PLANNED_BYTES + 10 * 2 * REPLY_BYTES;
      const run = await replayed('small', free);
      expect(await bytesOf(run)).toBeLessThan(free);
      const [kept, notKept] = [[] as string[], [] as string[]];
      const replies = await fileOf<StoredReply>(run, 'replies.jsonl');
      expect(replies).toHaveLength(REQUESTS);
      for (const { event_id: id = '', reply, comparison } of replies) {
        // The complete reply is compared.
        expect(comparison).toMatchObject({ status: 'both-ok', same: false });
        expect(comparison?.words?.[1]).toBe(2 * Math.floor(REPLY_BYTES / MARK.length));
        (reply.notKeptBytes === undefined ? kept : notKept).push(id);
        if (reply.notKeptBytes === undefined) expect(reply.text).toContain(MARK);
        else expect(reply).toEqual({ ok: true, text: '', notKeptBytes: expect.any(Number) });
      }
      // Space that requests reserve but do not need is used too.
      expect(kept.length).toBeGreaterThanOrEqual(5);
      expect(notKept.length).toBeGreaterThanOrEqual(5);

      const spool = await fileOf<ReplayedLine>(run, 'replayed.spool.jsonl');
      expect(spool).toHaveLength(REQUESTS);
      for (const { captureData, eventMetadata } of spool) {
        const { data } = captureData.endpointOutput as { data: string };
        const text = Buffer.from(data, 'base64').toString();
        if (kept.includes(eventMetadata.eventId as string)) expect(text).toContain(MARK);
        else
          expect(JSON.parse(text)).toEqual({ reply_not_kept: { bytes: expect.any(Number), why: expect.any(String) } });
      }

      // All replies are measured.
      await cloud.storage.putJson(WORK, replayKeys.plan(run.name), { ...(await run.stored()), mlflow: null });
      expect(await run.summarize()).toMatchObject({ ok: true });
      expect(await run.records()).toHaveLength(REQUESTS);
      const [one] = replies.flatMap(({ reply }) => reply.notKeptBytes ?? []);
      const own = await run.json<{ shards: object; remarks: string[] }>('replay.json');
      const bytes = notKept.length * (one ?? 0);
      expect(own.shards).toMatchObject({ completed: 1, not_kept: [{ shard: 0, replies: notKept.length, bytes }] });
      expect(own.remarks).toContainEqual(
        expect.stringMatching(
          new RegExp(`^Replies that were measured and compared, but not kept: ${notKept.length}, with ${bytes} bytes`),
        ),
      );
      expect(await run.result('report.html')).toContain('but not kept');
      expect(await run.json('compare.json')).toMatchObject({ quality: { compared: REQUESTS } });
    },
    TEST_MS,
  );

  test(
    'keeps all replies if there is space',
    async () => {
      const run = await replayed('large', PLANNED_BYTES + REQUESTS * 4 * REPLY_BYTES);
      for (const { reply } of await fileOf<StoredReply>(run, 'replies.jsonl')) expect(reply.text).toContain(MARK);
    },
    TEST_MS,
  );
});
