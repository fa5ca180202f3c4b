/** The input of a cloud replay: defaults, limits and invalid values, and its judge. */

import { ONE_VCPU_MB } from '../../../../lib/replay.ts';
import { FUNCTION_TIMEOUT_SECONDS } from '../../../../src/core/contract/execution.ts';
import { REPLAY_DISK_MIB } from '../../../../src/core/contract/replay.ts';
import { type ReplayEnvironment, readReplayEnvironment } from '../../../../src/core/settings/environment.ts';
import {
  MAX_CONNECTIONS,
  MAX_PER_SECOND,
  MAX_REQUESTS,
  SHARD_LEAD_MS,
  shardBounds,
  startLeadMs,
  WARMUP_LEAD_MS,
  WRITE_RESERVE_MS,
} from '../../../../src/replay/cloud/limits.ts';
import { parseReplayInput } from '../../../../src/replay/cloud/plan/input.ts';
import { planJudge } from '../../../../src/replay/cloud/plan/plan-evaluation.ts';
import { targetFacts } from '../../../../src/replay/cloud/target.ts';
import { DEFAULT_OPTIONS } from '../../../../src/replay/options.ts';
import { ENTRY_BYTES, MAX_RECORDS, SORT_BYTES } from '../../../../src/replay/source/sorted-index.ts';
import { parseHeaders } from '../../../../src/replay/targets/url-target.ts';
import { withVariables } from '../../../helpers/aws-answers.ts';
import { plannedFileBytes } from '../../../helpers/shard-files.ts';
import { TEST_VARIABLES } from '../../../helpers/test-environment.ts';

const VARIABLES = {
  ...TEST_VARIABLES,
  DATA_CAPTURE_S3_BUCKET: 'captures',
  DATA_CAPTURE_S3_PREFIX: 'my-endpoint/',
  REPLAY_ENDPOINT_NAMES: 'blue, green ,',
  REPLAY_INFERENCE_COMPONENT_NAMES: 'adapter',
  REPLAY_URLS: 'http://host, https://host:443/,http://10.0.0.7:8080',
  REPLAY_HEADERS_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:headers-AbCdEf',
  AWS_REGION: 'eu-west-1',
};
const environment: ReplayEnvironment = readReplayEnvironment(VARIABLES);
const URL_TARGET = { url: 'http://host' };
const parse = (input: unknown, more: Partial<ReplayEnvironment> = {}) =>
  parseReplayInput(input, { ...environment, ...more });
const refusal = (input: unknown, more: Partial<ReplayEnvironment> = {}): { name: string; message: string } => {
  try {
    parse(input, more);
  } catch (error) {
    return error as Error;
  }
  throw new Error('it was taken');
};

test('names missing variables of the environment', () => {
  expect(environment.REPLAY_ENDPOINT_NAMES).toEqual(['blue', 'green']);
  expect(readReplayEnvironment({ ...VARIABLES, REPLAY_ENDPOINT_NAMES: '' }).REPLAY_ENDPOINT_NAMES).toEqual([]);
  expect(() => readReplayEnvironment({ ...VARIABLES, WORK_BUCKET: '' })).toThrow(/InvalidEnvironment|WORK_BUCKET/);
});

test('uses the defaults of the command line and of the stack', () => {
  const job = parse({ target: URL_TARGET });
  expect(job).toEqual({
    source: { bucket: 'captures', prefix: 'my-endpoint/' },
    window: {},
    target: URL_TARGET,
    options: DEFAULT_OPTIONS,
    compare: false,
    dryRun: false,
    shard: {},
  });
  const { window, options, source } = parse({
    source: { prefix: 'my-endpoint/x/', from: '2026-11-20T10:00:00Z', to: '2026-11-20T12:00:00+01:00' },
    target: { endpoint: 'green', inferenceComponent: 'adapter' },
    speedup: 2,
    fixedScheduleEndOffset: 300_000,
  });
  expect(window).toEqual({ fromMs: 1_795_168_800_000, toMs: 1_795_172_400_000 });
  expect(options).toMatchObject({ speedup: 2, fixedScheduleEndOffset: 300_000, timeout: 600 });
  expect(source).toEqual({ bucket: 'captures', prefix: 'my-endpoint/x/' });
});

