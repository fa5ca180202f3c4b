/** The address of MLflow, and how requests to it are authenticated: by a secret, or by signatures like those of AWS’s Python client. */
import { secretAuthorizer, sigV4Authorizer } from '../../../src/mlflow/auth.ts';
import { parseMlflowSecret } from '../../../src/mlflow/connect.ts';
import { type ManagedMlflowTarget, parseTrackingUri } from '../../../src/mlflow/tracking-uri.ts';
import { verifySigV4 } from '../../doubles/sigv4-verifier.ts';
import { MANAGED_ARN, MANAGED_CREDENTIALS } from '../../helpers/mlflow-managed.ts';
import { chatTrace, EXPERIMENT, idsOf } from '../../helpers/mlflow-traces.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';

test('an address is the ARN of an app or a URL, and a custom endpoint replaces only the host', () => {
  const app = { kind: 'mlflow-app', region: 'us-east-1' };
  const baseUrl = new URL('https://mlflow.example.com/team');
  const own = new URL('https://mlflow.sagemaker.us-east-1.app.aws');
  expect(parseTrackingUri(MANAGED_ARN)).toMatchObject({ ...app, baseUrl: own });
  expect(parseTrackingUri(MANAGED_ARN, baseUrl.href)).toMatchObject({ ...app, baseUrl });
  expect(parseTrackingUri(baseUrl.href)).toEqual({ kind: 'url', baseUrl });
});

test.each([
  'databricks',
  'sqlite:///mlflow.db',
  'file:///tmp/x',
  '',
  'arn:aws:sagemaker:eu-central-1:123456789012:endpoint/x',
  'arn:aws:sagemaker:eu-central-1:123456789012:mlflow-tracking-server/x',
  'arn:aws:s3:eu-central-1:123456789012:mlflow-app/x',
  'https://user:hunter2@mlflow.example.com',
])('refuses the address %s, without quoting a password', (uri) => {
  const parse = () => parseTrackingUri(uri);
  expect(parse).toThrow(expect.objectContaining({ name: 'MlflowTrackingUriInvalid' }));
  expect(parse).toThrow(/secret/);
  expect(parse).not.toThrow(/hunter2/);
});

// ------------------------------------------------------------------------------------------------------------ secrets

const where = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:mlflow';

test.each([
  ['{"username":"ada","password":"p"}', { username: 'ada', password: 'p' }],
  ['{"token":"t"}', { token: 't' }],
  ['{"MLFLOW_TRACKING_USERNAME":"ada","MLFLOW_TRACKING_PASSWORD":"p"}', { username: 'ada', password: 'p' }],
  ['{"MLFLOW_TRACKING_TOKEN":"t","other":1}', { token: 't' }],
  ['{"username":"ada","password":"p","token":"t"}', { username: 'ada', password: 'p' }],
])('accepts %s', (text, expected) => {
  expect(parseMlflowSecret(text, where)).toEqual(expected);
});

test.each(['', 'hunter2', '[]', 'null', '{"user":"hunter2"}', '{"username":"ada"}', '{"token":""}'])(
  'refuses %s without quoting its values',
  (text) => {
    const parse = () => parseMlflowSecret(text, where);
    expect(parse).toThrow(expect.objectContaining({ name: 'MlflowSecretInvalid' }));
    expect(parse).not.toThrow(/hunter2/);
  },
);

describe('the header', () => {
  const request = { method: 'GET', url: new URL('http://localhost/'), headers: { a: 'b' } };

  test('is basic or bearer', async () => {
    const basic = await secretAuthorizer({ username: 'ada', password: 'p:w' }).authorize(request);
    expect(basic).toEqual({ a: 'b', authorization: `Basic ${Buffer.from('ada:p:w').toString('base64')}` });
    expect((await secretAuthorizer({ token: 't' }).authorize(request)).authorization).toBe('Bearer t');
  });

  test('loads a secret once, and again after a 401, and repeats the request if the secret has changed', async () => {
    const tokens = ['old', 'old', 'new'];
    let loads = 0;
    const authorizer = secretAuthorizer(async () => ({ token: tokens[loads++] ?? 'none' }));
    await Promise.all([authorizer.authorize(request), authorizer.authorize(request)]);
    expect(loads).toBe(1);
    const denied = { status: 401, text: '', errorType: '', sent: await authorizer.authorize(request) };
    expect(await authorizer.renew({ ...denied, status: 403 })).toBe(false);
    expect(await authorizer.renew(denied)).toBe(false);
    expect(await authorizer.renew(denied)).toBe(true);
    // A request in flight with the old secret is refused later. It is repeated too, with the secret loaded before.
    expect(await authorizer.renew(denied)).toBe(true);
    expect(loads).toBe(3);
    expect((await authorizer.authorize(request)).authorization).toBe('Bearer new');
  });

  test('loads a secret again after a failure', async () => {
    let loads = 0;
    const authorizer = secretAuthorizer(async () => {
      loads += 1;
      if (loads === 1) throw new Error('throttled');
      return { token: 't' };
    });
    await expect(authorizer.authorize(request)).rejects.toThrow('throttled');
    expect((await authorizer.authorize(request)).authorization).toBe('Bearer t');
  });
});

