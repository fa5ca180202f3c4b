/** What is known of models before they are called: their names, properties, prices, and how long they are offered. */

import type { BedrockClient } from '@aws-sdk/client-bedrock';
import { logger } from '../../../src/core/process/logging.ts';
import choice from '../../../src/core/settings/default-judge.json' with { type: 'json' };
import { defaultJudgeModel } from '../../../src/core/settings/variables.ts';
import { ModelCapabilities } from '../../../src/judge/calls/model-capabilities.ts';
import { assertListPrice, checkJudgeModel } from '../../../src/judge/model-check.ts';
import { watchJudgeModels } from '../../../src/judge/model-watch.ts';
import file from '../../../src/judge/models/model-properties.json' with { type: 'json' };
import { outputBurndown, propertiesOf } from '../../../src/judge/models/model-properties.ts';
import table from '../../../src/judge/models/price-table.json' with { type: 'json' };
import { parseProfileId, resolveModel } from '../../../src/judge/models/profile-id.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { priceCall, ratesOf } from '../../../src/judge/pricing/prices.ts';
import { bedrockTransport } from '../../../src/judge/transports/bedrock.ts';
import { askOf } from './captures.ts';

const priced = Object.keys(table.models).filter((id) => /claude|nova/.test(id));

test.each(priced)('%s has a price and properties', (id) => {
  expect(propertiesOf(id)).toBeDefined();
});

test('each generation names its sources, and each model is in one of them', () => {
  for (const { sources, models } of file.generations) {
    expect(models.length).toBeGreaterThan(0);
    expect(sources.filter((source) => !Object.hasOwn(file.sources, source))).toEqual([]);
    expect(sources.length).toBeGreaterThan(0);
  }
  const ids = file.generations.flatMap(({ models }) => models);
  expect(new Set(ids).size).toBe(ids.length);
});

test('the default judge of each region has a price and properties', () => {
  for (const region of [undefined, 'sa-east-1', ...Object.values(choice.geographies).flat()]) {
    const id = defaultJudgeModel(region) ?? '';
    expect(propertiesOf(id)).toBeDefined();
    expect(ratesOf(id)).not.toBeNull();
  }
});

test.each([
  ['bedrock:/us.anthropic.claude-sonnet-5-5', 512, 5],
  ['arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-8', 1024, 5],
  ['amazon.nova-pro-v1:0:24k', 1000, 1],
  ['us.anthropic.claude-sonnet-5-7', undefined, 1],
  ['us.anthropic.claude-sonnet-6', undefined, 1],
  ['arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3', undefined, 1],
])('%s caches from %s tokens on, and its answers count %s-fold', (id, minimum, burndown) => {
  expect(propertiesOf(id)?.cacheMinimum).toBe(minimum);
  expect(outputBurndown(id)).toBe(burndown);
});

const LEAST: [string, object | undefined, number | undefined][] = [
  ['global.anthropic.claude-sonnet-5-5', { thinking: { type: 'between_tools' } }, undefined],
  ['us.anthropic.claude-sonnet-5', { thinking: { type: 'disabled' } }, undefined],
  ['eu.anthropic.claude-opus-5-5', { output_config: { effort: 'low' } }, undefined],
  ['anthropic.claude-opus-4-7', undefined, undefined],
  ['us.anthropic.claude-sonnet-4-6', undefined, 0],
  ['openai.gpt-oss-120b-1:0', { reasoning_effort: 'low' }, 0],
  ['us.anthropic.claude-sonnet-6', undefined, 0],
];
test.each(LEAST)('the first request to %s has what the model accepts', (model, fields, temperature) => {
  const sent = (given: object, refused?: 'thinking') => {
    const capabilities = new ModelCapabilities(propertiesOf(model));
    if (refused !== undefined) capabilities.refuseFeature(refused);
    const ask = { ...askOf(), supports: capabilities.supports.bind(capabilities) };
    return bedrockTransport(model, readParameters({ ...given }), {} as never).request(ask);
  };
  expect(sent({}).additionalModelRequestFields).toEqual(fields);
  expect(sent({}).inferenceConfig?.temperature).toBe(temperature);
  // A person decides otherwise, or the model refuses the field.
  expect(sent({ output_config: { effort: 'high' } }).additionalModelRequestFields).toEqual({
    output_config: { effort: 'high' },
  });
  expect(sent({}, 'thinking').additionalModelRequestFields).toBeUndefined();
});

