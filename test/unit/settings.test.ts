/** Parsing and validating the settings. */

import { hash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandSettings } from '../../bin/cli/settings.ts';
import { doubtsAbout } from '../../lib/settings/checks.ts';
import { functionEnvironment } from '../../lib/settings/function-environment.ts';
import { parseSettings, REQUIRED_SETTING_NAMES, readSettings, SETTING_NAMES } from '../../lib/settings/settings.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';
import { testEnvironment } from '../helpers/test-environment.ts';
import ACCEPTED from './settings-accepted.json' with { type: 'json' };

const required = {
  STACK_PREFIX: 'prod',
  MLFLOW_TRACKING_URI: 'https://mlflow.example.com',
  SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
  DATA_CAPTURE_S3_BUCKET: 'my-captures',
};
const MLFLOW_APP = 'arn:aws:sagemaker:eu-west-1:123456789012:mlflow-app/app-ABC123';
const SECRET = 'arn:aws:secretsmanager:us-east-1:123456789012:secret:mlflow-AbCdEf';

const ARTHUR = { ARTHUR_HOST: 'https://app.arthur.ai', ARTHUR_MODEL_ID: 'a-1', ARTHUR_SECRET_ARN: SECRET };

const parse = (more: Record<string, string | undefined> = {}) => parseSettings({ ...required, ...more });

/** The lines of the error after its heading. */
function refusal(variables: Record<string, string | undefined>): string[] {
  try {
    parseSettings(variables);
  } catch (error) {
    expect((error as Error).name).toBe('InvalidSettings');
    return (error as Error).message.split('\n').slice(1);
  }
  throw new Error('The settings were accepted');
}
const refusalOf = (name: string, value: string): string => {
  const lines = refusal({ ...required, [name]: value });
  expect(lines).toHaveLength(1);
  return lines[0] ?? '';
};

