import { createJudge } from '../../../src/judge/create-judge.ts';
import { loadApiKey, parseApiKey } from '../../../src/judge/transports/api-key.ts';
import { chatCapture, completionOf, YES_NO_SCORERS } from './captures.ts';

const where = 'arn:aws:secretsmanager:eu-central-1:123456789012:secret:judge';
const client = (answer: () => unknown) => ({ send: async () => answer() }) as never;
const failing = (name: string, status: number | undefined) =>
  client(() => {
    throw Object.assign(new Error('no'), { name, $metadata: { httpStatusCode: status } });
  });

test.each([
  ['sk-1', 'sk-1'],
  [' sk-1\n', 'sk-1'],
  ['{"api_key":"sk-1","other":1}', 'sk-1'],
])('%j is understood', (text, key) => {
  expect(parseApiKey(text, where)).toBe(key);
});

test.each(['', ' ', '{"api_key":sk-live-SECRET"}', '{"key":"sk-live-SECRET"}', '{"api_key":["sk-live-SECRET"]}'])(
  '%j is refused, and nothing of it repeated',
  async (text) => {
    const error = await loadApiKey(
      client(() => ({ SecretString: text })),
      where,
    ).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ name: 'JudgeSecretUnreadable' });
    expect(`${error} ${(error as Error).cause}`).not.toMatch(/SECRET|sk-live/);
  },
);

test.each(['sk-live\nSECRET', 'sk-live SECRET', 'sk-livé-SECRET', '{"api_key":"sk-live\\nSECRET"}'])(
  '%j cannot stand in a header, and nothing of it is repeated',
  (text) => {
    const parse = () => parseApiKey(text, where);
    expect(parse).toThrow(expect.objectContaining({ name: 'JudgeSecretUnreadable' }));
    expect(parse).not.toThrow(/SECRET/);
    expect(() => createJudge({ model: 'openai:/x', apiKey: text })).toThrow(/no API key/);
  },
);

test('a binary secret is no key', async () => {
  const binary = client(() => ({ SecretBinary: new Uint8Array([1]) }));
  await expect(loadApiKey(binary, where)).rejects.toMatchObject({ name: 'JudgeSecretUnreadable' });
});

test.each([
  ['ThrottlingException', 400, 'JudgeUnavailable'],
  ['InternalServiceError', 500, 'JudgeUnavailable'],
  ['TimeoutError', undefined, 'JudgeUnavailable'],
  ['AccessDeniedException', 400, 'JudgeSecretUnreadable'],
  ['ResourceNotFoundException', 400, 'JudgeSecretUnreadable'],
])('%s of Secrets Manager is %s', async (name, status, expected) => {
  await expect(loadApiKey(failing(name, status), where)).rejects.toMatchObject({ name: expected });
});

/** A judge behind a URL that answers one request after the other as it is told. */
function judgeOver(replies: ((request: Request) => Response)[], apiKey: string | (() => Promise<string>) = 'sk-1') {
  const seen: Request[] = [];
  const fetch = async (url: string | URL, init: RequestInit) => {
    const request = new Request(url, init);
    seen.push(request);
    return (replies[seen.length - 1] ?? (() => new Response('{}', { status: 500 })))(request);
  };
  const retry = { attempts: 1, baseMs: 1, capMs: 1, forMs: 1 };
  const judge = createJudge({ model: 'openai:/x', baseUrl: 'http://judge/v1', apiKey, fetch: fetch as never, retry });
  return { seen, ask: () => judge.judge(chatCapture(), YES_NO_SCORERS) };
}
const refused = () => new Response('', { status: 401 });
const answered = () => Response.json(completionOf());
const keysOf = (seen: Request[]) => seen.map((request) => request.headers.get('authorization'));

test('a key that is no longer accepted is loaded again, once', async () => {
  const keys = ['sk-old', 'sk-new'];
  const { seen, ask } = judgeOver([refused, answered, answered], async () => keys.shift() ?? 'none');
  expect((await ask()).verdicts[0]).toMatchObject({ outcome: 'verdict' });
  await ask();
  expect(keysOf(seen)).toEqual(['Bearer sk-old', 'Bearer sk-new', 'Bearer sk-new']);
});

test('a key that is the same when it is loaded again is refused', async () => {
  const { seen, ask } = judgeOver([refused, answered], async () => 'sk-1');
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeRefused' });
  expect(seen).toHaveLength(1);
});

test('a redirect is not followed, and named', async () => {
  const location = 'https://elsewhere.example/path?token=SECRET';
  const { seen, ask } = judgeOver([() => new Response('', { status: 307, headers: { location } })]);
  const message = expect.stringMatching(/judge redirects to https:\/\/elsewhere\.example \(HTTP 307\).*JUDGE_BASE_URL/);
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeRefused', message });
  expect(seen.map(({ redirect }) => redirect)).toEqual(['manual']);
});
