/**
 * After a deployment, what another version has planned is refused by name if the contract has changed.
 *
 * `contract.json` has a digest of the files that describe the contract, without their comments. If it differs, decide whether
 * the new functions could misread what the old ones have written. If so, raise CONTRACT in `src/core/contract/contract.ts`. Then
 * run `UPDATE_CONTRACT=1 npm run test:unit -- test/unit/contract`.
 */
import { hash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { CONTRACT } from '../../src/core/contract/contract.ts';
import { replayKeys, workKeys } from '../../src/core/contract/work-keys.ts';
import { parseInvocation } from '../../src/monitoring/invocation.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import { summarizeRun } from '../../src/monitoring/summarize-run.ts';
import { summarizeReplay } from '../../src/replay/cloud/summarize/summarize-replay.ts';
import { readPlan, readShardPlan } from '../../src/replay/cloud/work-bucket/stored-plan.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';
import { chunkRequest } from '../helpers/chunk-request.ts';
import { testEnvironment } from '../helpers/test-environment.ts';

const FILES = [
  ...['execution', 'ground-truth', 'input', 'payloads', 'receipts', 'replay', 'work-keys'].map(
    (name) => `src/core/contract/${name}.ts`,
  ),
  'src/replay/cloud/work-bucket/stored-plan.ts',
];
const LIST = `${__dirname}/contract.json`;

it('has the number that was chosen for these files', () => {
  const code = FILES.map((file) =>
    readFileSync(file, 'utf8')
      .replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
      .replaceAll(/\s+/g, ' '),
  );
  const now = { contract: CONTRACT, digest: hash('sha256', code.join('\n')) };
  if (process.env.UPDATE_CONTRACT) writeFileSync(LIST, `${JSON.stringify(now, null, 2)}\n`);
  // The comment at the top of this file describes what to do.
  expect(now).toEqual(JSON.parse(readFileSync(LIST, 'utf8')));
});

const RUN = 'r';
const other = { contract: CONTRACT + 1 };
const refused = expect.objectContaining({
  name: 'ContractChanged',
  message: expect.stringContaining(`got: contract ${CONTRACT + 1}; expected: contract ${CONTRACT}`),
});
let memory: MemoryStorage;
let before: string[];
beforeEach(() => {
  memory = new MemoryStorage();
  memory.put(workKeys.plan(RUN, 0), { ...other, part: 0, options: {} });
  memory.put(replayKeys.plan('replay'), { ...other, outcome: 'planned', shards: [{ shard: 0 }] });
  before = [...memory.objects.keys()];
});

it('accepts chunks of this contract, and refuses chunks without a number', () => {
  const request = chunkRequest(memory, ['{}']);
  expect(parseInvocation(request).kind).toBe('chunk');
  const unnumbered = { ...request, chunk: { ...request.chunk, contract: undefined } };
  expect(() => parseInvocation(unnumbered)).toThrow(expect.objectContaining({ name: 'ContractChanged' }));
});

it('refuses a chunk, even if its form has changed', () => {
  expect.assertions(1);
  try {
    parseInvocation({ run: RUN, chunk: { ...other, renamed: true } });
  } catch (error) {
    expect(error).toEqual(refused);
  }
});

const run = { name: RUN, arn: `arn:aws:states:eu-west-1:123456789012:execution:machine:${RUN}`, startTime: '' };
const environment = testEnvironment({ WORK_BUCKET: 'w', DATA_CAPTURE_S3_BUCKET: 'b', DATA_CAPTURE_S3_PREFIX: 'e/' });
const plan = (input: object, part: number) =>
  planCaptures({ input, run, part, nextChunk: 0, cursor: '1' }, { storage: memory.storage, environment } as never);

it.each<[string, () => Promise<unknown>]>([
  ['the next part of a backfill', () => plan({ bucket: 'b', prefix: 'e/' }, 1)],
  ['a retry', () => plan({ retry: { run: RUN, what: 'failed' } }, 0)],
  ['the summary of a run', () => summarizeRun({ storage: memory.storage, workBucket: 'w' }, run)],
  ['the plan of a replay', () => readPlan(memory.storage, 'w', 'replay')],
  ['the plan of a shard', () => readShardPlan(memory.storage, 'w', { run: 'replay', shard: 0 })],
])('refuses %s, and writes nothing', async (_, work) => {
  await expect(work()).rejects.toEqual(refused);
  expect([...memory.objects.keys()]).toEqual(before);
});

it('stops a replay anyway', async () => {
  const detail = { executionArn: run.arn.replace(/:r$/, ':replay'), status: 'ABORTED' as const };
  const never = () => Promise.reject(new Error('called'));
  const deps = { storage: memory.storage, workBucket: 'w', mlflow: never, startMonitoring: never };
  const stopped = summarizeReplay({ detail }, { ...deps, remainingMs: () => 900_000 });
  await expect(stopped).rejects.toEqual(refused);
  expect(memory.objects.has(replayKeys.stop('replay'))).toBe(true);
});
