/** Tests of single calls: retries, timeouts, connections, credentials, and named errors. */
import { freePort } from '../../../local/machine/free-port.ts';
import { drainThrottles } from '../../../src/core/process/throttles.ts';
import { MANAGED_ARN, MANAGED_CREDENTIALS } from '../../helpers/mlflow-managed.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';

const FAST = { baseMs: 5, capMs: 20 };
const mlflow = useScriptedMlflow({ retry: FAST });
const { connect } = mlflow;
beforeEach(() => mlflow.start());

/** Answers the first requests with this behavior, and later ones normally. */
const first = (...statuses: number[]) =>
  mlflow.server.fault((_request, ordinal) => {
    const status = statuses[ordinal];
    return status === undefined ? undefined : { kind: 'reply', status };
  });

test('each request waits for the rate limit of the stack, and throttled ones are counted', async () => {
  drainThrottles();
  first(429, 503);
  const rate = { acquire: jest.fn(async () => {}), give: () => {} };
  await connect({ limits: { rate } }).getExperiment('7');
  expect(rate.acquire.mock.calls).toEqual([[1], [1], [1]]);
  expect(drainThrottles()).toEqual({ judge: 0, mlflow: 1, storage: 0, table: 0, chunks: 0 });
});

describe('retries transient failures', () => {
  test.each([500, 502, 503, 504, 408, 429])('%i', async (status) => {
    first(status, status);
    await expect(connect().getExperiment('7')).resolves.toMatchObject({ id: '7' });
    expect(mlflow.server.requests).toHaveLength(3);
  });

  test.each(['<html>We are back soon</html>', '{"hello":"world"}', ''])('status 200 with %j', async (body) => {
    mlflow.server.fault((_request, ordinal) => (ordinal < 2 ? { kind: 'reply', status: 200, body } : undefined));
    expect(await connect().getTraces('7', ['tr-1'])).toEqual(new Map());
    mlflow.server.refuse(() => true, 200, body);
    await expect(connect().getExperiment('7')).rejects.toMatchObject({ name: 'MlflowUnavailable' });
  });

  test('a broken connection', async () => {
    mlflow.server.fault((_request, ordinal) => (ordinal < 2 ? { kind: 'cut' } : undefined));
    await expect(connect().getExperiment('7')).resolves.toMatchObject({ id: '7' });
  });

  test('but knows that a request may have had an effect if the connection broke after it', async () => {
    mlflow.server.fault(() => ({ kind: 'cut' }));
    await expect(connect({ retry: { ...FAST, attempts: 1 } }).getExperiment('7')).rejects.toMatchObject({
      name: 'MlflowUnavailable',
      outcome: 'unknown',
    });
  });

  test('a body that never ends', async () => {
    mlflow.server.fault((_request, ordinal) => (ordinal < 1 ? { kind: 'slowBody' } : undefined));
    await expect(connect({ timeoutMs: 150 }).getExperiment('7')).resolves.toMatchObject({ id: '7' });
  });

  test('as often as the policy allows', async () => {
    mlflow.server.refuse(() => true, 502, 'bad gateway');
    await expect(connect({ retry: { ...FAST, attempts: 4 } }).getExperiment('7')).rejects.toMatchObject({
      name: 'MlflowUnavailable',
      message: expect.stringContaining('HTTP 502'),
    });
    expect(mlflow.server.requests).toHaveLength(4);
  });

  test('a server that is unreachable', async () => {
    const trackingUri = `http://127.0.0.1:${await freePort()}`;
    await expect(connect({ trackingUri, retry: { ...FAST, attempts: 2 } }).getExperiment('7')).rejects.toMatchObject({
      name: 'MlflowUnavailable',
      message: expect.stringContaining('ECONNREFUSED'),
      outcome: 'none',
    });
  });
});

describe('Retry-After', () => {
  const throttle = (after: string) =>
    mlflow.server.fault((_request, ordinal) =>
      ordinal === 0 ? { kind: 'reply', status: 429, headers: { 'retry-after': after } } : undefined,
    );

  test.each([
    ['in seconds', () => '1'],
    // It has whole seconds, so at least one of the two seconds remains.
    ['as a date', () => new Date(Date.now() + 2_000).toUTCString()],
  ])('delays the next attempt: %s', async (_, after) => {
    throttle(after());
    const started = performance.now();
    await connect().getExperiment('7');
    expect(performance.now() - started).toBeGreaterThanOrEqual(990);
  });

  test('is left to the caller if it is too long', async () => {
    throttle('120');
    await expect(connect().getExperiment('7')).rejects.toMatchObject({
      name: 'MlflowThrottled',
      retryAfterMs: 120_000,
    });
    expect(mlflow.server.requests).toHaveLength(1);
  });
});

