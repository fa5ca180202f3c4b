/** Tests with a double of SageMaker-managed MLflow: signed requests, no OTLP, spans written directly to S3. */
import { request } from 'node:http';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { plannerDependencies } from '../../lambda/plan-captures/dependencies.ts';
import { sigV4Authorizer } from '../../src/mlflow/auth.ts';
import { createMlflowClient, type MlflowClient } from '../../src/mlflow/client.ts';
import { type ManagedMlflowTarget, parseTrackingUri } from '../../src/mlflow/tracking-uri.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import { S3Wire } from '../doubles/s3-wire.ts';
import { MANAGED_CREDENTIALS, ManagedSuite } from '../helpers/mlflow-managed.ts';
import { chatTrace } from '../helpers/mlflow-traces.ts';
import { testEnvironment } from '../helpers/test-environment.ts';

let suite: ManagedSuite;
let managed: ManagedSuite['managed'];
let double: ManagedSuite['double'];
const clients: MlflowClient[] = [];

beforeAll(async () => {
  suite = await ManagedSuite.start();
  ({ managed, double } = suite);
});

afterAll(async () => {
  for (const client of clients) client.close();
  await suite?.stop();
});

describe('the double of an app', () => {
  test('spans are stored in the artifact bucket', async () => {
    const experiment = await suite.client.resolveExperiment('in the bucket');
    expect(experiment.artifactLocation).toBe(`s3://${managed.bucket}/mlflow app/${experiment.id}`);
    const trace = chatTrace(experiment.id, 'a');
    await suite.client.writeTraces(experiment, [trace]);
    const prefix = `mlflow app/${experiment.id}/traces/${trace.traceId}/`;
    const listed = await managed.s3.send(new ListObjectsV2Command({ Bucket: managed.bucket, Prefix: prefix }));
    expect(listed.Contents?.map(({ Key }) => Key)).toEqual([`${prefix}artifacts/traces.json`]);
  });

  test('accepts writes and reads', async () => {
    const { client } = suite;
    const experiment = await client.resolveExperiment('app + experiment');
    const trace = chatTrace(experiment.id, 'a');
    expect(await client.writeTraces(experiment, [trace])).toMatchObject({ written: [trace.traceId] });
    expect([...(await client.getTraces(experiment.id, [trace.traceId])).keys()]).toEqual([trace.traceId]);
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
  const target = () => parseTrackingUri(double.arn, double.url) as ManagedMlflowTarget;

  /** Sends a request with the headers of a signed one, and returns the status. */
  async function send(changes: {
    body?: string;
    path?: string;
    header?: [string, string | undefined];
  }): Promise<number> {
    const body = '{"max_results":1,"locations":[]}';
    const path = '/api/3.0/mlflow/traces/search';
    const url = new URL(path, double.url);
    const authorizer = sigV4Authorizer(target(), async () => MANAGED_CREDENTIALS);
    const headers: Record<string, string | undefined> = await authorizer.authorize({
      method: 'POST',
      url,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(body),
    });
    if (changes.header) headers[changes.header[0]] = changes.header[1];
    const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
    return new Promise((resolve, reject) => {
      const call = request(new URL(changes.path ?? path, url), { method: 'POST', headers: given }, (reply) => {
        reply.resume();
        resolve(reply.statusCode ?? 0);
      });
      call.on('error', reject);
      call.end(changes.body ?? body);
    });
  }

  test('refuses one changed byte in the body, the path, the date or the ARN', async () => {
    expect(await send({})).toBe(200);
    expect(await send({ body: '{"max_results":2,"locations":[]}' })).toBe(403);
    expect(await send({ path: '/api/3.0/mlflow/traces/searcH' })).toBe(403);
    expect(await send({ header: ['x-amz-date', '20261120T000000Z'] })).toBe(403);
    expect(await send({ header: ['x-sm-mlflow-app-arn', `${double.arn}x`] })).toBe(403);
    expect(await send({ header: ['authorization', undefined] })).toBe(403);
  });

  test('refuses expired credentials until they are renewed', async () => {
    const strict = await managed.startDouble();
    const renewed = { ...MANAGED_CREDENTIALS, sessionToken: 'renewed-token' };
    let current = MANAGED_CREDENTIALS;
    const client = createMlflowClient({
      trackingUri: strict.arn,
      customEndpoint: strict.url,
      credentials: async (options) => {
        if (options?.forceRefresh) {
          strict.setCredentials(renewed);
          current = renewed;
        }
        return current;
      },
    });
    clients.push(client);
    strict.expire();
    await expect(client.resolveExperiment('renewed')).resolves.toMatchObject({ name: 'renewed' });
    expect(strict.requests[0]?.status).toBe(403);
  });
});
