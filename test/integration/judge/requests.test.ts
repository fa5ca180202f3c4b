/** The judge’s requests, as Bedrock receives them. */
import { ConverseRequest$, ConverseResponse$, StopReason } from '@aws-sdk/client-bedrock-runtime';
import { activeScorers } from '../../../src/judge/active-scorers.ts';
import { defaultJudgeScorers, isJudgeScorer } from '../../../src/judge/scorers/scorer-set.ts';
import { createBedrockClient } from '../../../src/judge/transports/bedrock.ts';
import type { RecordedCall } from '../../doubles/faulty-judge/server.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { chatCapture, toolCallCapture } from '../../unit/judge/captures.ts';
import { modelFaults } from './service-model.ts';
import { CHAT_SCORERS, credentials, MODEL, outcomesOf, PARCEL_VERDICTS, requestOf, useStandIn } from './setup.ts';

const rig = useStandIn();

/** Checks the answer against the SDK's service model. Jest's environment checks the request. */
function expectValid(call: RecordedCall): void {
  expect(modelFaults(ConverseResponse$, call.answer)).toEqual([]);
  expect(Object.values(StopReason)).toContain((call.answer as { stopReason: string }).stopReason);
}

test('finds errors by the check against the service model', () => {
  const good = { messages: [{ role: 'user', content: [{ text: 'x' }] }] };
  expect(modelFaults(ConverseRequest$, good, ['modelId'])).toEqual([]);
  expect(modelFaults(ConverseRequest$, good)).toEqual(['body.modelId: missing']);
  expect(modelFaults(ConverseRequest$, { ...good, mesages: [] }, ['modelId'])).toEqual([
    'body.mesages: not a member of ConverseRequest',
  ]);
  expect(modelFaults(ConverseRequest$, { messages: [{ content: [{ text: 1, image: {} }] }] }, ['modelId'])).toEqual([
    'body.messages[0].content[0].text: not a string',
    'body.messages[0].content[0].image.format: missing',
    'body.messages[0].content[0].image.source: missing',
    'body.messages[0].content[0]: a ContentBlock has one member, not 2',
    'body.messages[0].role: missing',
  ]);
});

test('asks the whole default set in one call over HTTP/2', async () => {
  const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
  expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
  expect(rig.standIn.recorded).toHaveLength(1);
  const [call] = rig.standIn.recorded;
  const asked = CHAT_SCORERS.map(({ name }) => name);
  expect(call).toMatchObject({ protocol: 'h2', path: `/model/${MODEL}/converse`, modelId: MODEL, status: 200, asked });
  expectValid(call as RecordedCall);
  const { outputConfig, inferenceConfig, toolConfig } = requestOf(call);
  expect(outputConfig?.textFormat.type).toBe('json_schema');
  const schema = JSON.parse(outputConfig?.textFormat.structure.jsonSchema.schema ?? '') as { required: string[] };
  expect(schema.required).toEqual(CHAT_SCORERS.map(({ name }) => name));
  expect(toolConfig).toBeUndefined();
  // Bedrock deducts maxTokens from the quota, so it is small, but enough for the answer.
  expect(inferenceConfig).toEqual({ maxTokens: 1270, temperature: 0 });
  expect(rig.standIn.counts.outputTokens).toBeLessThan(1270 / 2);
});

test('judges tool calls with the offered tools', async () => {
  const scorer = defaultJudgeScorers.filter(({ name }) => name === 'tool_call_correctness');
  const judge = rig.judge();
  expect(outcomesOf(await judge.judge(toolCallCapture(), scorer))).toEqual({ tool_call_correctness: 'yes' });
  expect(outcomesOf(await judge.judge(toolCallCapture('refund'), scorer))).toEqual({ tool_call_correctness: 'no' });
  expect(outcomesOf(await judge.judge(toolCallCapture('track', '{parcel:'), scorer))).toEqual({
    tool_call_correctness: 'no',
  });
});

test('makes no call without scorers', async () => {
  expect(await rig.judge().judge(chatCapture(), [])).toEqual({
    verdicts: [],
    spend: { calls: 0, inputTokens: 0, outputTokens: 0, usd: 0 },
  });
  expect(rig.standIn.counts.calls).toBe(0);
});

