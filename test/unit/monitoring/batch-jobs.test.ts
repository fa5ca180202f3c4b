/** Starting and checking the jobs of a run, with S3 in memory and a double of Bedrock. */
import {
  type BedrockClient,
  type CreateModelInvocationJobCommand,
  GetModelInvocationJobCommand,
} from '@aws-sdk/client-bedrock';
import type { BatchReport } from '../../../src/core/contract/receipts.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { drainThrottles } from '../../../src/core/process/throttles.ts';
import { WAITING_JOB } from '../../../src/monitoring/batch/answers.ts';
import { groupOf } from '../../../src/monitoring/batch/groups.ts';
import { checkBatch } from '../../../src/monitoring/batch/jobs.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { putPlan } from '../../helpers/planned-run.ts';

/** The requests of a chunk. */
interface Chunk {
  chunk: number;
  records: number;
}

/** Prepared chunks, and Bedrock with a quota. A job that was created has the status of its ARN, by default `InProgress`. */
function rig(chunks: Chunk[], { quota = 20 } = {}) {
  const memory = new MemoryStorage();
  const statuses: Record<string, string> = {};
  const tokens = new Map<string | undefined, string>();
  const inputs: (string | undefined)[] = [];
  const asked: (string | undefined)[] = [];
  const checked: string[] = [];
  const refused: string[] = [];
  const ended = ['Completed', 'Failed', 'Expired'];
  const bedrock = {
    send: async (command: CreateModelInvocationJobCommand | GetModelInvocationJobCommand) => {
      if (command instanceof GetModelInvocationJobCommand) {
        const arn = command.input.jobIdentifier ?? '';
        checked.push(arn);
        return { status: statuses[arn], ...(statuses[arn] === 'Completed' && { errorRecordCount: 3 }) };
      }
      const { clientRequestToken, inputDataConfig } = command.input;
      const known = tokens.get(clientRequestToken);
      if (known !== undefined) return { jobArn: known };
      if (Object.values(statuses).filter((status) => !ended.includes(status)).length >= quota) {
        refused.push(clientRequestToken ?? '');
        const error = Object.assign(new Error('Too many jobs.'), { name: 'ServiceQuotaExceededException' });
        throw Object.assign(error, { $metadata: { httpStatusCode: 400 } });
      }
      const arn = `arn:aws:bedrock:us-east-1:1:model-invocation-job/job${tokens.size}`;
      tokens.set(clientRequestToken, arn);
      statuses[arn] = 'InProgress';
      inputs.push(inputDataConfig?.s3InputDataConfig?.s3Uri);
      asked.push(command.input.modelId);
      return { jobArn: arn };
    },
  };
  const deps = {
    storage: memory.storage,
    workBucket: 'work',
    bedrock: bedrock as unknown as BedrockClient,
    modelId: 'm',
    roleArn: 'role',
    pollSeconds: 60,
  };
  putPlan(memory, 'run', [chunks.map(({ chunk }) => ({ chunk }))]);
  for (const { chunk, records } of chunks)
    if (records > 0) memory.put(workKeys.batchPrepared('run', chunk), { records });
  const report = async () => (await memory.getJson<BatchReport>('', workKeys.batchJobs('run'))) as BatchReport;
  const counts = async () =>
    [...Map.groupBy((await report()).jobs, ({ status }) => status)].map(([status, jobs]) => [status, jobs.length]);
  return { memory, deps, statuses, inputs, asked, checked, refused, report, counts };
}

const chunksOf = (count: number, records: number): Chunk[] =>
  Array.from({ length: count }, (_, chunk) => ({ chunk, records }));

test('a hundred chunks share a job, which has at most 50,000 records, and a chunk that asks nothing is passed over', async () => {
  const full = 100 * 500;
  const { deps, report, inputs } = rig([
    ...chunksOf(200, 500),
    { chunk: 200, records: 0 },
    { chunk: 201, records: 100 },
  ]);
  expect(await checkBatch('run', deps)).toMatchObject({ outcome: 'waiting', pollSeconds: 60 });
  const { jobs, converse } = await report();
  expect(jobs.map(({ group, records }) => [group, records])).toEqual([
    [0, full],
    [1, full],
    [2, 100],
  ]);
  expect(converse).toEqual([]);
  expect([0, 99, 100, 201].map(groupOf)).toEqual([0, 0, 1, 2]);
  expect(inputs).toEqual([0, 1, 2].map((group) => `s3://work/${workKeys.batchInputPrefix('run', group)}`));
});

test('a run without chunks needs no job', async () => {
  expect(await checkBatch('run', rig([]).deps)).toMatchObject({ outcome: 'empty' });
});

test('of 23 jobs 20 are under way, and the others start as jobs end, fail or expire, and nothing is refused', async () => {
  const { deps, statuses, report, counts, checked } = rig(chunksOf(2_300, 5), { quota: 99 });
  expect(await checkBatch('run', deps)).toMatchObject({ outcome: 'waiting' });
  expect(await counts()).toEqual([
    ['Submitted', 20],
    [WAITING_JOB, 3],
  ]);
  const [first, second, third] = Object.keys(statuses) as [string, string, string];
  Object.assign(statuses, { [first]: 'Completed', [second]: 'Expired' });
  expect(await checkBatch('run', deps)).toMatchObject({ outcome: 'waiting' });
  expect(Object.fromEntries(await counts())).toEqual({
    Completed: 1,
    Expired: 1,
    InProgress: 18,
    Submitted: 2,
    [WAITING_JOB]: 1,
  });
  statuses[third] = 'Failed';
  await checkBatch('run', deps);
  for (const arn of Object.keys(statuses)) if (statuses[arn] === 'InProgress') statuses[arn] = 'Completed';
  checked.length = 0;
  expect(await checkBatch('run', deps)).toMatchObject({ outcome: 'ready' });
  expect(Object.fromEntries(await counts())).toEqual({ Completed: 21, Expired: 1, Failed: 1 });
  expect((await report()).jobs.filter(({ errors }) => errors === 3)).toHaveLength(21);
  // Those that had ended were not asked about again.
  expect(checked).toHaveLength(20);
});

