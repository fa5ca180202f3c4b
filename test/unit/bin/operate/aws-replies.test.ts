/** What answers in place of AWS: the page of a proxy, or nothing to the end. */
import type { RequestListener } from 'node:http';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { callAws } from '../../../../src/core/aws/aws-json.ts';
import { postToAws } from '../../../../src/core/aws/aws-post.ts';
import { queryAws } from '../../../../src/core/aws/aws-query.ts';
import { serve } from '../../../helpers/serve.ts';
import REPEATED from './repeated.json' with { type: 'json' };

async function answeredBy(listener: RequestListener, ask: (client: LambdaClient) => Promise<unknown>): Promise<string> {
  const server = await serve(listener);
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const client = new LambdaClient({ endpoint: server.url, region: 'us-east-1', credentials });
  try {
    return await ask(client).then(
      (reply) => `answered ${JSON.stringify(reply)}`,
      (error: Error) => `${error.name}: ${error.message}`,
    );
  } finally {
    client.destroy();
    await server.close();
  }
}

const page: RequestListener = (_, response) => response.end('<html>\x1b[31mSign in</html>');

test.each<[string, RequestListener, (client: LambdaClient) => Promise<unknown>]>([
  ['200 <html> [31mSign in</html>', page, (client) => callAws(client, 'ssm', 'GetParametersByPath', {})],
  ['200 null', (_, response) => response.end('null'), (client) => callAws(client, 'ssm', 'GetParametersByPath', {})],
  ['200 <html> [31mSign in</html>', page, (client) => queryAws(client, 'sts', 'GetCallerIdentity')],
])('a reply of another server is named: %s', async (got, listener, ask) => {
  expect(await answeredBy(listener, ask)).toMatch(/^StrangeReply: .*: the reply is not one of AWS; got: /);
  expect(await answeredBy(listener, ask)).toContain(`got: ${got};`);
});

test.each<[string, RequestListener]>([
  ['no head', () => {}],
  ['no end of the body', (_, response) => void response.write('{')],
])('a reply with %s is not waited for', async (_, listener) => {
  const ask = (client: LambdaClient) => postToAws(client, 'ssm', 'GetX', { headers: {}, body: '{}' }, 100);
  expect(await answeredBy(listener, ask)).toBe('TimeoutError: 127.0.0.1 did not answer within 0.1 s');
});

const XML_ERROR =
  '<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>slowly</Message></Error></Errors></Response>';
const THROTTLES: [name: string, status: number, body: string, ask: (client: LambdaClient) => Promise<unknown>][] = [
  ['ThrottlingException', 400, '{"__type":"ThrottlingException"}', (client) => callAws(client, 'logs', 'X', {})],
  [
    'TooManyRequestsException',
    429,
    '{"__type":"a#TooManyRequestsException"}',
    (client) => callAws(client, 'ssm', 'X', {}),
  ],
  ['RequestLimitExceeded', 503, XML_ERROR, (client) => queryAws(client, 'ec2', 'DescribeVpcs')],
];

describe('a request that AWS throttles', () => {
  beforeEach(() => jest.spyOn(Math, 'random').mockReturnValue(0));
  afterEach(() => jest.restoreAllMocks());
  let asked = 0;
  const throttles = (status: number, body: string, times: number, then: string): RequestListener => {
    asked = 0;
    return (_, response) => {
      asked += 1;
      if (asked > times) response.end(then);
      else response.writeHead(status).end(body);
    };
  };

  test.each(THROTTLES)('is repeated: %s', async (_, status, body, ask) => {
    const listener = throttles(status, body, 5, '{"is":"<DescribeVpcsResponse>"}');
    expect(await answeredBy(listener, ask)).toMatch(/^answered/);
    expect(asked).toBe(6);
  });

  test.each(THROTTLES)('ends after the sixth refusal by its name: %s', async (name, status, body, ask) => {
    expect(await answeredBy(throttles(status, body, 99, ''), ask)).toMatch(new RegExp(`^${name}: `));
    expect(asked).toBe(6);
  });

  test.each(REPEATED as [number, string, boolean][])(
    'or a read that failed: %i for %s is repeated: %s',
    async (status, operation, isRepeated) => {
      const listener = throttles(status, '{"__type":"Failed","message":"Throttled is no status"}', 1, '{}');
      const said = await answeredBy(listener, (client) => callAws(client, 'logs', operation, {}));
      expect([said.startsWith('answered'), asked]).toEqual([isRepeated, isRepeated ? 2 : 1]);
    },
  );
});
