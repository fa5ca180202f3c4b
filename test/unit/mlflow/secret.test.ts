import { secretAuthorizer } from '../../../lambda/mlflow/auth.ts';
import { parseMlflowSecret } from '../../../lambda/mlflow/secret.ts';

const where = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:mlflow';

test.each([
  ['{"username":"ada","password":"p"}', { username: 'ada', password: 'p' }],
  ['{"token":"t"}', { token: 't' }],
  ['{"MLFLOW_TRACKING_USERNAME":"ada","MLFLOW_TRACKING_PASSWORD":"p"}', { username: 'ada', password: 'p' }],
  ['{"MLFLOW_TRACKING_TOKEN":"t","other":1}', { token: 't' }],
  ['{"username":"ada","password":"p","token":"t"}', { username: 'ada', password: 'p' }],
])('%s is understood', (text, expected) => {
  expect(parseMlflowSecret(text, where)).toEqual(expected);
});

test.each(['', 'hunter2', '[]', 'null', '{"user":"hunter2"}', '{"username":"ada"}', '{"token":""}'])(
  '%s is refused, and no value repeated',
  (text) => {
    const parse = () => parseMlflowSecret(text, where);
    expect(parse).toThrow(expect.objectContaining({ name: 'MlflowSecretInvalid' }));
    expect(parse).not.toThrow(/hunter2/);
  },
);

describe('the header', () => {
  const request = { method: 'GET', url: new URL('http://localhost/'), headers: { a: 'b' } };

  test('basic and bearer', async () => {
    const basic = await secretAuthorizer({ username: 'ada', password: 'p:w' }).authorize(request);
    expect(basic).toEqual({ a: 'b', authorization: `Basic ${Buffer.from('ada:p:w').toString('base64')}` });
    expect((await secretAuthorizer({ token: 't' }).authorize(request)).authorization).toBe('Bearer t');
  });

  test('a secret is loaded once, again after a 401, and the request is worth repeating if it has changed', async () => {
    const tokens = ['old', 'old', 'new'];
    let loads = 0;
    const authorizer = secretAuthorizer(async () => ({ token: tokens[loads++] ?? 'none' }));
    await Promise.all([authorizer.authorize(request), authorizer.authorize(request)]);
    expect(loads).toBe(1);
    const denied = { status: 401, text: '', errorType: '', sent: await authorizer.authorize(request) };
    expect(await authorizer.renew({ ...denied, status: 403 })).toBe(false);
    expect(await authorizer.renew(denied)).toBe(false);
    expect(await authorizer.renew(denied)).toBe(true);
    // One that was under way with the old secret is refused later: it is worth repeating too, with what is there.
    expect(await authorizer.renew(denied)).toBe(true);
    expect(loads).toBe(3);
    expect((await authorizer.authorize(request)).authorization).toBe('Bearer new');
  });

  test('a secret that could not be loaded is loaded again', async () => {
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
