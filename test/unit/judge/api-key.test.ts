/** Reading the judge's API key from a secret, and reloading it after it was rotated. */
import { createJudgeOver } from '../../../src/judge/judge-capture.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { loadApiKey, parseApiKey } from '../../../src/judge/transports/api-key.ts';
import { openAiTransport } from '../../../src/judge/transports/openai.ts';
import { chatCapture, completionOf, YES_NO_SCORERS } from './captures.ts';

const parameters = readParameters();
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
])('reads the key from %j', (text, key) => {
  expect(parseApiKey(text, where)).toBe(key);
});

test.each(['', ' ', '{"api_key":sk-live-SECRET"}', '{"key":"sk-live-SECRET"}', '{"api_key":["sk-live-SECRET"]}'])(
  'rejects %j without quoting it',
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
  'rejects %j, which is not valid in a header, without quoting it',
  (text) => {
    const parse = () => parseApiKey(text, where);
    expect(parse).toThrow(expect.objectContaining({ name: 'JudgeSecretUnreadable' }));
    expect(parse).not.toThrow(/SECRET/);
    expect(() => openAiTransport({ model: 'x', apiKey: text, parameters })).toThrow(/no API key/);
  },
);

test('refuses a binary secret', async () => {
  const binary = client(() => ({ SecretBinary: new Uint8Array([1]) }));
  await expect(loadApiKey(binary, where)).rejects.toMatchObject({ name: 'JudgeSecretUnreadable' });
});

test.each([
  ['ThrottlingException', 400, 'JudgeUnavailable'],
  ['InternalServiceError', 500, 'JudgeUnavailable'],
  ['TimeoutError', undefined, 'JudgeUnavailable'],
  ['AccessDeniedException', 400, 'JudgeSecretUnreadable'],
  ['ResourceNotFoundException', 400, 'JudgeSecretUnreadable'],
])('turns %s of Secrets Manager (status %s) into %s', async (name, status, expected) => {
  await expect(loadApiKey(failing(name, status), where)).rejects.toMatchObject({ name: expected });
});

/** A judge behind a URL that gives scripted answers to consecutive requests. */
function judgeOver(replies: ((request: Request) => Response)[], apiKey: string | (() => Promise<string>) = 'sk-1') {
  const seen: Request[] = [];
  const fetch = async (url: string | URL, init: RequestInit) => {
    const request = new Request(url, init);
    seen.push(request);
    return (replies[seen.length - 1] ?? (() => new Response('{}', { status: 500 })))(request);
  };
  const retry = { attempts: 1, baseMs: 1, capMs: 1, forMs: 1 };
  const server = { model: 'x', baseUrl: 'http://judge/v1', apiKey, parameters, fetch: fetch as never };
  const judge = createJudgeOver(openAiTransport(server), { retry });
  return { seen, ask: () => judge.judge(chatCapture(), YES_NO_SCORERS) };
}
const refused = () => new Response('', { status: 401 });
const answered = () => Response.json(completionOf());
const keysOf = (seen: Request[]) => seen.map((request) => request.headers.get('authorization'));

test('reloads a key once when the server no longer accepts it', async () => {
  const keys = ['sk-old', 'sk-new'];
  const { seen, ask } = judgeOver([refused, answered, answered], async () => keys.shift() ?? 'none');
  expect((await ask()).verdicts[0]).toMatchObject({ outcome: 'verdict' });
  await ask();
  expect(keysOf(seen)).toEqual(['Bearer sk-old', 'Bearer sk-new', 'Bearer sk-new']);
});

test('ends as JudgeRefused if the reloaded key is the same', async () => {
  const { seen, ask } = judgeOver([refused, answered], async () => 'sk-1');
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeRefused' });
  expect(seen).toHaveLength(1);
});

test('a key that cannot be read fails each verdict by its own name, until it can be read', async () => {
  let isThere = false;
  const { seen, ask } = judgeOver([answered], async () => parseApiKey(isThere ? 'sk-1' : '', 'arn'));
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeSecretUnreadable' });
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeSecretUnreadable' });
  expect(seen).toEqual([]);
  isThere = true;
  expect((await ask()).verdicts[0]).toMatchObject({ outcome: 'verdict' });
});

test('does not follow a redirect, and names its target', async () => {
  const location = 'https://elsewhere.example/path?token=SECRET';
  const { seen, ask } = judgeOver([() => new Response('', { status: 307, headers: { location } })]);
  const message = expect.stringMatching(/judge redirects to https:\/\/elsewhere\.example \(HTTP 307\).*JUDGE_BASE_URL/);
  await expect(ask()).rejects.toMatchObject({ name: 'JudgeRefused', message });
  expect(seen.map(({ redirect }) => redirect)).toEqual(['manual']);
});
