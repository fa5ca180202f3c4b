/** Runs that are planned in several parts, deployed: a planner with little time and a slow S3 ends a part after a few files. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { HistoryEvent } from '@aws-sdk/client-sfn';
import { areaOf } from '../../src/core/contract/work-keys.ts';
import { type FaultProxy, startFaultProxy } from '../doubles/fault-proxy.ts';
import { BatchStack, summaryOf } from '../helpers/deployed-batch.ts';
import { chatLine } from '../helpers/deployed-captures.ts';

const FILES = 240;
/** Of reading a capture file. The planner reads 32 files at a time, each once or twice. */
const READ_MS = 1_000;
/** The planner reserves 30 of them to finish a part. */
const PLANNER_SECONDS = 35;

let stack: BatchStack;
let s3: FaultProxy;
beforeAll(async () => {
  stack = await BatchStack.deploy();
  const { pipeline, environment } = stack;
  s3 = await startFaultProxy(environment.ministack.url);
  s3.inject(({ method, path }) =>
    method === 'GET' && path.includes('.jsonl') && path.includes(pipeline.outputs.captureBucket)
      ? { kind: 'passThen', work: () => sleep(READ_MS) }
      : undefined,
  );
  await pipeline.setVariable('planner', 'AWS_ENDPOINT_URL_S3', s3.url);
  await pipeline.setTimeout('planner', PLANNER_SECONDS);
});
afterAll(async () => {
  await stack?.stop();
  await s3?.stop();
});
beforeEach(() => stack.reset());

/** Puts files of one line. @returns the input of a run over them */
async function putHour(hour: number): Promise<object> {
  const folder = `batch-endpoint/AllTraffic/2026/11/20/${hour}/`;
  for (let file = 0; file < FILES; file += 1) {
    await stack.pipeline.put(`${folder}${file}.jsonl`, [chatLine(`${hour}-${file}`)]);
  }
  return { bucket: stack.pipeline.outputs.captureBucket, prefix: folder };
}

const timeOf = (event: HistoryEvent | undefined): number => event?.timestamp?.getTime() ?? Number.NaN;

test('a part is planned while the part before it runs, and all parts are one run', async () => {
  stack.environment.judge.behave({ delayMs: 4_000 });
  const outcome = await stack.run(await putHour(10));
  expect(summaryOf(outcome)).toMatchObject({ lines: { traced: FILES, lost: 0 }, verdicts: { lost: 0 } });
  const [own = [], ...chunks] = await stack.pipeline.childHistories(outcome.arn);
  const since = own.findIndex(({ stateEnteredEventDetails }) => stateEnteredEventDetails?.name === 'RunAndPlan');
  const planned = timeOf(own.slice(since).find(({ type }) => type === 'TaskSucceeded'));
  const during = chunks.filter((events) => timeOf(events[0]) < planned && planned < timeOf(events.at(-1)));
  expect([since > 0, during.length > 0]).toEqual([true, true]);
});

test('the captures of all parts are traced when batch jobs cannot be started or checked', async () => {
  const { workBucket } = stack.pipeline.outputs;
  const input = await putHour(11);
  await stack.pipeline.setVariable('batcher', 'WORK_BUCKET', 'no-such-bucket');
  try {
    const failed = await stack.run({ ...input, judge: 'batch' });
    expect(failed.status).toBe('FAILED');
    expect(failed.summary).toMatchObject({ lines: { traced: FILES, lost: 0 }, spend: { calls: 1 } });
    expect(await stack.pipeline.readWork(areaOf('plan', failed.name))).not.toHaveLength(1);
    // The question that no capture writes, which finds out what the model refuses.
    expect([stack.environment.judge.batch.records, stack.environment.judge.counts.calls]).toEqual([0, 1]);
  } finally {
    await stack.pipeline.setVariable('batcher', 'WORK_BUCKET', workBucket);
  }
});
