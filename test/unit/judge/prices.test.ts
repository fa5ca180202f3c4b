/** Resolving a model’s name, and pricing its calls. */

import table from '../../../src/judge/models/price-table.json' with { type: 'json' };
import { parseProfileId, resolveModel } from '../../../src/judge/models/profile-id.ts';
import { priceCall, ratesOf, requireKnownPrice } from '../../../src/judge/pricing/prices.ts';
import { withVariables } from '../../helpers/aws-answers.ts';

const SONNET = 'anthropic.claude-sonnet-4-6';
const million = { inputTokens: 1_000_000, outputTokens: 1_000_000 };

describe('resolveModel', () => {
  test.each([
    [SONNET, { model: SONNET }],
    [`bedrock:/global.${SONNET}`, { model: SONNET, profile: 'global' }],
    [`us.${SONNET}`, { model: SONNET, profile: 'us' }],
    ['us-gov.anthropic.claude-sonnet-5', { model: 'anthropic.claude-sonnet-5', profile: 'us-gov' }],
    // The dots in these names belong to versions, not to geographies.
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
  ])('resolves %s', (id, expected) => expect(resolveModel(id)).toEqual(expected));

  test.each([
    'arn:aws:bedrock:us-east-1:111122223333:application-inference-profile/a1b2c3d4e5f6',
    'arn:aws:bedrock:us-east-1:111122223333:provisioned-model/abc',
    'arn:aws:bedrock:us-east-1:111122223333:imported-model/abc',
    'arn:aws:sagemaker:us-east-1:111122223333:endpoint/judge',
  ])('does not resolve %s', (id) => expect(resolveModel(id)).toBeUndefined());
});

describe('priceCall', () => {
  test('prices input and output at separate rates', () => {
    expect(priceCall(SONNET, { inputTokens: 1000, outputTokens: 200 })).toBeCloseTo(0.003 + 0.003, 12);
  });

  test('uses the rates of a geographic profile, and the default for the global one', () => {
    expect(priceCall(`global.${SONNET}`, million)).toBeCloseTo(18, 9);
    expect(priceCall(`us.${SONNET}`, million)).toBeCloseTo(19.8, 9);
  });

  test('uses a region’s separate rates, from the options or the ARN', () => {
    const llama = 'meta.llama3-8b-instruct-v1:0';
    const home = priceCall(llama, million) as number;
    expect(home).toBeCloseTo(0.9, 9);
    expect(priceCall(llama, million, { region: 'ap-south-1' })).toBeCloseTo(1.08, 9);
    expect(priceCall(`arn:aws:bedrock:ap-south-1::foundation-model/${llama}`, million)).toBeCloseTo(1.08, 9);
    expect(priceCall(llama, million, { region: 'xx-nowhere-1' })).toBe(home);
  });

  test('uses the most expensive listed rates for an unlisted geography', () => {
    expect(priceCall(`sa.${SONNET}`, million)).toBeGreaterThanOrEqual(priceCall(`us.${SONNET}`, million) as number);
  });

  test('uses separate rates for cached tokens, or else the input rate', () => {
    const cached = { inputTokens: 0, outputTokens: 0, cacheReadInputTokens: 1_000_000, cacheWriteInputTokens: 0 };
    expect(priceCall(SONNET, cached)).toBeCloseTo(0.3, 9);
    expect(priceCall(SONNET, { ...cached, cacheReadInputTokens: 0, cacheWriteInputTokens: 1_000_000 })).toBeCloseTo(
      3.75,
      9,
    );
    expect(priceCall('meta.llama3-8b-instruct-v1:0', cached)).toBeCloseTo(0.3, 9);
  });

  test('halves the price for batch inference', () => {
    expect(priceCall(SONNET, million, { batch: true })).toBeCloseTo(9, 9);
  });

  test.each(['anthropic.claude-that-is-not-there', 'openai:/gpt-x', 'sagemaker:/my-judge', '', 'us.'])(
    '%p has an unknown price instead of 0',
    (id) => expect(priceCall(id, million)).toBeNull(),
  );

  test('uses a price that the user sets, as rates or as another model', () => {
    const profile = 'arn:aws:bedrock:us-east-1:111122223333:application-inference-profile/a1b2c3d4e5f6';
    expect(priceCall(profile, million, { overrides: { [profile]: `us.${SONNET}` } })).toBeCloseTo(19.8, 9);
    expect(priceCall('my-judge', million, { overrides: { 'my-judge': { input: 1, output: 2 } } })).toBeCloseTo(3, 9);
    expect(ratesOf(profile, { overrides: { [profile]: 'unheard.of' } })).toBeNull();
  });
});

describe('requireKnownPrice', () => {
  test('refuses and names a model with an unknown price if a budget is set', () => {
    expect(() => requireKnownPrice('vendor.new-model', 20)).toThrow(
      expect.objectContaining({ name: 'JudgePriceUnknown', message: expect.stringContaining('vendor.new-model') }),
    );
  });

  test('accepts an unknown price of a stand-in, which costs nothing', () =>
    withVariables({ AWS_ENDPOINT_URL_BEDROCK_RUNTIME: 'http://127.0.0.1:1/stand-in' }, async () =>
      expect(requireKnownPrice('vendor.new-model', 20)).toBeNull(),
    ));

  test('accepts an unknown price without a budget, and a known price with one', () => {
    expect(requireKnownPrice('vendor.new-model', 0)).toBeNull();
    expect(requireKnownPrice('vendor.new-model', undefined)).toBeNull();
    expect(requireKnownPrice(`global.${SONNET}`, 20)).toMatchObject({ input: 3, output: 15 });
  });
});

test('a profile is told from its model by its geography, for every model with a price', () => {
  const models = Object.keys(table.models);
  expect(models.length).toBeGreaterThan(100);
  const arn = 'arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-6';
  for (const id of [...models, arn, 'openai:/gpt-5-mini', 'sagemaker:/us.my-judge'])
    expect([id, parseProfileId(id)]).toEqual([id, undefined]);
  for (const geography of ['global', 'us', 'eu', 'apac', 'us-gov', 'jp'])
    for (const model of models) expect(parseProfileId(`${geography}.${model}`)).toEqual({ geography, model });
});
