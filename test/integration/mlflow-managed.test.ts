/** Tests with a double of SageMaker-managed MLflow: signed requests, no OTLP, spans written directly to S3. */
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { plannerDependencies } from '../../lambda/plan-captures/dependencies.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import { S3Wire } from '../doubles/s3-wire.ts';
import { MANAGED_CREDENTIALS, ManagedSuite } from '../helpers/mlflow-managed.ts';
import { chatTrace } from '../helpers/mlflow-traces.ts';
import { testEnvironment } from '../helpers/test-environment.ts';

let suite: ManagedSuite;
let managed: ManagedSuite['managed'];
let double: ManagedSuite['double'];

beforeAll(async () => {
  suite = await ManagedSuite.start();
  ({ managed, double } = suite);
});

afterAll(() => suite?.stop());

describe('the double of an app', () => {
  test('accepts writes and reads, and spans are in the artifact bucket', async () => {
    const { client } = suite;
    const experiment = await client.resolveExperiment('app + experiment');
    expect(experiment.artifactLocation).toBe(`s3://${managed.bucket}/mlflow app/${experiment.id}`);
    const trace = chatTrace(experiment.id, 'a');
    expect(await client.writeTraces(experiment, [trace])).toMatchObject({ written: [trace.traceId] });
    expect([...(await client.getTraces(experiment.id, [trace.traceId])).keys()]).toEqual([trace.traceId]);
    const prefix = `mlflow app/${experiment.id}/traces/${trace.traceId}/`;
    const listed = await managed.s3.send(new ListObjectsV2Command({ Bucket: managed.bucket, Prefix: prefix }));
    expect(listed.Contents?.map(({ Key }) => Key)).toEqual([`${prefix}artifacts/traces.json`]);
  });

  test('is used like the oldest version if it does not report its version', async () => {
    const client = suite.connect(await managed.startDouble({ hidesVersion: true }));
    const experiment = await client.resolveExperiment('no version');
    const trace = chatTrace(experiment.id, 'a');
    expect(await client.writeTraces(experiment, [trace])).toMatchObject({ written: [trace.traceId] });
    expect(await client.capabilities()).toMatchObject({ version: undefined, otlp: false });
  });
});

describe('an app with MLflow 3.0', () => {
  test('is refused by planning before anything is created, in MLflow or in the work bucket', async () => {
    const old = await managed.startDouble({ version: '3.0.0' });
    const client = suite.connect(old);
    const wire = await S3Wire.start();
    try {
      wire.put('b', 'p/a.jsonl', '{}\n');
      const request = {
        input: { bucket: 'b', prefix: 'p/' },
        run: { name: 'old', arn: 'arn:old', startTime: new Date().toISOString() },
        part: 0,
        nextChunk: 0,
        cursor: null,
      };
      const dependencies = { ...plannerDependencies(testEnvironment()), storage: wire.storage, store: client };
      const more = { checkJudgeModel: async () => undefined, remainingMs: () => 900_000 };
      const planning = planCaptures(request, { ...dependencies, ...more });
      await expect(planning).rejects.toMatchObject({
        name: 'MlflowTooOld',
        message: expect.stringMatching(
          /got: version 3\.0\.0; expected: version 3\.2 or newer, such as a SageMaker mlflow-app/,
        ),
      });
      expect(old.requests).toEqual([{ method: 'GET', path: '/version', status: 200 }]);
      expect(wire.keys('work')).toEqual([]);
    } finally {
      await wire.stop();
    }
  });
});

describe('the double', () => {
  test('refuses a signature by another key', async () => {
    const secretAccessKey = 'another';
    const client = suite.connect(double, { credentials: async () => ({ ...MANAGED_CREDENTIALS, secretAccessKey }) });
    await expect(client.resolveExperiment('other key')).rejects.toMatchObject({ name: 'MlflowAccessDenied' });
  });

  test('refuses expired credentials until they are renewed', async () => {
    const strict = await managed.startDouble();
    const renewed = { ...MANAGED_CREDENTIALS, sessionToken: 'renewed-token' };
    let current = MANAGED_CREDENTIALS;
    const client = suite.connect(strict, {
      credentials: async (options) => {
        if (options?.forceRefresh) {
          strict.setCredentials(renewed);
          current = renewed;
        }
        return current;
      },
    });
    strict.expire();
    await expect(client.resolveExperiment('renewed')).resolves.toMatchObject({ name: 'renewed' });
    expect(strict.requests[0]?.status).toBe(403);
  });
});
