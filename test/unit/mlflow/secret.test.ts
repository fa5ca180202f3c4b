/** Tests of MLflow secrets and the headers made from them. */
import { secretAuthorizer } from '../../../src/mlflow/auth.ts';
import { parseMlflowSecret } from '../../../src/mlflow/connect.ts';
import { chatTrace } from '../../helpers/mlflow-traces.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';

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
    const ids = batches.flat().map(({ traceId }) => traceId);
    server.expect(ids);
    let refused = 0;
    server.fault(({ headers }, ordinal) => {
      if (ordinal < 12) return undefined;
      token = 'new';
      if (headers.authorization === 'Bearer new') return undefined;
      refused += 1;
      return { kind: 'reply', status: 401, body: 'no' };
    });
    const written = await Promise.all(
      batches.map((batch) =>
        client.writeTraces({ id: '7', name: 'e', artifactLocation: 'mlflow-artifacts:/7' }, batch),
      ),
    );
    expect(written.flatMap((result) => result.written).sort()).toEqual([...ids].sort());
    expect(written.flatMap((result) => result.refused)).toEqual([]);
    expect([...mlflow.server.taken.values()].every((times) => times === 1)).toBe(true);
    // Concurrent requests were refused together, and one of them loaded the secret for all.
    expect(refused).toBeGreaterThan(1);
    expect(loads).toBe(2);
  });
});