test.each([
  [{ temperature: 0 }, 'us.anthropic.claude-sonnet-5-5', /temperature: us\.\S+-5-5 refuses it. Write {};/],
  [{ topP: 0.5, max_tokens: 900 }, 'anthropic.claude-opus-4-7', /top_p: .* refuses it. Write {"max_tokens":900};/],
  [{ thinking: { type: 'disabled' } }, 'us.anthropic.claude-opus-5-5', /thinking:disabled: .* refuses it. Write {};/],
  [{ thinking: { type: 'enabled', budget_tokens: 9 } }, 'anthropic.claude-sonnet-5', /thinking:enabled: /],
])('%j is refused for %s before it is sent', (given, model, message) => {
  expect(() => readParameters(given, [model])).toThrow(message);
  expect(() => readParameters(given, ['us.anthropic.claude-sonnet-6'])).not.toThrow();
});

// ----------------------------------------------------------------------------------------------- names and prices

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

test('a profile is told from its model by its geography, for every model with a price', () => {
  const models = Object.keys(table.models);
  expect(models.length).toBeGreaterThan(100);
  const arn = 'arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-6';
  for (const id of [...models, arn, 'openai:/gpt-5-mini', 'sagemaker:/us.my-judge'])
    expect([id, parseProfileId(id)]).toEqual([id, undefined]);
  for (const geography of ['global', 'us', 'eu', 'apac', 'us-gov', 'jp'])
    for (const model of models) expect(parseProfileId(`${geography}.${model}`)).toEqual({ geography, model });
});

// ------------------------------------------------------------------------------------------- the check of a model

const NOW = new Date('2026-11-20T12:00:00Z');
const DAY_MS = 86_400_000;
const MODEL = 'anthropic.claude-sonnet-4-6';

type Reply = { status?: string; endOfLifeTime?: Date; publicExtendedAccessTime?: Date } | Error;
const bedrock = (reply: Reply): BedrockClient =>
  ({
    send: async () => {
      if (reply instanceof Error) throw reply;
      const models = [{ modelArn: `arn:aws:bedrock:us-east-1::foundation-model/${MODEL}` }];
      return { models, modelDetails: { modelLifecycle: reply } };
    },
  }) as unknown as BedrockClient;
const named = (name: string): Error => Object.assign(new Error('no'), { name });

test('a model that ends at this moment has ended', async () => {
  const ending = bedrock({ status: 'LEGACY', endOfLifeTime: NOW });
  expect(await checkJudgeModel(MODEL, ending, NOW)).toMatchObject({ model: MODEL, state: 'ended', level: 'error' });
});

test.each([
  [31, undefined, false],
  [30, '2026-12-20', false],
  [0, '2026-11-20', true],
  [-40, '2026-10-11', true],
])(
  'a legacy model that costs more in %i days: the line to set, and then an unknown price',
  async (days, from, isLate) => {
    const publicExtendedAccessTime = new Date(NOW.getTime() + days * DAY_MS);
    const found = await checkJudgeModel(`us.${MODEL}`, bedrock({ status: 'LEGACY', publicExtendedAccessTime }), NOW);
    expect([found.level, found.dearerFrom]).toEqual(['warning', from]);
    const line = `JUDGE_PRICES={"us.${MODEL}":{"input":3.3,"output":16.5}}`;
    expect(found.message.includes(line)).toBe(from !== undefined);
    const price = { input: 4, output: 20 };
    expect(() => assertListPrice(found, { [`bedrock:/us.${MODEL}`]: price }, NOW)).not.toThrow();
    const unpriced = expect(() => assertListPrice(found, { other: price }, NOW));
    if (isLate) unpriced.toThrow(expect.objectContaining({ name: 'JudgePriceUnknown' }));
    else unpriced.not.toThrow();
  },
);

test('a failed look-up is reported, and does not stop a run', async () => {
  const warn = jest.spyOn(logger, 'warn').mockImplementation();
  const failure = named('ServiceUnavailableException');
  expect(await watchJudgeModels([MODEL], bedrock(failure))()).toBeUndefined();
  expect(warn.mock.calls).toEqual([[expect.any(String), failure]]);
});

test('of a cascade, a run is told of the model that costs more', async () => {
  jest.spyOn(logger, 'warn').mockImplementation();
  const send = async ({ input }: { input: { modelIdentifier: string } }) => {
    const publicExtendedAccessTime = input.modelIdentifier === MODEL ? new Date() : undefined;
    return { modelDetails: { modelLifecycle: { status: 'LEGACY', publicExtendedAccessTime } } };
  };
  const check = watchJudgeModels(['amazon.nova-pro-v1:0', MODEL], { send } as never);
  expect(await check()).toMatchObject({ model: MODEL });
});
