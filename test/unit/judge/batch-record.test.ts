/** The form of the answer that a record of a batch job asks for. */
import { batchRecord } from '../../../src/judge/batch/record.ts';
import { propertiesOf } from '../../../src/judge/models/model-properties.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { bedrockTransport } from '../../../src/judge/transports/bedrock.ts';
import { chatCapture } from './captures.ts';

const scorers = scorersFor().filter(isJudgeScorer);
const recordFor = (model: string): string => {
  const transport = bedrockTransport(model, readParameters(), {} as never);
  return JSON.stringify(
    batchRecord(transport, 'tr-1', chatCapture(), scorers, { properties: propertiesOf(model) }).modelInput,
  );
};

test.each([
  ['global.anthropic.claude-sonnet-4-6', true],
  ['eu.anthropic.claude-haiku-4-5-20251001-v1:0', true],
  ['anthropic.claude-opus-5', true],
  ['anthropic.claude-sonnet-4-20250514-v1:0', false],
  ['us.amazon.nova-pro-v1:0', false],
  ['arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3', false],
])('a record for %s has a schema: %s, and never a tool', (model, hasSchema) => {
  const record = recordFor(model);
  expect(record.includes('json_schema')).toBe(hasSchema);
  expect(record.includes('The answer is one JSON object')).toBe(!hasSchema);
  expect(record).not.toContain('toolConfig');
});
