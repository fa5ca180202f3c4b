/** The options of a replay, and what the command says about them. */
import replayCommand from '../../../bin/commands/replay.ts';
import { connectPairwiseJudge } from '../../../bin/commands/replay-services.ts';
import { awsFailure } from '../../../src/core/errors/aws-failures.ts';
import { durationText } from '../../../src/core/text/terminal-text.ts';
import { REPLIES_FILE } from '../../../src/replay/compare/replies-file.ts';
import { COMPARE_FILE, JUDGED_FILE } from '../../../src/replay/compare/with-captured.ts';
import { replayInferenceId } from '../../../src/replay/marks/believe.ts';
import { checkedOptions, parseGoodput, parseSetting, type ReplayOptions } from '../../../src/replay/options.ts';
import { REFUSED_FILE } from '../../../src/replay/publish/write-traces.ts';
import { FILES, RESULT_FILES } from '../../../src/replay/results/result-set.ts';
import { parseHeaders, urlTarget } from '../../../src/replay/targets/url-target.ts';

const check = (options: Partial<ReplayOptions>) => () => checkedOptions(options);

describe('options', () => {
  test('allows the defaults', () => {
    expect(check({})).not.toThrow();
  });

  test.each([
    [{ speedup: 0 }, '--speedup is invalid; got: 0'],
    [{ concurrency: 1.5 }, '--concurrency is invalid'],
    [{ maxErrorRate: 101 }, 'percent, 0 to 100'],
    [{ fixedScheduleAutoOffset: true, fixedScheduleStartOffset: 5 }, 'are mutually exclusive'],
    [{ fixedScheduleStartOffset: 5, fixedScheduleEndOffset: 4 }, 'window of the schedule is empty'],
    [{ concurrency: 4, speedup: 2 }, 'cannot be combined'],
    [{ requestRate: 4, spreadSameSecond: 'even' as const }, 'cannot be combined'],
    [{ requestCancellationRate: 5 }, 'The delay of the cancellation is missing'],
    // A timer would expire immediately.
    [{ requestCancellationRate: 5, requestCancellationDelay: 2_200_000 }, 'expected: seconds, 0 to 2147483'],
    [{ goodput: 'latency:5' }, 'unknown metric; got: latency'],
    [{ goodput: 'request_latency:fast' }, 'invalid threshold'],
    [{ set: ['model'] }, '--set is malformed'],
  ])('rejects %j', (options, message) => {
    expect(check(options)).toThrow(message);
  });

  test.each([
    [['--judge', '--budget', '-5'], /a number of 0 or more/],
    [['--experiment', 'e'], /--experiment has no effect without --mlflow/],
    [['--tracking-uri', 'http://h'], /--tracking-uri has no effect without --mlflow/],
    [['--judge-model', 'm'], /--judge-model has no effect without --judge/],
    [['--url', 'h', '--from', '2026-11-20T10:00:00Z', '--to', '2026-11-20T10:00:00Z'], /--from before --to/],
    [['--endpoint', 'e', '--header', 'X-A: b'], /--header has no effect without --url/],
    [['--dry-run', '--url', 'nonsense://x'], /The target is not a URL; got: nonsense:\/\/x/],
  ])('rejects %j on the command line', async (given, message) => {
    const command = replayCommand()
      .exitOverride()
      .configureOutput({ writeErr: () => {} });
    await expect(command.parseAsync(['captures', ...given], { from: 'user' })).rejects.toThrow(message);
  });

  test('appends the query of the URL to every path', () => {
    const pathOf = (url: string): string | undefined =>
      urlTarget(url)
        .encode(
          { body: Buffer.from('{}'), contentType: 'application/json', json: { messages: [] }, streaming: false },
          { run: 'r', eventKey: 'e', pass: 0, requestId: 'q', conversationId: 'c' },
        )
        .wire.toString()
        .split(' ')[1];
    expect(pathOf('http://h?k=1')).toBe('/v1/chat/completions?k=1');
    expect(pathOf('http://h/own?k=1')).toBe('/own?k=1');
    expect(pathOf('http://h')).toBe('/v1/chat/completions');
  });

  test('parses objectives, settings and headers', () => {
    const goodput = parseGoodput('request_latency:2000  time_to_first_token:300');
    expect(Object.fromEntries(goodput)).toEqual({ request_latency: 2000, time_to_first_token: 300 });
    expect(parseSetting('parameters.temperature=0')).toEqual({ path: ['parameters', 'temperature'], value: '0' });
    expect(parseSetting('user=a=b')).toEqual({ path: ['user'], value: '"a=b"' });
    expect(parseHeaders('# secret\nAuthorization: Bearer a:b\n\n', 'f')).toEqual({ Authorization: 'Bearer a:b' });
    expect(parseHeaders(' {"X-Key":"v"}', 'f')).toEqual({ 'X-Key': 'v' });
    expect(() => parseHeaders('X-Key: secret\nnonsense', 'f')).toThrow('where: f, line 2');
  });

  test('does not show secrets in errors about headers and URLs', () => {
    expect(() => urlTarget('http://h', { 'X-Key': 'secret\r\nHost: evil' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('secret') }),
    );
    expect(() => urlTarget('http://h', { Host: 'x' })).toThrow('sets this header itself');
    expect(() => urlTarget('http://user:hunter2@h')).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
    );
    expect(() => urlTarget('ftp://h')).toThrow('The target is not a URL');
    const urls = ['ftp://h/p?key=hunter2', 'ftp://me:hunter2@h', 'http://me:hunter2@h:99999/', 'h?hunter2#hunter2'];
    for (const url of urls) {
      expect(() => urlTarget(url)).toThrow(
        expect.objectContaining({ message: expect.not.stringContaining('hunter2'), name: 'InvalidTarget' }),
      );
    }
    // A header with `=` instead of `:` is split at the first colon, which is after the key.
    const wrong = parseHeaders('Authorization=Bearer hunter2: y', '--header');
    expect(() => urlTarget('http://h', wrong)).toThrow(
      expect.objectContaining({
        message: 'A header cannot be sent: not a header name; got: a text of 28 characters before the colon',
      }),
    );
  });

  test('derives different inference ids for runs, events and passes', () => {
    const ids = [
      replayInferenceId('', 'r', 'e', 0),
      replayInferenceId('', 'r', 'e', 1),
      replayInferenceId('', 'r', 'f', 0),
      replayInferenceId('', 's', 'e', 0),
    ];
    expect(new Set(ids).size).toBe(4);
    for (const id of ids) expect(id).toMatch(/^replay-[0-9a-f]{32}$/);
    expect(replayInferenceId('0123456789abcdef', 'r', 'e', 0)).toBe(ids[0]?.replace('-', '-0123456789abcdef'));
  });
});

