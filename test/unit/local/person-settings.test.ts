/** The user’s settings in a local run. */
import { SETTING_NAMES } from '../../../lib/settings/settings.ts';
import classes from '../../../local/settings/person-settings.json' with { type: 'json' };
import {
  checkProtection,
  checkSettings,
  givenSettings,
  personSettings,
} from '../../../local/settings/person-settings.ts';

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
  JUDGE_BASE_URL: 'https://llm.example.com/v1',
  JUDGE_SECRET_ARN: 'arn:aws:secretsmanager:us-east-1:123456789012:secret:judge-AbCdEf',
  ALARM_EMAIL: 'on-call@example.com',
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
      'your settings that do not apply, since the stand-in judges and nothing is paid: JUDGE_BASE_URL, JUDGE_SECRET_ARN, EVALUATION_BUDGET_USD',
      'your settings that do not apply, since nothing is on AWS: STACK_PREFIX, MLFLOW_TRACKING_URI, ALARM_EMAIL',
    ]);
  });

  it('applies the name of a judge outside Bedrock, with the stand-in’s address and no key', () => {
    const { settings } = personSettings({ ...mine, BEDROCK_MODEL_ID: 'openai:/gpt-oss-20b' }, ofStandIn);
    expect(settings).toMatchObject({ BEDROCK_MODEL_ID: 'openai:/gpt-oss-20b', JUDGE_BASE_URL: `${url}/v1` });
    expect(settings).not.toHaveProperty('JUDGE_SECRET_ARN');
    // The settings are valid for a stack.
    expect(checkSettings(settings).JUDGE_BASE_URL).toBe(`${url}/v1`);
  });

  it.each(['openai:/gpt-oss-20b', 'sagemaker:/my-judge'])('refuses --bedrock with %s', (model) => {
    expect(() => personSettings({ BEDROCK_MODEL_ID: model }, ofBedrock)).toThrow(
      `got: BEDROCK_MODEL_ID=${model}; expected: a Bedrock model`,
    );
  });

  it('asks the default model of the region of Bedrock, which is not that of the local stack', () => {
    const { settings, notes } = personSettings({}, ofBedrock);
    expect(settings).toEqual({ BEDROCK_MODEL_ID: 'eu.anthropic.claude-sonnet-5-5' });
    expect(notes).toEqual([]);
  });
});

describe('every setting of the product', () => {
  const { protecting, ...others } = classes;
  const [bedrock = [], keep = []] = protecting.map(({ settings }) => settings);
  const classOf = { ...others, bedrock, keep };
  const before = { ...process.env };

  afterEach(() => {
    process.env = { ...before };
  });

  it('has one class', () => {
    expect(Object.values(classOf).flat().toSorted()).toEqual(SETTING_NAMES.toSorted());
  });

  it.each(SETTING_NAMES)('%s is applied, named or refused', (name) => {
    process.env[name] = 'x';
    const given = givenSettings('nowhere');
    expect(given[name]).toBe('x');
    for (const judge of [ofStandIn, ofBedrock]) {
      const { settings, notes } = personSettings(given, judge);
      const [, applied] = notes.find((note) => note.startsWith('your settings that apply: '))?.split(': ') ?? [];
      const isApplied = applied?.split(', ').includes(name) ?? false;
      const isMeant = classes.applied.includes(name) || (judge.real && classes.withRealJudge.includes(name));
      expect(isApplied).toBe(isMeant);
      if (isApplied) expect(settings[name]).toBe('x');
      else expect(notes.join('\n')).toMatch(new RegExp(`do not apply, since .*: (.*, )?${name}(,|$)`, 'm'));
    }
    const expectRefused = (options: Parameters<typeof checkProtection>[1], names: readonly string[]) => {
      const check = expect(() => checkProtection(given, options));
      if (names.includes(name)) check.toThrow(`got: ${name}=x`);
      else check.not.toThrow();
    };
    expectRefused({ bedrock: false }, []);
    expectRefused({ bedrock: true }, classOf.bedrock);
    expectRefused({ bedrock: false, keep: '/kept' }, classOf.keep);
  });

  it('is not hidden by a blank one', () => {
    process.env.CONTENT = ' ';
    expect(givenSettings('nowhere')).not.toHaveProperty('CONTENT');
  });

  it.each([
    ['REDACT', 'emial'],
    ['CONTENT', 'some'],
    ['JUDGE_GUIDELINES', '{"a":'],
    ['REDACT', 'pattern:x=('],
  ])('%s=%s stops before anything starts', (name, value) => {
    const { settings } = personSettings({ [name]: value }, ofStandIn);
    expect(() => checkSettings(settings)).toThrow(`${name}: got `);
  });
});
