/** Compares the files that a shard writes with the disk space that the size of a shard is planned for. */
import { areaOf, replayKeys } from '../../src/core/contract/work-keys.ts';
import { SHARD_FILES } from '../../src/replay/cloud/work-bucket/stored-plan.ts';
import { REPLIES_FILE } from '../../src/replay/compare/replies-file.ts';
import { FILES } from '../../src/replay/results/result-set.ts';
import { captureLine } from '../helpers/replay.ts';
import { CloudReplays, WORK } from '../helpers/replay-cloud.ts';
import { type Serving, serve } from '../helpers/serve.ts';
import { plannedFileBytes } from '../helpers/shard-files.ts';

let cloud: CloudReplays;
let echo: Serving;

beforeAll(async () => {
  cloud = await CloudReplays.start();
  // Replies, including the captured ones, are as large as their requests.
  echo = await serve((request, response) => {
    response.writeHead(200, { 'content-type': request.headers['content-type'] ?? 'text/plain' });
    request.pipe(response);
  });
});
afterAll(async () => {
  await echo.close();
  await cloud.stop();
});

const REQUESTS = 40;
const WORDS = 'the quick "brown" fox\tjumps over the lazy dog in Zürich and says \\o/ to everyone there\n';
const text = (length: number): string => WORDS.repeat(Math.ceil(length / WORDS.length)).slice(0, length);
const chat = (length: number): string => JSON.stringify({ messages: [{ role: 'user', content: text(length) }] });
const binary = (length: number): string => Buffer.alloc(length, 'ÿ\u0001\u00ff', 'latin1').toString('base64');

test.each([
  ['chats of a few words', chat(20), 'JSON', 'application/json'],
  ['chats of 30 KB', chat(30_000), 'JSON', 'application/json'],
  ['texts of 30 KB', text(30_000), 'CSV', 'text/csv'],
  ['images of 30 KB', binary(30_000), 'BASE64', 'image/png'],
  ['chats of 30 KB, captured as base64', Buffer.from(chat(30_000)).toString('base64'), 'BASE64', 'application/json'],
])('%s fits the plan with all outputs enabled', async (name, data, encoding, contentType) => {
  const side = { data, encoding, contentType };
  const lines = Array.from({ length: REQUESTS }, (_, i) => captureLine(`event-${i}`, 0, side, side));
  const folder = name.replaceAll(/\W+/g, '-');
  await cloud.put(`${folder}/00`, lines);
  const source = { prefix: `my-endpoint/AllTraffic/2026/11/20/10/${folder}/` };
  const run = cloud.run({ source, target: { url: `${echo.url}/invocations` }, compare: true });
  await run.plan(0);
  // A shard only needs to know that an MLflow run exists.
  const plan = { ...(await run.stored()), mlflow: { experiment: { id: '1', name: 'x' }, runId: 'r' } };
  await cloud.storage.putJson(WORK, replayKeys.plan(run.name), plan);
  expect(await run.shard(0)).toMatchObject({ sent: REQUESTS, failed: 0 });
  const prefix = replayKeys.shardPrefix(run.name, 0);
  let bytes = 0;
  const files: string[] = [];
  for await (const { key, size } of cloud.storage.list(WORK, prefix)) {
    files.push(key.slice(prefix.length));
    bytes += size;
  }
  for await (const { size } of cloud.storage.list(WORK, areaOf('replayExchanges', run.name))) bytes += size;
  // All files except that of skipped lines.
  expect(files).toEqual([SHARD_FILES.claim, FILES.inputs, FILES.records, REPLIES_FILE, SHARD_FILES.result]);
  const captured = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0);
  const planned = plannedFileBytes(REQUESTS, captured);
  expect(bytes).toBeLessThanOrEqual(planned);
  // The plan does not overestimate it by far either.
  expect(bytes).toBeGreaterThan(planned / 4);
});
