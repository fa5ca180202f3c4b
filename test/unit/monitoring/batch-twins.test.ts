/** Batch inference with chunks that share a line, and with captures that provoke a fault in the request. */

import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { EvaluateReceipt } from '../../../src/core/contract/receipts.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { MAX_INPUT_BYTES } from '../../../src/monitoring/batch/groups.ts';
import { dryRunOf } from '../../../src/monitoring/plan/dry-run.ts';
import { goodAnswer, scriptedJudge } from '../../doubles/scripted-judge.ts';
import { answered, batchRig } from '../../helpers/batch-rig.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const environment = testEnvironment();
const scorers = scorersFor().filter(isJudgeScorer).slice(0, 2);
const idOf = (line: string): string => traceIdOf('7', Buffer.from(line));

function rig(chunks: string[][]) {
  // This judge has no server: every answer must come from the job.
  const batch = connectBatchJudge(environment);
  const own = batchRig(chunks, environment, scorers, () => batch);
  const end = (status = 'Completed') =>
    own.end(() => (status === 'Completed' ? answered(goodAnswer(scorers)) : undefined), { status });
  return { ...own, batch, end };
}

test.each(['first', 'last'])(
  'a line in two chunks is one record; both write its verdicts, and its cost is reported and written once (%s chunk first)',
  async (order) => {
    const [a, b, c] = ['a', 'b', 'c'].map((name) => chatLine(name)) as [string, string, string];
    const { requests, prepare, apply, end, store, written } = rig([
      [a, b],
      [b, c],
    ]);
    const prepared = await Promise.all(requests.map((request) => prepare(request)));
    expect(prepared.map(({ records }) => records).toSorted()).toEqual([1, 2]);
    // A repeated preparation after a failure has the same result.
    expect(await Promise.all(requests.map((request) => prepare(request)))).toEqual(prepared);
    end();
    const receipts: EvaluateReceipt[] = [];
    for (const request of order === 'first' ? requests : requests.toReversed()) receipts.push(await apply(request));
    // The chunk that comes second finds the trace of the shared line.
    expect(receipts.map(({ counts }) => counts.newVerdicts + counts.alreadyThere)).toEqual([4, 4]);
    expect(store.posts.toSorted()).toEqual([a, b, c].map(idOf).toSorted());
    expect(receipts.map(({ spend }) => spend.calls)).toEqual([0, 0]);
    expect(receipts.map(({ batchSpend }) => batchSpend?.calls).toSorted()).toEqual([1, 2]);
    expect(store.values).toHaveLength(6);
    expect(written()).toBeCloseTo(
      receipts.reduce((sum, { batchSpend }) => sum + (batchSpend?.usd ?? 0), 0),
      8,
    );
  },
);

test('a chunk whose requests were not prepared, or whose job failed, is traced without verdicts', async () => {
  const lines = ['a', 'b'].map((name) => chatLine(name));
  const { memory, requests, prepare, apply, store } = rig([lines]);
  const [request] = requests as [ChunkRequest];
  await expect(apply(request)).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
  expect(store.posts).toHaveLength(2);
  const receipt = await memory.getJson('', workKeys.receipt('run', 0, 'evaluate', 0, 'apply-run-0-0'));
  expect(receipt).toMatchObject({ ok: false, log: { ok: true, counts: { written: 2 } } });
  // Preparing writes nothing to MLflow.
  const other = rig([lines]);
  await other.prepare(other.requests[0] as ChunkRequest);
  expect(other.store.posts).toEqual([]);
  other.end('Failed');
  await expect(other.apply(other.requests[0] as ChunkRequest)).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
  expect(other.store.posts).toHaveLength(2);
  // The next run asks about the traces, which have no verdict.
  expect((await prepare(request)).records).toBe(2);
});

test.each([1, 2])(
  'captures with the same request, in %d chunks, share a record and pay for it once',
  async (chunks) => {
    const same = [1, 2].map((n) => chatLine('same').replace('"eventId":"', `"eventId":"${n}`));
    const { requests, prepare, apply, end, written } = rig(chunks === 1 ? [same] : same.map((line) => [line]));
    const sum = (values: number[]): number => values.reduce((total, value) => total + value, 0);
    expect(sum(await Promise.all(requests.map(async (request) => (await prepare(request)).records)))).toBe(1);
    end();
    const receipts = await Promise.all(requests.map((request) => apply(request)));
    expect(sum(receipts.map(({ counts }) => counts.newVerdicts))).toBe(4);
    expect(sum(receipts.map(({ spend }) => spend.calls))).toBe(0);
    expect(sum(receipts.map(({ batchSpend }) => batchSpend?.calls ?? 0))).toBe(1);
    expect(written()).toBeCloseTo(sum(receipts.map(({ batchSpend }) => batchSpend?.usd ?? 0)), 8);
  },
);

