/** Tests of request signatures against those of AWS’s Python client. */

import { sigV4Authorizer } from '../../../src/mlflow/auth.ts';
import { type ManagedMlflowTarget, parseTrackingUri } from '../../../src/mlflow/tracking-uri.ts';
import { verifySigV4 } from '../../doubles/sigv4-verifier.ts';
import { MANAGED_ARN, MANAGED_CREDENTIALS } from '../../helpers/mlflow-managed.ts';

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

describe('expired credentials', () => {
  test('missing credentials are reported', async () => {
    const authorizer = sigV4Authorizer(target, async () => {
      throw new Error('Could not load credentials from any providers');
    });
    await expect(
      authorizer.authorize({ method: 'GET', url: new URL('http://localhost/'), headers: {} }),
    ).rejects.toMatchObject({ name: 'MlflowCredentialsMissing' });
  });
});