describe('the settings as a whole', () => {
  it('lists every missing required setting in one error', () => {
    const lines = refusal({ STACK_PREFIX: '', DATA_CAPTURE_S3_BUCKET: '   ' });
    expect(lines.map((line) => line.trim().split(':')[0])).toEqual(REQUIRED_SETTING_NAMES);
    for (const line of lines) expect(line).toMatch(/: got nothing \(it is required\); expected: \S/);
  });

  it.each([
    ['VPC_SUBNET_IDS', 'subnet-0a1b2c3d', 'VPC_SECURITY_GROUP_IDS'],
    ['VPC_SECURITY_GROUP_IDS', 'sg-0a1b2c3d', 'VPC_SUBNET_IDS'],
  ])('rejects %s=%s without %s', (name, value, missing) => {
    expect(refusal({ ...required, [name]: value })).toEqual([
      `  ${missing}: got nothing; expected: at least one id, since ${name} is set`,
    ]);
  });

  it.each(ACCEPTED.masked as [string, object][])('rejects %s with %j', (name, masking) => {
    const other = name === 'ARTHUR_HOST' ? ARTHUR : { ALARM_QUOTES: 'true' };
    expect(parse(other)).toHaveProperty(name);
    expect(refusal({ ...required, ...other, ...masking })[0]).toContain(`${name}: got `);
  });

  describe('label files', () => {
    const refused = (more: Record<string, string>) => refusal({ ...required, ...more });
    const OVERLAP =
      /GROUND_TRUTH_S3_PREFIX: got s3:.*; expected: a place that neither is in s3:\/\/captures\/.*, nor contains it/;

    it.each(['s3://captures/my-endpoint/', 's3://captures/my-endpoint/labels', 's3://captures'])(
      'may not be where the captures are: %s',
      (place) => {
        const captures = { DATA_CAPTURE_S3_BUCKET: 'captures', SAGEMAKER_ENDPOINT_NAME: 'my-endpoint' };
        expect(refused({ ...captures, GROUND_TRUTH_S3_PREFIX: place })).toEqual([expect.stringMatching(OVERLAP)]);
      },
    );

    it('may not be among the files for Arthur', () => {
      const captures = { DATA_CAPTURE_S3_BUCKET: 'captures', DATA_CAPTURE_S3_PREFIX: 'ep/blue/' };
      const places = { ARTHUR_S3_PREFIX: 'ep/', GROUND_TRUTH_S3_PREFIX: 's3://captures/ep/labels/' };
      expect(refused({ ...captures, ...ARTHUR, ...places })).toEqual([expect.stringMatching(OVERLAP)]);
    });

    it('may be next to the captures', () => {
      const place = { DATA_CAPTURE_S3_BUCKET: 'captures', GROUND_TRUTH_S3_PREFIX: 's3://captures/my-endpoint-labels' };
      const settings = parseSettings({ ...required, ...place, SAGEMAKER_ENDPOINT_NAME: 'my-endpoint' });
      expect(settings.GROUND_TRUTH_S3_PREFIX).toBe('s3://captures/my-endpoint-labels/');
    });

    it('may not be in the work bucket, and need predictions', () => {
      const GROUND_TRUTH_S3_PREFIX = 's3://sagemakerinferencemonitoringst-workbucketd35aba20-abc/labels/';
      expect(refused({ GROUND_TRUTH_S3_PREFIX, GROUND_TRUTH: '{"days":0}' })).toEqual([
        expect.stringMatching(/GROUND_TRUTH_S3_PREFIX: .*expected: a bucket of yours/),
        expect.stringMatching(/GROUND_TRUTH: got "days":0; expected: "days" of at least 1/),
      ]);
    });

    it('that nothing reads need no alarm and no key', () => {
      const of = (more: object) => doubtsAbout(parseSettings({ ...required, ...more }));
      const key = { GROUND_TRUTH_KMS_KEY_ARN: 'arn:aws:kms:us-east-1:123456789012:key/a', MISSING_LABELS_HOURS: '24' };
      const words = 'MISSING_LABELS_HOURS and GROUND_TRUTH_KMS_KEY_ARN is not used: GROUND_TRUTH_S3_PREFIX is not set';
      expect(of(key)).toContain(words);
      expect(of({ ...key, GROUND_TRUTH_S3_PREFIX: 's3://labels' })).not.toContain(words);
    });
  });

  it('lists missing, invalid and mismatched settings together, each with the value and the expectation', () => {
    const lines = refusal({
      ...required,
      STACK_PREFIX: undefined,
      EVALUATION_SAMPLE_RATE: '1,5',
      MAX_FUNCTIONS: '-1',
      CSV_HEADER: 'yes',
    });
    expect(lines).toEqual([
      '  STACK_PREFIX: got nothing (it is required); expected: letters, digits and "-", at most 30 characters',
      '  EVALUATION_SAMPLE_RATE: got "1,5"; expected: a number from 0 to 1',
      '  MAX_FUNCTIONS: got "-1"; expected: a whole number from 0 to 10000',
      '  CSV_HEADER: got "yes"; expected: true or false',
    ]);
  });

  it('treats an empty variable as not set', () => {
    expect(parse({ EVALUATION_SAMPLE_RATE: '', MLFLOW_EXPERIMENT_NAME: ' ', DATA_CAPTURE_S3_PREFIX: '' })).toEqual(
      parse(),
    );
  });
});