test('judge implies compare and mlflow', () => {
  const judged = parse({ target: URL_TARGET, judge: true });
  expect(judged).toMatchObject({ compare: true, judge: { budgetUsd: 20 }, mlflow: {} });
  expect(parse({ target: URL_TARGET, judge: true, experiment: 'x' }).mlflow).toEqual({ experiment: 'x' });
  expect(parse({ target: URL_TARGET, judge: true, judgeBudgetUsd: 0 }).judge).toEqual({ budgetUsd: 0 });
  expect(parse({ target: URL_TARGET, mlflow: true }).mlflow).toEqual({});
  expect(parse({ target: URL_TARGET, mlflow: true, experiment: 'x' }).mlflow).toEqual({ experiment: 'x' });
  const neither = parse({ target: URL_TARGET, judge: false, mlflow: false });
  expect([neither.compare, neither.judge, neither.mlflow]).toEqual([false, undefined, undefined]);
});

test.each<[string, unknown, RegExp]>([
  ['a budget without a judge', { target: URL_TARGET, judgeBudgetUsd: 5 }, /judgeBudgetUsd needs "judge": true/],
  ['a negative budget', { target: URL_TARGET, judge: true, judgeBudgetUsd: -1 }, /judgeBudgetUsd/],
  ['an experiment without MLflow', { target: URL_TARGET, experiment: 'x' }, /experiment needs "mlflow": true/],
  ['a judge without MLflow', { target: URL_TARGET, judge: true, mlflow: false }, /"mlflow" cannot be false/],
  ['a judge other than the stack’s', { target: URL_TARGET, judge: true, judgeModel: 'm' }, /judgeModel/],
  ['a text instead of an object', 'replay', /expected object/],
  ['no target', {}, /target/],
  ['an unknown option', { target: URL_TARGET, speed: 2 }, /speed/],
  ['a target with both an endpoint and a URL', { target: { endpoint: 'blue', url: 'http://h' } }, /target/],
  ['a URL that is not HTTP', { target: { url: 'ftp://host' } }, /target\.url/],
  ['an endpoint without a name', { target: { endpoint: '' } }, /target\.endpoint/],
  ['an option of the wrong type', { target: URL_TARGET, speedup: 'twice' }, /speedup.*expected number/],
  ['an option out of range', { target: URL_TARGET, speedup: -1 }, /speedup.*a number above 0/],
  ['two timing modes', { target: URL_TARGET, speedup: 2, concurrency: 3 }, /cannot be combined/],
  [
    'a window that ends before it starts',
    { target: URL_TARGET, source: { from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' } },
    /before/,
  ],
  ['a time without an offset', { target: URL_TARGET, source: { from: '2026-01-02' } }, /source\.from/],
])('rejects %s, with the value and what is allowed', (_, input, problem) => {
  const { name, message } = refusal(input);
  expect(name).toBe('InvalidReplayInput');
  expect(message).toMatch(problem);
  expect(message).toMatch(/got: /);
  expect(message).toMatch(/expected: \{"target"/);
});

test('rejects endpoints and secrets that the settings do not name', () => {
  expect(refusal({ target: { endpoint: 'red' } })).toMatchObject({
    name: 'EndpointNotAllowed',
    message: expect.stringMatching(/got: red; expected: blue, green; where: REPLAY_ENDPOINT_NAMES/),
  });
  expect(refusal({ target: { endpoint: 'blue' } }, { REPLAY_ENDPOINT_NAMES: [] }).message).toMatch(/it is empty/);
  expect(refusal({ target: { endpoint: 'blue', inferenceComponent: 'x' } }).name).toBe('InferenceComponentNotAllowed');
  const secret = (headersSecretArn: string) => ({ target: { ...URL_TARGET, headersSecretArn } });
  expect(refusal(secret('arn:other')).name).toBe('SecretNotAllowed');
  expect(parse(secret(VARIABLES.REPLAY_HEADERS_SECRET_ARN)).target).toMatchObject(URL_TARGET);
});

test('sends only to origins that REPLAY_URLS names, whatever form the URL has', () => {
  expect(environment.REPLAY_URLS).toEqual(['http://host', 'https://host', 'http://10.0.0.7:8080']);
  for (const url of ['http://host/v1/x', 'https://host', 'HTTPS://HOST:443/p', 'http://0xa.0.0.7:8080/invocations']) {
    expect(parse({ target: { url } }).target).toEqual({ url });
  }
  const others = [
    'http://host:8080',
    'https://host:444',
    'https://host.example',
    'http://10.0.0.7',
    'http://host@evil',
  ];
  for (const url of [...others, 'http://127.0.0.1:9001/2018-06-01/runtime']) {
    expect(refusal({ target: { url } })).toMatchObject({
      name: 'UrlNotAllowed',
      message: expect.stringMatching(/expected: http:\/\/host, .*; where: REPLAY_URLS$/),
    });
  }
  const none = refusal({ target: { url: 'https://collector.example' } }, { REPLAY_URLS: [] });
  expect(none.message).toMatch(
    /got: https:\/\/collector\.example; expected: one that the setting REPLAY_URLS names; it is empty/,
  );
  // The secret belongs to these origins.
  const { REPLAY_HEADERS_SECRET_ARN: headersSecretArn } = VARIABLES;
  expect(refusal({ target: { url: 'https://collector.example', headersSecretArn } }).name).toBe('UrlNotAllowed');
});

test('reads the headers of a secret, and never shows them', () => {
  expect(parseHeaders('{"Authorization":"Bearer x"}', 'arn')).toEqual({ Authorization: 'Bearer x' });
  for (const text of ['Bearer s3cret', '["s3cret"]', '{"a":{"b":"s3cret"}}']) {
    expect(() => parseHeaders(text, 'arn')).toThrow(expect.objectContaining({ name: 'InvalidHeader' }));
    expect(() => parseHeaders(text, 'arn')).not.toThrow(/s3cret/);
  }
});

describe('shardBounds', () => {
  test('the input can only lower the limits', () => {
    const asked = shardBounds(DEFAULT_OPTIONS, { seconds: 2, requests: 3, requestsPerSecond: 4 });
    expect(asked).toMatchObject({ windowMs: 2_000, requests: 3, perSecond: 4 });
    const most = shardBounds(DEFAULT_OPTIONS, {});
    expect(shardBounds(DEFAULT_OPTIONS, { seconds: 1e6, requests: 1e9, requestsPerSecond: 1e6 })).toEqual(most);
  });

  test('rejects a timeout that leaves no time for sending', () => {
    expect(() => shardBounds({ ...DEFAULT_OPTIONS, timeout: 800 }, {})).toThrow(
      expect.objectContaining({
        name: 'InvalidReplayInput',
        message: expect.stringContaining('got: timeout 800; expected: at most 770 seconds'),
      }),
    );
    expect(shardBounds({ ...DEFAULT_OPTIONS, timeout: 770 }, {}).windowMs).toBe(30_000);
  });
});

test('rejects the query of a URL and does not show it', () => {
  const { name, message } = refusal({ target: { url: 'https://host/path?key=hunter2&hunter3' }, raw: true });
  expect(name).toBe('InvalidReplayInput');
  expect(message).toContain('"url":"https://host/path?key=<redacted>&<redacted>"');
  expect(message).not.toMatch(/hunter/);
  expect(parse({ target: { url: 'https://host/path?api-version=2024-05-01' } }).target).toEqual({
    url: 'https://host/path?api-version=2024-05-01',
  });
  expect(targetFacts({ url: 'https://host/p?api-version=1' })).toEqual({
    kind: 'url',
    url: 'https://host/p?api-version=<redacted>',
  });
});

const model = 'vendor.unpriced-model';
const planned = () =>
  planJudge({ judge: { budgetUsd: 5 } } as never, {
    environment: { BEDROCK_MODEL_ID: model, EVALUATION_BUDGET_USD: 5, JUDGE_PRICES: {}, MLFLOW_EXPERIMENT_NAME: 'e' },
    checkJudgeModel: async () => undefined,
    mlflow: () => Promise.reject(new Error('not asked')),
  });

test('a stand-in is not named as the model, and needs no price', () =>
  withVariables({ AWS_ENDPOINT_URL_BEDROCK_RUNTIME: 'http://127.0.0.1:1/stand-in' }, async () => {
    expect(await planned()).toEqual({ model: `stand-in for bedrock:/${model}`, budgetUsd: 5 });
  }));

test('a model whose price is unknown is refused', async () => {
  await expect(planned()).rejects.toMatchObject({ name: 'JudgePriceUnknown' });
});

// The limits of cloud replays against each other, so that none of them changes alone.

const DISK_BYTES = REPLAY_DISK_MIB * 1024 * 1024;
/** Upload rate of a shard, bytes per millisecond. Measured: 79 MB/s to the emulator. */
const UPLOADED_BYTES_PER_MS = 48_000;
const LAMBDA_DESCRIPTORS = 1024;

test('the clock starts late enough for the shard that the Map starts last', () => {
  const at = (...due: (number | null)[]) => due.map((firstDueMs) => ({ firstDueMs }));
  expect(startLeadMs(at(0), 0)).toBe(20_000);
  expect(startLeadMs(at(0), 5)).toBe(50_000);
  // All at once: 50 children per second.
  expect(startLeadMs(at(...Array(1000).fill(0)), 0)).toBe(20_000 + 19_980);
  expect(startLeadMs(at(...Array(1000).fill(null)), 0)).toBe(20_000 + 19_980);
  // One after the other: the Map starts each long before it is due.
  expect(startLeadMs(at(...Array.from({ length: 1000 }, (_, n) => n * 200_000)), 0)).toBe(20_000);
  // Stripes of a first window, then a later one.
  expect(startLeadMs(at(...Array(100).fill(0), 200_000), 0)).toBe(20_000 + 1980);
});

test('the files of a shard take at most half of its disk, and all that fits can be uploaded in the reserved time', () => {
  const { requests, bytes } = shardBounds(DEFAULT_OPTIONS, {});
  expect(plannedFileBytes(requests, bytes)).toBeLessThanOrEqual(DISK_BYTES / 2);
  expect(DISK_BYTES / UPLOADED_BYTES_PER_MS).toBeLessThanOrEqual(WRITE_RESERVE_MS);
});

test('sorting all records takes a quarter of the function’s memory', () => {
  expect(MAX_RECORDS * (ENTRY_BYTES + SORT_BYTES)).toBeLessThanOrEqual((ONE_VCPU_MB * 1024 * 1024) / 4);
});

test.each([0, 10])(
  'a shard ends within its function’s time: lead, window, slowest reply, writing; warm-up %s',
  (warmup) => {
    const options = { ...DEFAULT_OPTIONS, warmup };
    const { windowMs } = shardBounds(options, {});
    const lead = SHARD_LEAD_MS + (warmup > 0 ? WARMUP_LEAD_MS : 0);
    const longest = lead + windowMs + options.timeout * 1000 + WRITE_RESERVE_MS;
    expect(longest).toBeLessThanOrEqual(FUNCTION_TIMEOUT_SECONDS * 1000);
  },
);

test('a full rate over the longest window stays within the requests of a shard', () => {
  const { windowMs } = shardBounds({ ...DEFAULT_OPTIONS, timeout: 1 }, {});
  // The number of requests bounds long windows, the rate short ones: both do bound something.
  expect((windowMs / 1000) * MAX_PER_SECOND).toBeGreaterThan(MAX_REQUESTS);
  expect((shardBounds(DEFAULT_OPTIONS, {}).windowMs / 1000) * MAX_PER_SECOND).toBeLessThan(MAX_REQUESTS);
});

test('connections leave file descriptors for S3, the shard’s files and Node', () => {
  const s3Sockets = 50;
  const filesAndNode = 40;
  expect(MAX_CONNECTIONS + s3Sockets + filesAndNode).toBeLessThanOrEqual(LAMBDA_DESCRIPTORS);
});