test('a dry run counts a line once, and no line that is not a capture', async () => {
  const [a, b] = ['a', 'b'].map((name) => chatLine(name)) as [string, string];
  const { requests, memory } = rig([[a, 'no capture', a, b]]);
  const [request] = requests as [ChunkRequest];
  const dryRun = dryRunOf({ storage: memory.storage, environment, remainingMs: () => 900_000 }, request.options);
  await dryRun.add(request.chunk);
  expect(dryRun.result()).toMatchObject({ captures: 2, judgedCaptures: 2 });
});

test('a capture that provokes a fault in its request stops neither its chunk nor a dry run', async () => {
  const lines = ['a', 'odd', 'b'].map((name) => chatLine(name));
  const { requests, prepare, batch, memory } = rig([lines]);
  const [request] = requests as [ChunkRequest];
  const record: typeof batch.record = (recordId, capture, ...rest) => {
    if (JSON.stringify(capture.conversation).includes('odd')) throw new TypeError('is not iterable');
    return batch.record(recordId, capture, ...rest);
  };
  expect(await prepare(request, { record })).toMatchObject({ records: 2, held: [] });
  let read = 0;
  const faulty = Object.defineProperty({ ...environment }, 'MLFLOW_EVALUATION_MODEL_PARAM', {
    get: () => {
      read += 1;
      if (read === 2) throw new TypeError('is not iterable');
      return {};
    },
  });
  const dryRun = dryRunOf(
    { storage: memory.storage, environment: faulty, remainingMs: () => 900_000 },
    request.options,
  );
  await dryRun.add(request.chunk);
  expect(dryRun.result()).toMatchObject({ captures: 3, judgedCaptures: 2 });
});

test('of a chunk whose job failed, other chunks ask on demand at once, and a retry asks nothing that they were answered', async () => {
  const [a] = [chatLine('a')];
  const { requests, prepare, apply, end, memory, batch, store } = rig([[a], [a]]);
  const [first, second] = requests as [ChunkRequest, ChunkRequest];
  for (const request of requests) await prepare(request);
  end('Failed');
  await expect(apply(first)).rejects.toMatchObject({ name: 'JudgeBatchFailed' });
  memory.put(workKeys.batchJobs('run'), { jobs: [], converse: [{ group: 0, records: 1, reason: '' }] });
  const { judge, asks } = scriptedJudge();
  const online = Object.assign(Object.create(judge), { sourceId: batch.judge.sourceId });
  expect((await apply(second, { judge: online })).spend.calls).toBe(asks.length);
  // The verdicts are lost.
  for (const id of store.assessments.keys()) store.assessments.set(id, []);
  const retryOf = (run: string) => prepare({ ...first, run: 'retry', options: { ...first.options, continues: [run] } });
  expect([(await retryOf('another')).records, (await retryOf('run')).records]).toEqual([1, 0]);
});

test('a retry applies the answers of a job that the first run has not applied, and asks nothing again', async () => {
  const { requests, prepare, apply, end, memory } = rig([['a', 'b', 'c'].map((name) => chatLine(name))]);
  const [first] = requests as [ChunkRequest];
  await prepare(first);
  end();
  const retry = { ...first, run: 'retry', options: { ...first.options, continues: ['run'] } };
  expect(await prepare(retry)).toMatchObject({ records: 0 });
  memory.put(workKeys.batchJobs('retry'), { jobs: [], converse: [] });
  expect(await apply(retry)).toMatchObject({ counts: { newVerdicts: 6 }, spend: { calls: 0 } });
});

test('what an attempt has prepared goes before its money does, and more than a job takes is asked on demand', async () => {
  const { requests, prepare, memory } = rig([['a', 'b', 'c'].map((name) => chatLine(name))]);
  const [request] = requests as [ChunkRequest];
  const input = workKeys.batchInput('run', 0, 0);
  await prepare(request);
  expect(memory.objects.has(input)).toBe(true);
  const read = memory.read;
  memory.read = () => Promise.reject(new Error('S3 is away'));
  await expect(prepare(request)).rejects.toThrow('S3 is away');
  expect(memory.objects.has(input)).toBe(false);
  memory.read = read;
  const long = { modelInput: { text: 'x'.repeat(0.4 * MAX_INPUT_BYTES) } };
  const record = (recordId: string) => ({ recordId, ...long });
  expect(await prepare(request, { record })).toMatchObject({ records: 2 });
});