describe('single settings', () => {
  it.each(ACCEPTED.values as [string, string, object?][])('accepts %s=%s', (name, value, more = {}) => {
    expect(parse({ ...more, [name]: value })).toHaveProperty(name, value);
  });

  it.each(ACCEPTED.json as [string, unknown][])('reads %s as JSON', (name, value) => {
    expect(parse({ [name]: JSON.stringify(value) })).toHaveProperty(name, value);
  });

  /** What is said of values that are refused, by setting and value. To record it again: `UPDATE_SETTINGS=1`, this file, and `npm run format`. */
  const REFUSED = `${__dirname}/settings-refused.json`;
  const refused = JSON.parse(readFileSync(REFUSED, 'utf8')) as Record<string, Record<string, string>>;
  afterAll(() => {
    if (process.env.UPDATE_SETTINGS) writeFileSync(REFUSED, JSON.stringify(refused, null, 2));
  });

  it.each(
    Object.entries(refused).flatMap(([name, values]) => Object.keys(values).map((value) => [name, value] as const)),
  )('rejects %s=%s, with the value and what is expected', (name, value) => {
    const line = refusalOf(name, value).trim();
    const words = refused[name] as Record<string, string>;
    if (process.env.UPDATE_SETTINGS) words[value] = line;
    expect(line).toMatch(new RegExp(`^${name}: got .*; expected: \\S`));
    expect(line).toBe(words[value]);
  });

  it('reads the ARN of an app only with its artifact bucket', () => {
    expect(() => parse({ MLFLOW_TRACKING_URI: MLFLOW_APP })).toThrow(
      /MLFLOW_ARTIFACT_BUCKET: got nothing; expected: the bucket .* managed MLflow, since MLFLOW_TRACKING_URI is set/,
    );
  });

  it('ends the capture prefix with a single slash', () => {
    expect(parse({ DATA_CAPTURE_S3_PREFIX: 'data/my-endpoint' }).DATA_CAPTURE_S3_PREFIX).toBe('data/my-endpoint/');
    expect(parse({ DATA_CAPTURE_S3_PREFIX: 'data/my-endpoint/' }).DATA_CAPTURE_S3_PREFIX).toBe('data/my-endpoint/');
  });

  it.each(ACCEPTED.judges as [string, string][])('reads the judge %s as %s', (given, read) => {
    expect(parse({ BEDROCK_MODEL_ID: given, EVALUATION_BUDGET_USD: '0' }).BEDROCK_MODEL_ID).toBe(read);
  });

  it('reads numbers and lists', () => {
    const { EVALUATION_SAMPLE_RATE, EVALUATION_BUDGET_USD, REPLAY_ENDPOINT_NAMES } = parse({
      EVALUATION_SAMPLE_RATE: '0.05',
      EVALUATION_BUDGET_USD: '0',
      REPLAY_ENDPOINT_NAMES: ' one, two ,,three',
    });
    expect({ EVALUATION_SAMPLE_RATE, EVALUATION_BUDGET_USD, REPLAY_ENDPOINT_NAMES }).toEqual({
      EVALUATION_SAMPLE_RATE: 0.05,
      EVALUATION_BUDGET_USD: 0,
      REPLAY_ENDPOINT_NAMES: ['one', 'two', 'three'],
    });
  });
});

describe('the default judge', () => {
  const inRegion = (CDK_DEFAULT_REGION: string | undefined, more = {}) => ({
    ...required,
    CDK_DEFAULT_REGION,
    ...more,
  });

  it.each([
    ['us-east-1', 'us'],
    ['ca-central-1', 'us'],
    ['eu-central-2', 'eu'],
    ['ap-northeast-3', 'jp'],
    ['ap-southeast-2', 'au'],
    ['ap-south-1', 'global'],
    ['il-central-1', 'global'],
    ['mx-central-1', 'global'],
    [undefined, 'global'],
  ])('in %s is called through the profile of %s', (region, geography) => {
    const model = `${geography}.anthropic.claude-sonnet-5-5`;
    expect(parseSettings(inRegion(region)).BEDROCK_MODEL_ID).toBe(model);
    expect(commandSettings({}, { AWS_REGION: region }).BEDROCK_MODEL_ID).toBe(model);
    expect(parseSettings(inRegion(region, { BEDROCK_MODEL_ID: 'a.model', EVALUATION_BUDGET_USD: '0' }))).toMatchObject({
      BEDROCK_MODEL_ID: 'a.model',
    });
  });

  it.each(['us-gov-west-1', 'us-gov-east-1', 'cn-north-1', 'us-iso-east-1', 'eusc-de-east-1'])(
    'does not exist in %s, where one is required if anything is judged',
    (region) => {
      expect(refusal(inRegion(region))).toEqual([
        expect.stringContaining(`  BEDROCK_MODEL_ID: got nothing; expected: a judge, since ${region} has no default`),
      ]);
      const rules = '[{"name":"long replies","replyTokensOver":800}]';
      expect(refusal(inRegion(region, { EVALUATION_SAMPLE_RATE: '0', EVALUATION_ALWAYS: rules }))).toHaveLength(1);
      expect(parseSettings(inRegion(region, { EVALUATION_SAMPLE_RATE: '0' })).EVALUATION_SAMPLE_RATE).toBe(0);
      const judge = {
        BEDROCK_MODEL_ID: 'us-gov.anthropic.claude-3-5-sonnet-20240620-v1:0',
        EVALUATION_BUDGET_USD: '0',
      };
      expect(parseSettings(inRegion(region, judge)).BEDROCK_MODEL_ID).toBe(judge.BEDROCK_MODEL_ID);
    },
  );
});