test('the breaker is told of each reply, except that of a server that fails', async () => {
  const statuses = [429, 503, 429, 200];
  mlflow.server.fault((_request, ordinal) =>
    statuses[ordinal] === 200 ? undefined : { kind: 'reply', status: statuses[ordinal] ?? 500 },
  );
  const report = jest.fn(async () => {});
  const breaker = { openUntilMs: undefined, forDay: false, check: async () => undefined, report };
  await connect({ limits: { breaker } }).getExperiment('7');
  expect(report.mock.calls).toEqual([['throttled'], ['throttled'], ['answered']]);
});

describe('does not retry permanent failures', () => {
  const refuse = (status: number, body: string, headers = {}) =>
    mlflow.server.fault(() => ({ kind: 'reply', status, body, headers }));

  test.each([401, 403])('%i is denied access, with a hint about what to check', async (status) => {
    refuse(status, 'no');
    await expect(connect().getExperiment('7')).rejects.toMatchObject({
      name: 'MlflowAccessDenied',
      message: expect.stringContaining('MLFLOW_SECRET_ARN'),
    });
    expect(mlflow.server.requests).toHaveLength(1);
  });

  test('400', async () => {
    refuse(400, '{"error_code":"INVALID_PARAMETER_VALUE","message":"Bad id"}');
    await expect(connect().getExperiment('x')).rejects.toMatchObject({
      name: 'MlflowRefused',
      errorCode: 'INVALID_PARAMETER_VALUE',
      message: expect.stringContaining('HTTP 400, INVALID_PARAMETER_VALUE'),
    });
    expect(mlflow.server.requests).toHaveLength(1);
  });

  test('a redirect', async () => {
    refuse(302, '', { location: 'https://login.example.com' });
    await expect(connect().getExperiment('7')).rejects.toMatchObject({
      name: 'MlflowBadReply',
      message: expect.stringContaining('https://login.example.com'),
    });
    expect(mlflow.server.requests).toHaveLength(1);
    refuse(302, '');
    await expect(connect().getExperiment('7')).rejects.toMatchObject({ name: 'MlflowBadReply' });
  });
});

describe('connections', () => {
  test('are kept alive', async () => {
    const client = connect();
    for (let n = 0; n < 20; n += 1) await client.getExperiment('7');
    expect(mlflow.server.connections()).toBe(1);
  });

  test('are opened again after the server has closed them', async () => {
    const client = connect();
    await client.getExperiment('7');
    mlflow.server.fault((request) => {
      const answer = mlflow.server.take(request);
      return answer.kind === 'reply' ? { ...answer, headers: { connection: 'close' } } : answer;
    });
    await client.getExperiment('7');
    await client.getExperiment('7');
    expect(mlflow.server.connections()).toBe(2);
  });
});

describe('the address', () => {
  test('can contain a path', async () => {
    await connect({ trackingUri: `${mlflow.server.url}/team/` }).getExperiment('7');
    expect(mlflow.server.requests[0]?.path).toBe('/team/api/2.0/mlflow/experiments/get?experiment_id=7');
  });

  test('encodes spaces in a query as %20', async () => {
    await connect().resolveExperiment('a b+c');
    expect(mlflow.server.requests.at(-2)?.path).toMatch(/\?experiment_name=a%20b%2Bc$/);
  });
});

describe('credentials', () => {
  test('sends the secret of a URL', async () => {
    await connect({ secret: { token: 't' } }).getExperiment('7');
    expect(mlflow.server.requests[0]?.headers.authorization).toBe('Bearer t');
  });

  const managed = (retry = FAST) => {
    const asked: boolean[] = [];
    const client = connect({
      trackingUri: MANAGED_ARN,
      customEndpoint: mlflow.server.url,
      retry,
      credentials: async (options) => {
        asked.push(options?.forceRefresh === true);
        return MANAGED_CREDENTIALS;
      },
    });
    return { client, asked };
  };
  const expired = {
    kind: 'reply',
    status: 403,
    headers: { 'x-amzn-errortype': 'ExpiredTokenException' },
    body: '{"message":"The security token included in the request is expired"}',
  } as const;

  test('are refreshed after they have expired', async () => {
    mlflow.server.fault((_request, ordinal) => (ordinal === 0 ? expired : undefined));
    const { client, asked } = managed();
    for (let n = 0; n < 2; n += 1) await client.getExperiment('7');
    expect(asked).toEqual([false, true, false]);
  });

  test('cause a retryable error if they stay expired', async () => {
    mlflow.server.fault(() => expired);
    const { client } = managed({ ...FAST, attempts: 2 } as typeof FAST);
    await expect(client.getExperiment('7')).rejects.toMatchObject({ name: 'CredentialsExpired' });
  });
});

