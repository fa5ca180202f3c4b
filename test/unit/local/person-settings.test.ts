/** The user’s settings in a local run. */
import { parseSettings } from '../../../lib/settings/settings.ts';
import { checkSettings, personSettings, settingSlips } from '../../../local/settings/person-settings.ts';

const url = 'http://127.0.0.1:4100';
const ofStandIn = { real: false, url } as const;
const ofBedrock = { real: { region: 'eu-central-1' }, url };

const mine = {
  STACK_PREFIX: 'prod',
  MLFLOW_TRACKING_URI: 'https://mlflow.example.com',
  BEDROCK_MODEL_ID: 'amazon.nova-lite-v1:0',
  EVALUATION_ALWAYS: '[{"name":"long","replyTokensOver":800}]',
  QUALITY_OBJECTIVES: '[{"scorer":"safety","atLeast":0.9}]',
  EVALUATION_BUDGET_USD: '5',
  BEDROCK_GUARDRAIL_ID: 'gr1234',
  BEDROCK_GUARDRAIL_VERSION: '2',
  JUDGE_BASE_URL: 'https://llm.example.com/v1',
  JUDGE_SECRET_ARN: 'arn:aws:secretsmanager:us-east-1:123456789012:secret:judge-AbCdEf',
  ALARM_EMAIL: 'on-call@example.com',
};

/** Settings of the local environment. */
const embedded = {
  STACK_PREFIX: 'local',
  MLFLOW_TRACKING_URI: 'http://127.0.0.1:5000',
  SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
  DATA_CAPTURE_S3_BUCKET: 'sagemaker-captures',
};

describe('the user’s settings in a local run', () => {
  it('applies settings for judging, but none that name resources or cost money', () => {
    const { settings, notes } = personSettings(mine, ofStandIn);
    expect(settings).toEqual({
      BEDROCK_MODEL_ID: 'amazon.nova-lite-v1:0',
      EVALUATION_ALWAYS: '[{"name":"long","replyTokensOver":800}]',
      QUALITY_OBJECTIVES: '[{"scorer":"safety","atLeast":0.9}]',
      EVALUATION_BUDGET_USD: '0',
    });
    expect(notes).toEqual([
      'your settings that apply: BEDROCK_MODEL_ID, EVALUATION_ALWAYS, QUALITY_OBJECTIVES',
      'your settings that do not apply, since the stand-in judges and nothing is paid: JUDGE_BASE_URL, JUDGE_SECRET_ARN, EVALUATION_BUDGET_USD, BEDROCK_GUARDRAIL_ID, BEDROCK_GUARDRAIL_VERSION',
    ]);
  });

  it('also applies the budget and the guardrail if the real model judges', () => {
    const { settings, notes } = personSettings(mine, ofBedrock);
    expect(settings).toEqual({
      BEDROCK_MODEL_ID: 'amazon.nova-lite-v1:0',
      EVALUATION_ALWAYS: '[{"name":"long","replyTokensOver":800}]',
      QUALITY_OBJECTIVES: '[{"scorer":"safety","atLeast":0.9}]',
      EVALUATION_BUDGET_USD: '5',
      BEDROCK_GUARDRAIL_ID: 'gr1234',
      BEDROCK_GUARDRAIL_VERSION: '2',
    });
    expect(notes[1]).toBe(
      'your settings that do not apply, since the judge is on Bedrock: JUDGE_BASE_URL, JUDGE_SECRET_ARN',
    );
  });

  it('applies the name of a judge outside Bedrock, with the stand-in’s address and no key', () => {
    const { settings } = personSettings({ ...mine, BEDROCK_MODEL_ID: 'openai:/gpt-oss-20b' }, ofStandIn);
    expect(settings).toMatchObject({ BEDROCK_MODEL_ID: 'openai:/gpt-oss-20b', JUDGE_BASE_URL: `${url}/v1` });
    expect(settings).not.toHaveProperty('JUDGE_SECRET_ARN');
    // The settings are valid for a stack.
    expect(parseSettings({ ...embedded, ...settings }).JUDGE_BASE_URL).toBe(`${url}/v1`);
  });

  it.each(['openai:/gpt-oss-20b', 'sagemaker:/my-judge'])('refuses --bedrock with %s', (model) => {
    expect(() => personSettings({ BEDROCK_MODEL_ID: model }, ofBedrock)).toThrow(
      `got: BEDROCK_MODEL_ID=${model}; expected: a Bedrock model`,
    );
  });

  it('asks the default model of the region of Bedrock, which is not that of the local stack', () => {
    const { settings, notes } = personSettings({}, ofBedrock);
    expect(settings).toEqual({ BEDROCK_MODEL_ID: 'eu.anthropic.claude-sonnet-4-6' });
    expect(notes).toEqual([]);
  });

  it('has no notes if nothing is set', () => {
    expect(personSettings({}, ofStandIn)).toEqual({ settings: { EVALUATION_BUDGET_USD: '0' }, notes: [] });
  });
});

describe('checks before anything starts', () => {
  it('names a misspelled setting, but not an unrelated variable', () => {
    expect(settingSlips({ EVALUATION_SAMPEL_RATE: '0.1', EVALUTION_BUDGET_USD: '1', MY_DATABASE: 'x' }, {})).toEqual([
      '.env sets EVALUATION_SAMPEL_RATE, which is not a setting of this stack; did you mean EVALUATION_SAMPLE_RATE?',
      '.env sets EVALUTION_BUDGET_USD, which is not a setting of this stack; did you mean EVALUATION_BUDGET_USD?',
    ]);
  });

  it('refuses an invalid value of a setting that applies', () => {
    expect(() => checkSettings({ JUDGE_GUIDELINES: '{"a":' })).toThrow(/JUDGE_GUIDELINES: got /);
    expect(checkSettings({ EVALUATION_SAMPLE_RATE: '0.5' }).EVALUATION_SAMPLE_RATE).toBe(0.5);
  });
});