describe('secrets', () => {
  it.each([
    ['MLFLOW_TRACKING_URI', 'https://bob:hunter2@mlflow.example.com', 'MLFLOW_SECRET_ARN'],
    ['MLFLOW_TRACKING_URI', 'https://bob:hunt/er2@x@mlflow.example.com', 'MLFLOW_SECRET_ARN'],
    ['MLFLOW_TRACKING_URI', 'https://mlflow.example.com?access_token=hunter2', 'MLFLOW_SECRET_ARN'],
    ['SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT', 'https://hunter2@vpce.example.com', 'MLFLOW_SECRET_ARN'],
    ['JUDGE_BASE_URL', 'https://llm.example.com/v1?api-key=hunter2', 'JUDGE_SECRET_ARN'],
    ['ARTHUR_HOST', 'https://bob:hunter2@app.arthur.ai', 'ARTHUR_SECRET_ARN'],
  ])('are rejected in %s and not shown: %s', (name, value, belongsIn) => {
    const line = refusalOf(name, value);
    expect(line).not.toMatch(/hunt|er2@/);
    // A slash in the password makes the URL invalid, so the error names only the form.
    if (!value.includes('hunt/er2')) expect(line).toContain(`Secrets Manager secret and name it in ${belongsIn}`);
  });

  it.each(['MLFLOW_SECRET_ARN', 'JUDGE_SECRET_ARN'])('are not shown if pasted in place of %s', (name) => {
    const line = refusalOf(name, 'sk-proj-hunter2');
    expect(line).not.toContain('hunter2');
    expect(line).toMatch(/got a text of 15 characters .*expected: the complete ARN of a Secrets Manager secret/);
  });

  it('cuts a long value', () => {
    expect(refusalOf('JUDGE_GUIDELINES', `{"a":"${'x'.repeat(5000)}`).length).toBeLessThan(400);
  });
});

