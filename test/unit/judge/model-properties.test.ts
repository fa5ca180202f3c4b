/** What is known of models before they are called. */
import choice from '../../../src/core/settings/default-judge.json' with { type: 'json' };
import { defaultJudgeModel } from '../../../src/core/settings/variables.ts';
import { ModelCapabilities } from '../../../src/judge/calls/model-capabilities.ts';
import file from '../../../src/judge/models/model-properties.json' with { type: 'json' };
import { propertiesOf } from '../../../src/judge/models/model-properties.ts';
import table from '../../../src/judge/models/price-table.json' with { type: 'json' };
import { readParameters } from '../../../src/judge/parameters.ts';
import { ratesOf } from '../../../src/judge/pricing/prices.ts';
import { outputBurndown } from '../../../src/judge/pricing/quota-tokens.ts';
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
