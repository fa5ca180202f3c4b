/** Tests of the command `ground-truth`: labels of this machine and of S3, joined to predictions of a processed capture file. */
import { dirname } from 'node:path';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import groundTruthCommand from '../../../bin/commands/ground-truth.ts';
import { expectPublished } from '../../helpers/published-json.ts';
import { environment, HOUR, local, pipeline, run } from './stack.ts';

/** A call of a classifier with two rows, of which the first one is the positive class. */
const call = (id: string): string => {
  const side = (mode: string, data: string) => ({ observedContentType: 'text/csv', mode, data, encoding: 'CSV' });
  return JSON.stringify({
    captureData: { endpointInput: side('INPUT', '1,2\n3,4\n'), endpointOutput: side('OUTPUT', '0.9\n0.2\n') },
    eventMetadata: { eventId: `event-${id}`, inferenceId: id, inferenceTime: '2026-11-20T10:05:00Z' },
    eventVersion: '0',
  });
};

const calls = Array.from({ length: 4 }, (_, at) => `truth-${at}`);
const quality = async (...args: string[]) => {
  const { stdout } = await run(groundTruthCommand(), '--json', ...args);
  return ((await expectPublished('ground-truth', stdout)) as { quality: { groups: { rows: number }[] } }).quality;
};

describe('ground-truth', () => {
  beforeAll(() => pipeline.process(`${HOUR}/truth.jsonl`, calls.map(call)));

  test('says that there are no labels, and how to give some', async () => {
    const { error } = await run(groundTruthCommand(), '--from', '1d');
    expect(error).toMatchObject({ name: 'NoLabels', message: expect.stringContaining('give a label file') });
  });

  test('joins a file, prints the outcome of each line and the figures, and changes nothing when it is repeated', async () => {
    const lines = 'inference_id,label truth-0_0,1 truth-0_1,0 truth-1_0,0 never-seen,1 ,1'.split(' ');
    const path = local('desk.csv', lines);
    const first = await run(groundTruthCommand(), path);
    expect(first.code).toBe(1);
    expect(first.stderr).toMatch(/^1 label file, 71 bytes$/m);
    expect(first.stdout).toMatch(/^file +lines +joined +waiting +invalid\ndesk\.csv +5 +3 +1 +1$/m);
    expect(first.stdout).toMatch(/^desk\.csv:6: NotALabel: it has no id$/m);
    expect(first.stdout).toMatch(/^3 labels were written to MLflow/m);
    expect(first.stdout).toMatch(/^1 label of 1 file has no matching prediction yet \(waiting since /m);
    expect(first.stdout).toMatch(/^all +3 +66\.7% \(/m);
    const again = await run(groundTruthCommand(), path);
    expect(again.stdout).toMatch(/^desk\.csv +5 +3 +1 +1$/m);
    expect(await quality()).toMatchObject({ kind: 'classes', groups: [{ rows: 3 }] });
  });

  test('reads a folder and an address in S3, and a later label replaces an earlier one', async () => {
    const later = dirname(local('later/a.jsonl', ['{"id":"truth-1_0","label":1}']));
    local('later/b.jsonl.md', ['no labels']);
    const { stdout, code } = await run(groundTruthCommand(), later, '--json');
    expect(code).toBe(0);
    expect(((await expectPublished('ground-truth', stdout)) as { run: object }).run).toMatchObject({
      status: 'succeeded',
      files: [{ counts: { lines: 1, replaced: 1 }, replacedLabels: [{ id: 'truth-1_0', from: 0, to: 1 }] }],
    });
    const Body =
      '{"groundTruthData":{"data":"0","encoding":"CSV"},"eventMetadata":{"eventId":"truth-2_1"},"eventVersion":"0"}\n';
    const place = { Bucket: pipeline.outputs.captureBucket, Key: 'elsewhere/c d.jsonl' };
    await environment.clients.s3.send(new PutObjectCommand({ ...place, Body }));
    const copied = await run(groundTruthCommand(), `s3://${place.Bucket}/elsewhere/`);
    expect(copied.stdout).toMatch(/^c d\.jsonl +1 +1$/m);
    const day = ['--from', '2026-11-20', '--to', '2026-11-21', '--by', 'day', '--variant', 'AllTraffic'];
    const groups = [{ group: '2026-11-20', rows: 4, measures: { accuracy: { value: 1 } } }];
    expect(await quality(...day)).toMatchObject({ by: 'day', groups });
  });

  test.each<[string, () => string[], string, RegExp]>([
    ['a path that is not there', () => ['no-such.csv'], 'LabelsMissing', /it does not exist/],
    ['a file of another kind', () => [local('labels.txt', ['x'])], 'LabelsMissing', /\.jsonl, \.json or \.csv/],
    ['an object that is not there', () => ['s3://sagemaker-captures/no-such.csv'], 'LabelsMissing', /no file/],
    ['labels beside --run', () => ['a.csv', '--run', 'r'], 'LabelsMissing', /--run alone/],
    ['a run that is not there', () => ['--run', 'no-such-run'], 'NoSuchRun', /such as/],
    ['a period that there is not', () => ['--by', 'week'], 'CommanderError', /hour, day, variant/],
  ])('refuses %s', async (_, args, name, message) => {
    const { error, stdout } = await run(groundTruthCommand(), ...args());
    expect(error?.message).toMatch(message);
    expect(error?.name).toBe(name);
    expect(stdout).toBe('');
  });
});