describe('settings that must match', () => {
  it('requires keys and secrets of the region of the stack', () => {
    const settings = {
      WORK_KMS_KEY_ARN: 'arn:aws:kms:us-east-1:123456789012:key/mrk-1234abcd',
      REPLAY_HEADERS_SECRET_ARN: SECRET,
    };
    expect(refusal({ ...required, ...settings, CDK_DEFAULT_REGION: 'eu-west-1' })).toEqual([
      '  WORK_KMS_KEY_ARN: got one in us-east-1; expected: one in eu-west-1, the region of the stack',
      '  REPLAY_HEADERS_SECRET_ARN: got one in us-east-1; expected: one in eu-west-1, the region of the stack',
    ]);
    expect(parseSettings({ ...required, ...settings, CDK_DEFAULT_REGION: 'us-east-1' })).toMatchObject(settings);
    expect(parse(settings)).toMatchObject(settings);
  });

  it('requires a key for an OpenAI judge, unless its server needs none', () => {
    const openAi = { ...required, BEDROCK_MODEL_ID: 'openai:/gpt-5-mini', EVALUATION_BUDGET_USD: '0' };
    expect(refusal(openAi)).toEqual([
      expect.stringMatching(/JUDGE_SECRET_ARN: got nothing; .*API key of openai:\/gpt-5-mini/),
    ]);
    expect(parseSettings({ ...openAi, JUDGE_SECRET_ARN: SECRET }).JUDGE_SECRET_ARN).toBe(SECRET);
    expect(parseSettings({ ...openAi, JUDGE_BASE_URL: 'http://vllm:8000/v1' }).JUDGE_BASE_URL).toBe(
      'http://vllm:8000/v1',
    );
  });

  it('requires tokens for a call of each function that waits for them', () => {
    expect(refusal({ ...required, JUDGE_TOKENS_PER_MINUTE: '7999' })).toEqual([
      '  JUDGE_TOKENS_PER_MINUTE: got 7999; expected: at least 8000, for a call in five minutes from each of 8 functions (MAX_FUNCTIONS, SIZE); or 0 (no limit)',
    ]);
    for (const enough of [
      { JUDGE_TOKENS_PER_MINUTE: '8000' },
      { JUDGE_TOKENS_PER_MINUTE: '1000', MAX_FUNCTIONS: '1' },
      { JUDGE_TOKENS_PER_MINUTE: '32000', MAX_FUNCTIONS: '0', SIZE: 'small' },
    ])
      expect(() => parse(enough)).not.toThrow();
  });

  it('requires the price of the judge if there is a budget', () => {
    const judge = { BEDROCK_MODEL_ID: 'sagemaker:/my-judge' };
    expect(refusal({ ...required, ...judge })).toEqual([
      '  BEDROCK_MODEL_ID: got sagemaker:/my-judge, without a price, which the budget needs; expected: its price in JUDGE_PRICES, such as {"sagemaker:/my-judge":{"input":3,"output":15}}',
    ]);
    expect(parse({ ...judge, EVALUATION_BUDGET_USD: '0' }).EVALUATION_BUDGET_USD).toBe(0);
    expect(
      parse({ ...judge, JUDGE_PRICES: '{"sagemaker:/my-judge":{"input":0.4,"output":0.4}}' }).EVALUATION_BUDGET_USD,
    ).toBe(20);
  });

  it.each([
    [{ BEDROCK_MODEL_ID: 'sagemaker:/my-endpoint' }, 'BEDROCK_MODEL_ID'],
    [{ BEDROCK_MODEL_ID: 'sagemaker:/My-Endpoint/llama' }, 'BEDROCK_MODEL_ID'],
    [{ JUDGE_CASCADE: 'sagemaker:/my-endpoint' }, 'JUDGE_CASCADE'],
  ])('rejects %j, the monitored endpoint, as the judge of itself', (judge, name) => {
    const settings = { ...required, SAGEMAKER_ENDPOINT_NAME: 'my-endpoint', EVALUATION_BUDGET_USD: '0', ...judge };
    expect(refusal(settings)).toEqual([
      expect.stringMatching(`^  ${name}: got .*my-endpoint, .* judged in turn, for ever$`),
    ]);
    expect(() => parseSettings({ ...settings, SAGEMAKER_ENDPOINT_NAME: 'other' })).not.toThrow();
  });

  it.each(['sagemaker:/my-judge/llama', 'sagemaker:/my-judge', 'my-judge/llama', 'my-judge'])(
    'finds the price of an inference component under %s',
    (id) => {
      const judge = {
        BEDROCK_MODEL_ID: 'sagemaker:/my-judge/llama',
        JUDGE_PRICES: `{"${id}":{"input":0.4,"output":0.4}}`,
      };
      expect(parse(judge).EVALUATION_BUDGET_USD).toBe(20);
      const other = JSON.stringify({ 'sagemaker:/my-judge/other': { input: 1, output: 1 } });
      expect(refusal({ ...required, ...judge, JUDGE_PRICES: other })).toHaveLength(1);
    },
  );

  it('refuses a compressed setting that is damaged, by its name', () => {
    const environment = functionEnvironment(parse(), 'work-bucket', 'budget-table');
    expect(() => readEnvironment({ ...environment, SCORER_FUNCTIONS: 'deflate:AAAA' })).toThrow(
      /SCORER_FUNCTIONS: got/,
    );
  });

  it('fits thirty scorer functions into the environment of a function', () => {
    const scorer = (index: number) => ({
      arn: `arn:aws:lambda:eu-west-1:123456789012:function:scorers-of-team-${index}:${index + 1}`,
      ...{
        values: 'number',
        severity: 'task',
        needs: ['request', 'reply'],
        share: 0.1,
        usdPerRecord: 0.0004,
        seconds: 60,
      },
    });
    const scorers = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`scorer_${index}`, scorer(index)]));
    const settings = parse({ SCORER_FUNCTIONS: JSON.stringify(scorers) });
    const environment = functionEnvironment(settings, 'work-bucket', 'budget-table');
    expect(environment.SCORER_FUNCTIONS).toMatch(/^deflate:/);
    expect(readEnvironment(environment).SCORER_FUNCTIONS).toEqual(settings.SCORER_FUNCTIONS);
  });

  it('rejects settings that do not fit into the environment of a function', () => {
    // No compression makes these short.
    const digests = (count: number) =>
      Array.from({ length: count }, (_, index) => hash('sha512', `${index}`, 'base64'));
    const guidelines = (count: number) => JSON.stringify({ long: digests(count).join(' ') });
    expect(parse({ JUDGE_GUIDELINES: guidelines(20) }).JUDGE_GUIDELINES).toEqual({ long: digests(20).join(' ') });
    expect(refusal({ ...required, JUDGE_GUIDELINES: guidelines(40) })).toEqual([
      expect.stringMatching(
        /^ {2}JUDGE_GUIDELINES: got \d{4} bytes, for a total of \d{4} bytes in the functions' environment, where long JSON is compressed; expected: \d+ bytes less: Lambda accepts 4096 in total$/,
      ),
    ]);
  });

  it('skips checks that depend on an invalid setting', () => {
    expect(refusal({ ...required, BEDROCK_MODEL_ID: 'sagemaker:/my-judge', JUDGE_PRICES: 'none' })).toEqual([
      expect.stringMatching(/^ {2}JUDGE_PRICES: got "none"; .*this is not JSON/),
    ]);
  });
});