test('RESULT_FILES lists every file that a run can create', () => {
  const later = [REPLIES_FILE, COMPARE_FILE, JUDGED_FILE, REFUSED_FILE, 'comparison.json', 'comparison.html'];
  expect([...RESULT_FILES]).toEqual([...Object.values(FILES), ...later]);
});

test.each([
  [0, '0.0 s'],
  [59.94, '59.9 s'],
  [61, '1 min 1 s'],
  [9_366, '2 h 36 min'],
  [7_200, '2 h'],
  [23_704_230, '274 d 8 h'],
])('formats %d seconds as %s', (seconds, text) => {
  expect(durationText(seconds)).toBe(text);
});

test('rejects a judge without a region or credentials before anything is sent', async () => {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
  const none = { AWS_EC2_METADATA_DISABLED: 'true', AWS_CONFIG_FILE: '/none', AWS_SHARED_CREDENTIALS_FILE: '/none' };
  Object.assign(process.env, none, { AWS_REGION: 'eu-west-1', DOTENV_CONFIG_PATH: '/none' });
  try {
    const connected = (): Promise<unknown> => connectPairwiseJudge({ budget: 20 }).catch(awsFailure);
    expect(await connected()).toMatchObject({ name: 'AwsCredentialsMissing' });
    delete process.env.AWS_REGION;
    expect(await connected()).toMatchObject({ name: 'AwsRegionMissing' });
  } finally {
    process.env = before;
  }
});
