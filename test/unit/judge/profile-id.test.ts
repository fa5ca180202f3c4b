/** Parsing the ids of inference profiles. */
import table from '../../../src/judge/models/price-table.json' with { type: 'json' };
import { parseProfileId } from '../../../src/judge/models/profile-id.ts';

const models = Object.keys(table.models);

it('does not take the id of a known model for a profile', () => {
  expect(models.length).toBeGreaterThan(100);
  expect(models.filter((model) => parseProfileId(model) !== undefined)).toEqual([]);
});

it.each(['global', 'us', 'eu', 'apac', 'us-gov', 'jp'])('parses profiles of the geography %s', (geography) => {
  for (const model of models) expect(parseProfileId(`${geography}.${model}`)).toEqual({ geography, model });
});

it.each([
  'arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-6',
  'openai:/gpt-5-mini',
  'sagemaker:/us.my-judge',
])('does not parse %s', (id) => expect(parseProfileId(id)).toBeUndefined());