describe('forwarding to Arthur', () => {
  it('needs a model and a token, and sends it only over https', () => {
    expect(parse(ARTHUR)).toMatchObject(ARTHUR);
    expect(parse({ ...ARTHUR, ARTHUR_HOST: 'http://127.0.0.1:8000/' })).toHaveProperty('ARTHUR_HOST');
    expect(refusal({ ...required, ...ARTHUR, ARTHUR_HOST: 'http://arthur.example.com' }).join()).toMatch(
      /ARTHUR_HOST: .*http only for localhost/,
    );
    for (const host of ['app.arthur.ai', 'ftp://app.arthur.ai'])
      expect(refusal({ ...required, ...ARTHUR, ARTHUR_HOST: host }).join()).toMatch(/ARTHUR_HOST: .*the https URL/);
    for (const name of ['ARTHUR_MODEL_ID', 'ARTHUR_SECRET_ARN'])
      expect(refusal({ ...required, ...ARTHUR, [name]: '' }).join()).toMatch(
        new RegExp(`${name}: got nothing; expected: .*since ARTHUR_HOST is set`),
      );
  });
});

describe('.env and the environment', () => {
  let folder: string;
  let file: string;
  beforeEach(() => {
    folder = temporaryFolder('settings-');
    file = join(folder, '.env');
  });

  const write = (variables: Record<string, string>) =>
    writeFileSync(
      file,
      Object.entries(variables)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    );

  it('prefers the environment to .env, unless the variable is empty', () => {
    write({ ...required, EVALUATION_SAMPLE_RATE: '0.5', MAX_FUNCTIONS: '3' });
    const { settings } = readSettings({ EVALUATION_SAMPLE_RATE: '0.25', MAX_FUNCTIONS: '', STACK_PREFIX: ' ' }, file);
    expect(settings).toEqual({ ...parse(), EVALUATION_SAMPLE_RATE: 0.25, MAX_FUNCTIONS: 3 });
  });

  it('needs no .env', () => {
    expect(readSettings(required, join(folder, 'missing')).settings).toEqual(parse());
  });

  it('accepts quoted values and comments', () => {
    writeFileSync(
      file,
      `# ours\nSTACK_PREFIX="prod" # the first\nMLFLOW_TRACKING_URI='https://mlflow.example.com'\nSAGEMAKER_ENDPOINT_NAME=my-endpoint\nDATA_CAPTURE_S3_BUCKET=my-captures\nJUDGE_GUIDELINES='{"kind":"Be \\"kind\\"."}'\n`,
    );
    expect(readSettings({}, file).settings).toEqual({ ...parse(), JUDGE_GUIDELINES: { kind: 'Be "kind".' } });
  });

  it('warns about misspelled names and suggests the right one', () => {
    write({
      ...required,
      EVALUATION_SAMPEL_RATE: '0.5',
      MAX_FUNCTONS: '3',
      REDCAT: 'default',
      CONTNET: 'none',
      JUDGE_TEMPERATURE: '1',
      PATH_TO_MY_NOTES: 'x',
      MLFLOW_TRACKING_PASSWORD: 'hunter2',
    });
    const { warnings } = readSettings(
      { SAGEMAKER_ENDPOINTNAME: 'x', SITE: 'a', PATH: '/bin', MLFLOW_EXPERIMENT_ID: '3' },
      file,
    );
    expect(warnings).toEqual([
      '.env sets EVALUATION_SAMPEL_RATE, which is not a setting of this stack; did you mean EVALUATION_SAMPLE_RATE?',
      '.env sets MAX_FUNCTONS, which is not a setting of this stack; did you mean MAX_FUNCTIONS?',
      '.env sets REDCAT, which is not a setting of this stack; did you mean REDACT?',
      '.env sets CONTNET, which is not a setting of this stack; did you mean CONTENT?',
      '.env sets JUDGE_TEMPERATURE, which is not a setting of this stack; see .env.example',
      '.env sets MLFLOW_TRACKING_PASSWORD, which only the command line reads; the functions need MLFLOW_SECRET_ARN',
      'The environment sets SAGEMAKER_ENDPOINTNAME, which is not a setting of this stack; did you mean SAGEMAKER_ENDPOINT_NAME?',
    ]);
  });

  it.each([
    [
      { MLFLOW_TRACKING_URI: MLFLOW_APP, MLFLOW_ARTIFACT_BUCKET: 'b-1', MLFLOW_SECRET_ARN: SECRET },
      /MLFLOW_SECRET_ARN is not used/,
    ],
    [{ MLFLOW_TRACKING_URI: 'http://m:5000', MLFLOW_SECRET_ARN: SECRET }, /unencrypted/],
    [{ SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: 'https://x.example.com' }, /SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT is not used/],
    [{ JUDGE_BASE_URL: 'https://x.example.com' }, /JUDGE_BASE_URL is not used/],
    [{ ARTHUR_MODEL_ID: 'a' }, /ARTHUR_MODEL_ID is not used/],
    [{ JUDGE_SECRET_ARN: SECRET }, /JUDGE_SECRET_ARN is not used/],
    [
      {
        BEDROCK_MODEL_ID: 'sagemaker:/j',
        EVALUATION_BUDGET_USD: '0',
        MLFLOW_EVALUATION_MODEL_PARAM: '{"guardrail":"g1:1"}',
      },
      /the guardrail of MLFLOW_EVALUATION_MODEL_PARAM is not used/,
    ],
  ])('warns about %o', (more: Record<string, string>, warning) => {
    const { warnings } = readSettings({ ...required, ...more }, join(folder, 'missing'));
    expect(warnings).toEqual([expect.stringMatching(warning)]);
  });

  it('does not warn about the required settings alone', () => {
    expect(readSettings(required, join(folder, 'missing')).warnings).toEqual([]);
  });
});