describe('a secret that is rotated under load', () => {
  const mlflow = useScriptedMlflow({ retry: { baseMs: 2, capMs: 5 } });

  test('every trace is written once, and the secret is loaded once more', async () => {
    await mlflow.start();
    const { server } = mlflow;
    let token = 'old';
    let loads = 0;
    const secret = async () => {
      loads += 1;
      return { token };
    };
    const client = mlflow.connect({ secret });
    const batches = Array.from({ length: 40 }, (_, batch) =>
      Array.from({ length: 3 }, (_, n) => chatTrace('7', `${batch}, ${n}`)),
    );
    const ids = idsOf(batches.flat());
    server.expect(ids);
    let refused = 0;
    server.fault(({ headers }, ordinal) => {
      if (ordinal < 12) return undefined;
      token = 'new';
      if (headers.authorization === 'Bearer new') return undefined;
      refused += 1;
      return { kind: 'reply', status: 401, body: 'no' };
    });
    const written = await Promise.all(batches.map((batch) => client.writeTraces(EXPERIMENT, batch)));
    expect(written.flatMap((result) => result.written).sort()).toEqual(ids);
    expect(written.flatMap((result) => result.refused)).toEqual([]);
    expect([...mlflow.server.taken.values()].every((times) => times === 1)).toBe(true);
    // Concurrent requests were refused together, and one of them loaded the secret for all.
    expect(refused).toBeGreaterThan(1);
    expect(loads).toBe(2);
  });
});

// --------------------------------------------------------------------------------------------------------- signatures

const NOW = new Date('2026-11-20T10:15:00Z');
const target = parseTrackingUri(MANAGED_ARN) as ManagedMlflowTarget;

/** Signatures of sagemaker-mlflow 0.5.0 with botocore 1.43.127, its clock set to NOW. */
const GET = '4a0be80e852a3a786560de9e233824628a118824b52b9d22c880ecfeee0f27d5';
const POST = '9e5d592e133a9eb6b40a386c8630758c56a2521f5e916be4923ad25899a1f110';

const signer = () =>
  sigV4Authorizer(
    target,
    async () => MANAGED_CREDENTIALS,
    () => NOW,
  );

describe('requests to an app', () => {
  const authorizer = signer();

  test('sign a GET with spaces, a plus and an umlaut in its query like AWS’s Python client', async () => {
    const url = new URL('/api/2.0/mlflow/experiments/get-by-name', target.baseUrl);
    url.search = 'experiment_name=bicycle%20endpoint%2B%C3%A9%2F1';
    const headers = await authorizer.authorize({ method: 'GET', url, headers: {} });
    expect(headers.authorization).toMatch(new RegExp(`Signature=${GET}$`));
  });

  test('sign a POST like AWS’s Python client', async () => {
    const headers = await authorizer.authorize({
      method: 'POST',
      url: new URL('/api/3.0/mlflow/traces/search', target.baseUrl),
      headers: { 'content-type': 'application/json', connection: 'keep-alive', 'user-agent': 'any' },
      body: Buffer.from('{"max_results":1}'),
    });
    expect(headers.authorization).toMatch(new RegExp(`Signature=${POST}$`));
    expect(headers.authorization).toContain('x-amz-content-sha256');
    expect(headers.authorization).not.toContain('connection');
  });
});

describe('the verifier of the double', () => {
  const sign = async (body: string) => {
    const authorizer = signer();
    const url = new URL('http://localhost:1234/api/3.0/mlflow/traces/search?a=b%20c');
    const headers = await authorizer.authorize({ method: 'POST', url, headers: {}, body: Buffer.from(body) });
    return { method: 'POST', url: `${url.pathname}${url.search}`, headers };
  };
  const check = { credentials: MANAGED_CREDENTIALS, region: 'us-east-1', service: 'sagemaker', now: NOW };

  test('accepts a signed request', async () => {
    expect(verifySigV4({ ...check, message: await sign('{}'), body: Buffer.from('{}') })).toBeUndefined();
  });

  test('refuses another body, path, query, header, region, service, key, token, and a late request', async () => {
    const message = await sign('{}');
    const body = Buffer.from('{}');
    const refused = [
      { message, body: Buffer.from('{ }') },
      { message: { ...message, url: message.url.replace('search', 'searcH') }, body },
      { message: { ...message, url: message.url.replace('b%20c', 'b+c') }, body },
      { message: { ...message, headers: { ...message.headers, 'x-sm-mlflow-app-arn': 'other' } }, body },
      { message, body, region: 'eu-west-1' },
      { message, body, service: 'sagemaker-mlflow' },
      { message, body, credentials: { ...MANAGED_CREDENTIALS, secretAccessKey: 'other' } },
      { message, body, credentials: { ...MANAGED_CREDENTIALS, sessionToken: 'other' } },
      { message, body, now: new Date(NOW.getTime() + 6 * 60_000) },
      { message: { ...message, headers: {} }, body },
    ];
    for (const part of refused) expect(verifySigV4({ ...check, ...part })).toMatchObject({ status: 403 });
  });
});

test('missing credentials are reported', async () => {
  const authorizer = sigV4Authorizer(target, () => Promise.reject(new Error('Could not load credentials')));
  const request = { method: 'GET', url: new URL('http://localhost/'), headers: {} };
  await expect(authorizer.authorize(request)).rejects.toMatchObject({ name: 'MlflowCredentialsMissing' });
});
