/** Starting and checking the jobs of batch inference, with S3 in memory and a double of Bedrock. */
import {
  type BedrockClient,
  type CreateModelInvocationJobCommand,
  GetModelInvocationJobCommand,
} from '@aws-sdk/client-bedrock';
import { S3Client } from '@aws-sdk/client-s3';
import { CONTRACT } from '../../../src/contract/contract.ts';
import type { BatchReport } from '../../../src/contract/receipts.ts';
import { workKeys } from '../../../src/contract/work-keys.ts';
import { REFUSED_JOB } from '../../../src/monitoring/batch/answers.ts';
import { checkBatch, startBatch } from '../../../src/monitoring/batch/jobs.ts';
import { groupOf } from '../../../src/monitoring/batch/prepare.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';

const arnOf = (name: string): string => `arn:aws:bedrock:us-east-1:1:model-invocation-job/${name}`;

/** @param statuses the status that Bedrock reports for a job, by ARN */
function rig(statuses: Record<string, string> = {}) {
  const memory = new MemoryStorage();
  // Accepts every upload.
  const requestHandler = { handle: async () => ({ response: { statusCode: 200, headers: {}, reason: '' } }) };
  const credentials = { accessKeyId: 'a', secretAccessKey: 's' };
  const s3 = new S3Client({ region: 'us-east-1', credentials, requestHandler: requestHandler as never });
  const created: (string | undefined)[] = [];
  const checked: (string | undefined)[] = [];
  const bedrock = {
    send: async (command: CreateModelInvocationJobCommand | GetModelInvocationJobCommand) => {
      if (command instanceof GetModelInvocationJobCommand) {
        const arn = command.input.jobIdentifier ?? '';
        checked.push(arn);
        return { status: statuses[arn] };
      }
      created.push(command.input.inputDataConfig?.s3InputDataConfig?.s3Uri);
      return { jobArn: arnOf('new') };
    },
  };
  const deps = {
    storage: Object.assign(memory.storage, { s3 }),
    workBucket: 'work',
    bedrock: bedrock as unknown as BedrockClient,
    modelId: 'm',
    roleArn: 'role',
    pollSeconds: 60,
  };
  const report = () => memory.getJson<BatchReport>('', workKeys.batchJobs('run'));
  return { memory, deps, created, checked, report };
}

test('a group with Bedrock’s minimum of 100 records gets a job, and one with fewer is judged by Converse', async () => {
  const { memory, deps, created, report } = rig();
  const chunks = [
    { chunk: 0, records: 99 },
    { chunk: 100, records: 60 },
    { chunk: 101, records: 40 },
  ];
  memory.put(
    workKeys.manifest('run', 0),
    chunks.map(({ chunk }) => `${JSON.stringify({ contract: CONTRACT, chunk })}\n`).join(''),
  );
  for (const { chunk, records } of chunks) {
    const { size } = memory.put(workKeys.batchInput('run', groupOf(chunk), chunk), '{}\n'.repeat(records));
    memory.put(workKeys.batchPrepared('run', chunk), { records, bytes: size });
  }
  expect(await startBatch('run', deps)).toMatchObject({ outcome: 'waiting', pollSeconds: 60 });
  expect(await report()).toEqual({
    jobs: [{ group: 1, records: 100, arn: arnOf('new'), status: 'Submitted' }],
    converse: [{ group: 0, records: 99, reason: expect.stringContaining('at least 100 records') }],
  });
  expect(created).toEqual([`s3://work/${workKeys.batchInputPrefix('run', 1)}`]);
});

test('jobs are checked until all have ended, and one that has ended is not checked again', async () => {
  const statuses = { [arnOf('a')]: 'InProgress', [arnOf('b')]: 'Completed' };
  const { memory, deps, checked, report } = rig(statuses);
  const job = (group: number, arn: string, status: string) => ({ group, records: 100, arn, status });
  memory.put(workKeys.batchJobs('run'), {
    jobs: [job(0, arnOf('a'), 'Submitted'), job(1, arnOf('b'), 'Submitted'), job(2, '', REFUSED_JOB)],
    converse: [],
  });
  expect((await checkBatch('run', deps)).outcome).toBe('waiting');
  expect(checked.splice(0)).toEqual([arnOf('a'), arnOf('b')]);
  statuses[arnOf('a')] = 'PartiallyCompleted';
  expect((await checkBatch('run', deps)).outcome).toBe('ready');
  expect(checked).toEqual([arnOf('a')]);
  expect((await report())?.jobs.map(({ status }) => status)).toEqual(['PartiallyCompleted', 'Completed', REFUSED_JOB]);
});