describe('settings', () => {
  test('passes a guardrail on, which checks only the record', async () => {
    await rig
      .judge({ parameters: { guardrail: 'grabc123:2', serviceTier: 'flex' } })
      .judge(chatCapture(), CHAT_SCORERS);
    const [call] = rig.standIn.recorded;
    expectValid(call as RecordedCall);
    expect(requestOf(call).guardrailConfig).toEqual({ guardrailIdentifier: 'grabc123', guardrailVersion: '2' });
    expect(call?.body).toMatchObject({ serviceTier: { type: 'flex' } });
    const guarded = requestOf(call).messages[0]?.content.filter((block) => block.guardContent) ?? [];
    expect(guarded).toHaveLength(1);
    expect(guarded[0]?.guardContent?.text.text).toMatch(/^#[0-9a-f]{12} BEGIN\n[\s\S]*\n#[0-9a-f]{12} END$/);
  });

  test('puts an ARN as the model id unchanged into the path', async () => {
    const arn = 'arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-6';
    const judge = rig.judge({ model: `bedrock:/${arn}` });
    expect(judge.sourceId).toBe(`bedrock:/${arn}`);
    await judge.judge(chatCapture(), CHAT_SCORERS);
    expect(rig.standIn.recorded[0]?.modelId).toBe(arn);
  });
});

test('shares one or two connections among 60 calls', async () => {
  rig.behave({ delayMs: 20 });
  const client = createBedrockClient({ endpoint: rig.standIn.url, region: 'us-east-1', credentials });
  const judge = rig.judge({ clients: { bedrockRuntime: client } });
  const before = rig.standIn.connections;
  await Promise.all(Array.from({ length: 60 }, () => judge.judge(chatCapture(), CHAT_SCORERS)));
  expect(rig.standIn.counts.maxInFlight).toBeGreaterThan(4);
  expect(rig.standIn.connections - before).toBeLessThanOrEqual(2);
  client.destroy();
});

describe('prompt caching', () => {
  beforeEach(() => rig.behave({ models: { '*': { caching: 'counted' } } }));
  const cachePoints = (): number =>
    rig.standIn.recorded.filter((call) => requestOf(call).system.some((block) => block.cachePoint)).length;
  test('is used from the model’s minimum on, and cached tokens are cheaper', async () => {
    const judge = rig.judge();
    const scorers = activeScorers(testEnvironment({ JUDGE_PREFIX: 'cached' }))
      .filter(isJudgeScorer)
      .filter(({ name }) => CHAT_SCORERS.some((scorer) => scorer.name === name));
    const first = await judge.judge(chatCapture(), scorers);
    const second = await judge.judge(chatCapture({ user: 'And where is parcel 77?' }), scorers);
    expect(cachePoints()).toBe(2);
    for (const call of rig.standIn.recorded) expectValid(call);
    const usages = rig.standIn.recorded.map((call) => (call.answer as { usage: Record<string, number> }).usage);
    expect(usages[0]?.cacheWriteInputTokens).toBeGreaterThan(2067);
    expect(usages[1]?.cacheReadInputTokens).toBe(usages[0]?.cacheWriteInputTokens);
    expect(second.spend.usd ?? 0).toBeLessThan((first.spend.usd ?? 0) * 0.75);
    const written = usages[0]?.cacheWriteInputTokens;
    expect(first.spend).toMatchObject({ cacheCalls: 1, cacheReadTokens: 0, cacheWriteTokens: written });
    expect(second.spend).toMatchObject({ cacheCalls: 1, cacheReadTokens: written, cacheWriteTokens: 0 });
    // Cached tokens are input tokens, too.
    expect(second.spend.inputTokens).toBe(rig.standIn.recorded[1]?.inputTokens);
  });

  test.each([
    ['below the minimum', MODEL, CHAT_SCORERS],
    ['for a model with a higher minimum', 'global.anthropic.claude-haiku-4-5-20251001-v1:0', CHAT_SCORERS],
    ['for a model that is not known to cache', 'meta.llama3-3-70b-instruct-v1:0', CHAT_SCORERS],
  ])('is not used %s', async (_, model, scorers) => {
    await rig.judge({ model }).judge(chatCapture(), scorers);
    expect(cachePoints()).toBe(0);
  });
});
