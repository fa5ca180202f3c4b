import { priceCall, ratesOf, requireKnownPrice, resolveModel } from '../../../src/judge/pricing/prices.ts';

const SONNET = 'anthropic.claude-sonnet-4-6';
const million = { inputTokens: 1_000_000, outputTokens: 1_000_000 };

describe('resolveModel', () => {
  test.each([
    [SONNET, { model: SONNET }],
    [`bedrock:/global.${SONNET}`, { model: SONNET, profile: 'global' }],
    [`us.${SONNET}`, { model: SONNET, profile: 'us' }],
    ['us-gov.anthropic.claude-sonnet-5', { model: 'anthropic.claude-sonnet-5', profile: 'us-gov' }],
    // Dots of versions, not of geographies.
    ['zai.glm-4.7', { model: 'zai.glm-4.7' }],
    ['xai.grok-4.3', { model: 'xai.grok-4.3' }],
    ['eu.deepseek.v3.2', { model: 'deepseek.v3.2', profile: 'eu' }],
    ['amazon.nova-pro-v1:0:24k', { model: 'amazon.nova-pro-v1:0' }],
    [`arn:aws:bedrock:eu-west-1::foundation-model/${SONNET}`, { model: SONNET, region: 'eu-west-1' }],
    [`arn:aws:bedrock:::foundation-model/${SONNET}`, { model: SONNET }],
    [
      `arn:aws:bedrock:eu-west-1:111122223333:inference-profile/eu.${SONNET}`,
      { model: SONNET, profile: 'eu', region: 'eu-west-1' },
    ],
    [
      'arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/amazon.nova-pro-v1:0',
      { model: 'amazon.nova-pro-v1:0', region: 'us-gov-west-1' },
    ],
  ])('%s', (id, expected) => expect(resolveModel(id)).toEqual(expected));

  test.each([
    'arn:aws:bedrock:us-east-1:111122223333:application-inference-profile/a1b2c3d4e5f6',
    'arn:aws:bedrock:us-east-1:111122223333:provisioned-model/abc',
    'arn:aws:bedrock:us-east-1:111122223333:imported-model/abc',
    'arn:aws:sagemaker:us-east-1:111122223333:endpoint/judge',
  ])('%s does not tell its model', (id) => expect(resolveModel(id)).toBeUndefined());
});

describe('priceCall', () => {
  test('is input and output at their own rates', () => {
    expect(priceCall(SONNET, { inputTokens: 1000, outputTokens: 200 })).toBeCloseTo(0.003 + 0.003, 12);
  });

  test('a geographic profile costs what it costs, the global one the default', () => {
    expect(priceCall(`global.${SONNET}`, million)).toBeCloseTo(18, 9);
    expect(priceCall(`us.${SONNET}`, million)).toBeCloseTo(19.8, 9);
  });

  test('a region with rates of its own, given or in the ARN', () => {
    const llama = 'meta.llama3-8b-instruct-v1:0';
    const home = priceCall(llama, million) as number;
    expect(home).toBeCloseTo(0.9, 9);
    expect(priceCall(llama, million, { region: 'ap-south-1' })).toBeCloseTo(1.08, 9);
    expect(priceCall(`arn:aws:bedrock:ap-south-1::foundation-model/${llama}`, million)).toBeCloseTo(1.08, 9);
    expect(priceCall(llama, million, { region: 'xx-nowhere-1' })).toBe(home);
  });

  test('a geography that is not listed is priced at the dearest listed one', () => {
    expect(priceCall(`sa.${SONNET}`, million)).toBeGreaterThanOrEqual(priceCall(`us.${SONNET}`, million) as number);
  });

  test('cached tokens have rates of their own, and the input rate where there is none', () => {
    const cached = { inputTokens: 0, outputTokens: 0, cacheReadInputTokens: 1_000_000, cacheWriteInputTokens: 0 };
    expect(priceCall(SONNET, cached)).toBeCloseTo(0.3, 9);
    expect(priceCall(SONNET, { ...cached, cacheReadInputTokens: 0, cacheWriteInputTokens: 1_000_000 })).toBeCloseTo(
      3.75,
      9,
    );
    expect(priceCall('meta.llama3-8b-instruct-v1:0', cached)).toBeCloseTo(0.3, 9);
  });

  test('batch inference is half', () => {
    expect(priceCall(SONNET, million, { batch: true })).toBeCloseTo(9, 9);
  });

  test.each(['anthropic.claude-that-is-not-there', 'openai:/gpt-x', 'sagemaker:/my-judge', '', 'us.'])(
    '%p has an unknown price, not none',
    (id) => expect(priceCall(id, million)).toBeNull(),
  );

  test('a price is stated by the user, as rates or as another model', () => {
    const profile = 'arn:aws:bedrock:us-east-1:111122223333:application-inference-profile/a1b2c3d4e5f6';
    expect(priceCall(profile, million, { overrides: { [profile]: `us.${SONNET}` } })).toBeCloseTo(19.8, 9);
    expect(priceCall('my-judge', million, { overrides: { 'my-judge': { input: 1, output: 2 } } })).toBeCloseTo(3, 9);
    expect(ratesOf(profile, { overrides: { [profile]: 'unheard.of' } })).toBeNull();
  });
});

describe('requireKnownPrice', () => {
  test('refuses a model of unknown price under a budget, and names it', () => {
    expect(() => requireKnownPrice('vendor.new-model', 20)).toThrow(
      expect.objectContaining({ name: 'JudgePriceUnknown', message: expect.stringContaining('vendor.new-model') }),
    );
  });

  test('lets it run without a budget, and a known one with it', () => {
    expect(requireKnownPrice('vendor.new-model', 0)).toBeNull();
    expect(requireKnownPrice('vendor.new-model', undefined)).toBeNull();
    expect(requireKnownPrice(`global.${SONNET}`, 20)).toMatchObject({ input: 3, output: 15 });
  });
});