describe('the views of the functions and of the command line', () => {
  it('share the defaults of the stack', () => {
    const { JUDGE_PREFIX, BEDROCK_MODEL_ID } = commandSettings({}, {});
    expect({ JUDGE_PREFIX, BEDROCK_MODEL_ID }).toEqual({
      JUDGE_PREFIX: 'short',
      BEDROCK_MODEL_ID: parse().BEDROCK_MODEL_ID,
    });
    const { EVALUATION_BUDGET_USD, MAX_LINE_BYTES } = testEnvironment();
    expect({ EVALUATION_BUDGET_USD, MAX_LINE_BYTES }).toEqual({
      EVALUATION_BUDGET_USD: 20,
      MAX_LINE_BYTES: 75_497_472,
    });
  });

  it('report every invalid setting in the same words as the stack', () => {
    const wrong = { JUDGE_PREFIX: 'both', JUDGE_SECRET_ARN: 'sk-proj-hunter2' };
    const [prefix, secret] = refusal({ ...required, ...wrong })
      .toSorted()
      .map((line) => line.trim());
    for (const read of [() => commandSettings({}, wrong), () => testEnvironment(wrong)]) {
      expect(read).toThrow(expect.objectContaining({ message: expect.stringContaining(prefix ?? '') }));
      expect(read).toThrow(expect.objectContaining({ message: expect.stringContaining(secret ?? '') }));
    }
  });

  it('prefer flags to variables on the command line', () => {
    const settings = commandSettings({ BEDROCK_MODEL_ID: 'bedrock:/a.flag' }, { BEDROCK_MODEL_ID: 'a.variable' });
    expect(settings.BEDROCK_MODEL_ID).toBe('a.flag');
  });
});

it('lists the required settings first', () => {
  expect(SETTING_NAMES.slice(0, REQUIRED_SETTING_NAMES.length)).toEqual(REQUIRED_SETTING_NAMES);
});