test('a check is repeated while other runs use up the quota, and starts the next jobs when one of its own has ended', async () => {
  drainThrottles();
  const { deps, statuses, counts, report, refused } = rig(chunksOf(101, 499), { quota: 1 });
  statuses.other = 'InProgress';
  await expect(checkBatch('run', deps)).rejects.toMatchObject({
    name: 'JudgeThrottled',
    message: expect.stringContaining('ServiceQuotaExceededException'),
  });
  expect((await report()).jobs).toMatchObject([{ status: WAITING_JOB, arn: '' }, { status: WAITING_JOB }]);
  // Where there is no place for one, there is none for the next.
  expect(refused).toHaveLength(1);
  statuses.other = 'Completed';
  expect(await checkBatch('run', deps)).toMatchObject({ outcome: 'waiting' });
  expect((await report()).jobs).toMatchObject([{ status: 'Submitted' }, { status: WAITING_JOB }]);
  expect(await checkBatch('run', deps)).toMatchObject({ outcome: 'waiting' });
  const [first] = Object.keys(statuses).filter((arn) => arn !== 'other') as [string];
  statuses[first] = 'Completed';
  await checkBatch('run', deps);
  expect(Object.fromEntries(await counts())).toEqual({ Completed: 1, Submitted: 1 });
  // Bedrock said three times that there is no place, for the alarm.
  expect(drainThrottles()).toMatchObject({ judge: 3 });
});

test('the wait between two checks grows with the time so far', async () => {
  const { deps, memory } = rig(chunksOf(1, 1));
  const job = { group: 0, records: 200, arn: '', status: WAITING_JOB };
  const startedAt = new Date(Date.now() - 73 * 3_600_000).toISOString();
  memory.put(workKeys.batchJobs('run'), { jobs: [job], converse: [], startedAt });
  expect(await checkBatch('run', deps)).toMatchObject({ outcome: 'waiting', pollSeconds: 900 });
});

test('what is below the minimum of a job is asked on demand, in words', async () => {
  const { deps, report, inputs } = rig(chunksOf(37, 1));
  expect(await checkBatch('run', deps)).toMatchObject({ outcome: 'ready' });
  expect(await report()).toMatchObject({
    jobs: [],
    converse: [{ records: 37, reason: "asked on demand: 37 captures are under batch's minimum of 100" }],
  });
  expect(inputs).toEqual([]);
});

test('while Bedrock does not answer, the check is repeated, and what it began before is kept', async () => {
  const { deps, report, statuses } = rig([{ chunk: 0, records: 200 }]);
  const { send } = deps.bedrock;
  const away = async () => {
    throw Object.assign(new Error('…'), { name: 'InternalServerException', $metadata: { httpStatusCode: 500 } });
  };
  deps.bedrock.send = away as never;
  await expect(checkBatch('run', deps)).rejects.toMatchObject({ name: 'JudgeUnavailable' });
  deps.bedrock.send = send;
  expect((await checkBatch('run', deps)).outcome).toBe('waiting');
  deps.bedrock.send = away as never;
  await expect(checkBatch('run', deps)).rejects.toMatchObject({ name: 'JudgeUnavailable' });
  expect((await report()).jobs).toMatchObject([{ status: 'Submitted' }]);
  deps.bedrock.send = send;
  for (const arn of Object.keys(statuses)) statuses[arn] = 'Completed';
  expect((await checkBatch('run', deps)).outcome).toBe('ready');
});

test('a start that fails starts no job', async () => {
  const { deps, inputs, memory } = rig(chunksOf(3, 200));
  const { getJson } = deps.storage;
  deps.storage.getJson = async (_: string, key: string) => {
    if (key.includes('/prepared/')) throw new Error('S3 is away');
    return getJson.call(memory, '', key) as never;
  };
  await expect(checkBatch('run', deps)).rejects.toThrow('S3 is away');
  expect(inputs).toEqual([]);
});

test('a job that was created before its function was killed is not created again', async () => {
  const { deps, report, inputs } = rig(chunksOf(200, 30));
  const { putJson } = deps.storage;
  let writes = 0;
  deps.storage.putJson = async (...args: Parameters<typeof putJson>) => {
    writes += 1;
    // Killed between the request to Bedrock and the state that names the jobs.
    if (writes === 2) throw new Error('killed');
    return putJson.apply(deps.storage, args);
  };
  await expect(checkBatch('run', deps)).rejects.toThrow('killed');
  expect(inputs).toHaveLength(2);
  expect((await report()).jobs.map(({ arn }) => arn)).toEqual(['', '']);
  expect(await checkBatch('run', deps)).toMatchObject({ outcome: 'waiting' });
  expect(inputs).toHaveLength(2);
  expect(new Set((await report()).jobs.map(({ arn }) => arn)).size).toBe(2);
});