describe('the capabilities of the server', () => {
  test.each([
    ...['3.2.0', '3.4.0', '3.10.1', '3.11.1', '3.13.0', '3.14.0', '3.16.0'].map((version) => [version, false]),
    ...['3.17.2', '4.0.0'].map((version) => [version, true]),
  ] as [string, boolean][])('are those of its version %s', async (version, otlp) => {
    mlflow.server.fault(() => ({ kind: 'reply', status: 200, body: version }));
    await expect(connect().capabilities()).resolves.toEqual({ version, otlp });
  });

  test.each(['2.22.4', '3.0.0', '3.1.4'])('are too few in version %s', async (body) => {
    mlflow.server.fault(() => ({ kind: 'reply', status: 200, body }));
    await expect(connect().capabilities()).rejects.toMatchObject({ name: 'MlflowTooOld' });
  });

  test('are requested once, even by concurrent calls', async () => {
    const client = connect();
    await Promise.all([client.capabilities(), client.capabilities()]);
    await client.capabilities();
    expect(mlflow.server.to('/version')).toHaveLength(1);
  });

  test('are requested again after a failure', async () => {
    const client = connect({ retry: { ...FAST, attempts: 1 } });
    first(503);
    await expect(client.capabilities()).rejects.toMatchObject({ name: 'MlflowUnavailable' });
    await expect(client.capabilities()).resolves.toMatchObject({ version: '3.17.2' });
  });

  test.each([
    ['404', { kind: 'reply', status: 404 } as const],
    ['a page', { kind: 'reply', status: 200, body: '<html></html>' } as const],
  ])('are those of the oldest version for a reply with %s', async (_name, answer) => {
    mlflow.server.fault(() => answer);
    await expect(connect().capabilities()).resolves.toMatchObject({ version: undefined, otlp: false });
  });
});

describe('experiments', () => {
  const reply = (status: number, value: unknown) => ({ kind: 'reply', status, body: JSON.stringify(value) }) as const;
  const experiment = (stage: string) => ({
    experiment: { experiment_id: '7', name: 'e', artifact_location: '', lifecycle_stage: stage },
  });
  const missing = reply(404, { error_code: 'RESOURCE_DOES_NOT_EXIST', message: 'no' });

  test('finds an experiment that another client creates at the same time', async () => {
    let reads = 0;
    mlflow.server.fault(({ path }) => {
      if (path.includes('get-by-name')) return reads++ === 0 ? missing : reply(200, experiment('active'));
      if (path.endsWith('/search')) return reply(200, {});
      return reply(400, { error_code: 'RESOURCE_ALREADY_EXISTS', message: 'taken' });
    });
    await expect(connect().resolveExperiment('e')).resolves.toMatchObject({ id: '7' });
  });

  test('two runs that note their stack at the same moment both succeed', async () => {
    let tags: object[] = [];
    mlflow.server.fault(({ path }) => {
      const found = { ...experiment('active').experiment, tags };
      // The other one has tagged the experiment since it was read.
      if (path.endsWith('/search')) return reply(200, { experiments: [{ ...found, tags: [] }] });
      if (!path.includes('set-experiment-tag')) return reply(200, { experiment: found });
      // The other one comes first, and MLflow refuses this one.
      tags = [
        { key: 'inference_monitor.stack.house', value: 'prod' },
        { key: 'inference_monitor.name.3f79bb7b435b0532', value: 'yes' },
      ];
      return reply(400, { error_code: 'BAD_REQUEST', message: 'UNIQUE constraint failed' });
    });
    const owner = { endpoint: 'house', stack: 'prod', isShared: false };
    const resolved = await connect().resolveExperiment('e', owner);
    expect(resolved).toMatchObject({ id: '7' });
    expect(resolved.notice).toBeUndefined();
    tags = [];
    await expect(connect().resolveExperiment('e', { ...owner, stack: 'test' })).rejects.toMatchObject({
      name: 'MlflowExperimentOfOtherStack',
    });
  });

  test('reports a deleted experiment, and how to restore it', async () => {
    mlflow.server.fault(() => reply(200, experiment('deleted')));
    for (const call of [() => connect().resolveExperiment('e'), () => connect().getExperiment('7')]) {
      await expect(call()).rejects.toMatchObject({
        name: 'MlflowExperimentDeleted',
        message: expect.stringContaining('mlflow experiments restore --experiment-id 7'),
      });
    }
  });

  test('reports a missing experiment', async () => {
    mlflow.server.fault(() => missing);
    await expect(connect().getExperiment('8')).rejects.toMatchObject({ name: 'MlflowExperimentMissing' });
  });
});
