/** Tests of request signatures against those of AWS’s Python client. */

import { sigV4Authorizer } from '../../../src/mlflow/auth.ts';
import { type ManagedMlflowTarget, parseTrackingUri } from '../../../src/mlflow/tracking-uri.ts';
import { verifySigV4 } from '../../doubles/sigv4-verifier.ts';
import { MANAGED_ARNS, MANAGED_CREDENTIALS } from '../../helpers/mlflow-managed.ts';

const NOW = new Date('2026-11-20T10:15:00Z');
const target = (arn: string) => parseTrackingUri(arn) as ManagedMlflowTarget;

/** Signatures of sagemaker-mlflow 0.5.0 with botocore 1.43.127, its clock set to NOW. */
const KNOWN = [
  {
    arn: MANAGED_ARNS.server,
    get: '205e03a7d86eb2bda4f4d1001ddd2952a7c7bd9f1500685565bdec2ab68852a0',
    post: '3545da460e726b346c8861d00d13852a57ad352da69820fe5b58db94fb80937e',
  },
  {
    arn: MANAGED_ARNS.app,
    get: '4a0be80e852a3a786560de9e233824628a118824b52b9d22c880ecfeee0f27d5',
    post: '9e5d592e133a9eb6b40a386c8630758c56a2521f5e916be4923ad25899a1f110',
  },
];

describe.each(KNOWN)('requests to $arn', ({ arn, get, post }) => {
  const authorizer = sigV4Authorizer(
    target(arn),
    async () => MANAGED_CREDENTIALS,
    () => NOW,
  );

  test('sign a GET with spaces, a plus and an umlaut in its query like AWS’s Python client', async () => {
    const url = new URL('/api/2.0/mlflow/experiments/get-by-name', target(arn).baseUrl);
    url.search = 'experiment_name=bicycle%20endpoint%2B%C3%A9%2F1';
    const headers = await authorizer.authorize({ method: 'GET', url, headers: {} });
    expect(headers.authorization).toMatch(new RegExp(`Signature=${get}$`));
  });

  test('sign a POST like AWS’s Python client', async () => {
    const headers = await authorizer.authorize({
      method: 'POST',
      url: new URL('/api/3.0/mlflow/traces/search', target(arn).baseUrl),
      headers: { 'content-type': 'application/json', connection: 'keep-alive', 'user-agent': 'any' },
      body: Buffer.from('{"max_results":1}'),
    });
    expect(headers.authorization).toMatch(new RegExp(`Signature=${post}$`));
    expect(headers.authorization).toContain('x-amz-content-sha256');
    expect(headers.authorization).not.toContain('connection');
  });
});

describe('the verifier of the double', () => {
  const sign = async (body: string) => {
    const authorizer = sigV4Authorizer(
      target(MANAGED_ARNS.server),
      async () => MANAGED_CREDENTIALS,
      () => NOW,
    );
    const url = new URL('http://localhost:1234/api/3.0/mlflow/traces/search?a=b%20c');
    const headers = await authorizer.authorize({ method: 'POST', url, headers: {}, body: Buffer.from(body) });
    return { method: 'POST', url: `${url.pathname}${url.search}`, headers };
  };
  const check = { credentials: MANAGED_CREDENTIALS, region: 'eu-central-1', service: 'sagemaker-mlflow', now: NOW };

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
      { message: { ...message, headers: { ...message.headers, 'x-mlflow-sm-tracking-server-arn': 'other' } }, body },
      { message, body, region: 'eu-west-1' },
      { message, body, service: 'sagemaker' },
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
    const authorizer = sigV4Authorizer(target(MANAGED_ARNS.server), async () => {
      throw new Error('Could not load credentials from any providers');
    });
    await expect(
      authorizer.authorize({ method: 'GET', url: new URL('http://localhost/'), headers: {} }),
    ).rejects.toMatchObject({ name: 'MlflowCredentialsMissing' });
  });
});
