/** Judges outside Bedrock: an OpenAI-compatible URL, and a SageMaker endpoint. */

import { judgeOf } from '../../../src/judge/connect.ts';
import { createJudgeOver } from '../../../src/judge/judge-capture.ts';
import { parseJudgeId } from '../../../src/judge/judge-id.ts';
import { readParameters } from '../../../src/judge/parameters.ts';
import { openAiTransport } from '../../../src/judge/transports/openai.ts';
import { createSageMakerClient, sageMakerTransport } from '../../../src/judge/transports/sagemaker.ts';
import type { CallUsage, Judge } from '../../../src/judge/types.ts';
import { startStandInJudge } from '../../doubles/faulty-judge/server.ts';
import { serve } from '../../helpers/serve.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { chatCapture } from '../../unit/judge/captures.ts';
import { CHAT_SCORERS, credentials, outcomesOf, PARCEL_VERDICTS, QUICK_RETRY, useStandIn } from './setup.ts';

const rig = useStandIn();

interface ChatRequest {
  model?: string;
  messages: { role: string; content: string }[];
  max_tokens?: number;
  max_completion_tokens?: number;
  temperature?: number;
  response_format?: { type: string; json_schema: { name: string; strict: boolean; schema: { required: string[] } } };
  tools?: unknown[];
  tool_choice?: unknown;
}
const bodyOf = (index: number): ChatRequest => rig.standIn.recorded.at(index)?.body as ChatRequest;
const forms = (): string[] =>
  rig.standIn.recorded.map(({ body }) => {
    const { response_format, tools } = body as ChatRequest;
    return response_format ? 'json-schema' : tools ? 'tool' : 'prompt';
  });

const PROFILE = 'arn:aws:bedrock:us-east-1:1:inference-profile/us.x';
const parameters = readParameters();
const options = { retry: QUICK_RETRY, price: ({ outputTokens }: CallUsage) => outputTokens * 1e-6 };
const atUrl = (url = rig.standIn.url): Judge =>
  createJudgeOver(
    openAiTransport({ model: 'judge-7b', baseUrl: `${url}/v1`, apiKey: 'sk-example', parameters }),
    options,
  );
const atEndpoint = (name = 'judge-7b', endpoint = rig.standIn.url): Judge => {
  const client = createSageMakerClient({ endpoint, region: 'us-east-1', credentials });
  return createJudgeOver(sageMakerTransport(name, parameters, client), options);
};
const KINDS: [string, () => Judge][] = [
  ['openai:/judge-7b', () => atUrl()],
  ['sagemaker:/judge-7b', () => atEndpoint()],
];

describe.each(KINDS)('%s', (sourceId, judgeThere) => {
  test('answers all scorers in one call', async () => {
    const judge = judgeThere();
    expect(judge.sourceId).toBe(sourceId);
    const result = await judge.judge(chatCapture(), CHAT_SCORERS);
    expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
    expect(rig.standIn.recorded).toHaveLength(1);
    const { inputTokens, outputTokens } = rig.standIn.counts;
    expect(result.spend).toMatchObject({ calls: 1, inputTokens, outputTokens });
    expect(result.spend.usd).toBeCloseTo(rig.standIn.counts.outputTokens * 1e-6, 12);
    const { messages, response_format, temperature, max_tokens } = bodyOf(0);
    expect(messages.map(({ role }) => role)).toEqual(['system', 'user']);
    expect(messages[1]?.content).toMatch(/^The code of this record is [0-9a-f]{12}\.\n#[0-9a-f]{12} BEGIN\n/);
    expect(response_format).toMatchObject({ type: 'json_schema', json_schema: { strict: true } });
    expect(response_format?.json_schema.schema.required).toEqual(CHAT_SCORERS.map(({ name }) => name));
    expect([temperature, max_tokens]).toEqual([0, 1270]);
  });

  test('steps down the rungs, and remembers the form', async () => {
    rig.behave({ models: { '*': { jsonSchema: 'rejected', forcedTool: 'rejected', temperature: 'rejected' } } });
    const judge = judgeThere();
    expect(outcomesOf(await judge.judge(chatCapture(), CHAT_SCORERS))).toEqual(PARCEL_VERDICTS);
    expect(forms()).toEqual(['json-schema', 'tool', 'prompt', 'prompt']);
    expect(bodyOf(-1).temperature).toBeUndefined();
    await judge.judge(chatCapture(), CHAT_SCORERS);
    expect(forms()).toHaveLength(5);
  });

  test('is retried when it throttles or fails', async () => {
    rig.behave({ throttleShare: 0.4, errorShare: 0.2, dropShare: 0.2 });
    const judge = judgeThere();
    const results = await Promise.all(Array.from({ length: 60 }, () => judge.judge(chatCapture(), CHAT_SCORERS)));
    for (const result of results) expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
    expect(rig.standIn.counts.answered).toBe(60);
  });

  test('stops the run if it does not exist', async () => {
    rig.behave({ models: { '*': { state: 'missing' } } });
    await expect(judgeThere().judge(chatCapture(), CHAT_SCORERS)).rejects.toMatchObject({
      name: 'JudgeRefused',
    });
  });

  test('halves the record if the prompt is too long', async () => {
    rig.behave({ models: { '*': { maxInputTokens: 9000 } } });
    const long = chatCapture({ reply: 'Your parcel is on its way. '.repeat(4000) });
    expect(outcomesOf(await judgeThere().judge(long, CHAT_SCORERS)).safety).toBe('yes');
  });
});

test('sends the key with every call to the URL', async () => {
  await atUrl().judge(chatCapture(), CHAT_SCORERS);
  expect(rig.standIn.recorded[0]).toMatchObject({
    path: '/v1/chat/completions',
    headers: { authorization: 'Bearer sk-example', 'content-type': 'application/json' },
  });
  expect(bodyOf(0).model).toBe('judge-7b');
});

test('names the inference component in the header that SageMaker reads, and none without one', async () => {
  const judge = atEndpoint('judge-7b/Llama-8b');
  expect(judge.sourceId).toBe('sagemaker:/judge-7b/Llama-8b');
  expect((await judge.judge(chatCapture(), CHAT_SCORERS)).verdicts).toHaveLength(CHAT_SCORERS.length);
  await atEndpoint().judge(chatCapture(), CHAT_SCORERS);
  expect(rig.standIn.recorded[0]).toMatchObject({
    path: '/endpoints/judge-7b/invocations',
    headers: { 'x-amzn-sagemaker-inference-component': 'Llama-8b' },
  });
  expect(rig.standIn.recorded[1]?.headers).not.toHaveProperty('x-amzn-sagemaker-inference-component');
});

test.each([
  'Inference Component Name header is required for endpoints to which you plan to deploy inference components.',
  'Inference Component x of endpoint y was not found.',
])('says how to name an inference component when SageMaker answers: %s', async (message) => {
  const server = await serve((_, response) => {
    response.writeHead(400, { 'content-type': 'application/json', 'x-amzn-errortype': 'ValidationError' });
    response.end(JSON.stringify({ message }));
  });
  await expect(atEndpoint('judge-7b', server.url).judge(chatCapture(), CHAT_SCORERS)).rejects.toMatchObject({
    name: 'JudgeRefused',
    message: expect.stringContaining('expected: sagemaker:/<endpoint>/<inference component> as BEDROCK_MODEL_ID'),
  });
  await server.close();
});

test('fails as JudgeUnavailable, with the reason, if the judge is not reachable', async () => {
  const gone = await startStandInJudge();
  await gone.close();
  await expect(atUrl(gone.url).judge(chatCapture(), CHAT_SCORERS)).rejects.toMatchObject({
    name: 'JudgeUnavailable',
    message: expect.stringMatching(/127\.0\.0\.1:\d+: TypeError: ECONNREFUSED/),
  });
});

test.each([
  ['global.anthropic.claude-sonnet-4-6', 'bedrock', 'global.anthropic.claude-sonnet-4-6'],
  ['bedrock:/global.anthropic.claude-sonnet-4-6', 'bedrock', 'global.anthropic.claude-sonnet-4-6'],
  [`bedrock:/${PROFILE}`, 'bedrock', PROFILE],
  [PROFILE, 'bedrock', PROFILE],
  ['anthropic.claude-haiku-4-5-20251001-v1:0', 'bedrock', 'anthropic.claude-haiku-4-5-20251001-v1:0'],
  ['openai:/gpt-oss-20b', 'openai', 'gpt-oss-20b'],
  ['openai://gpt-oss-20b', 'openai', 'gpt-oss-20b'],
  ['sagemaker:/my-judge', 'sagemaker', 'my-judge'],
])('parses the judge id %s: %s', (model, scheme, name) => {
  expect(parseJudgeId(model)).toEqual({ scheme, name });
});

test('refuses a judge of an unknown kind', () => {
  for (const settings of [
    { BEDROCK_MODEL_ID: 'gemini:/pro' },
    { BEDROCK_MODEL_ID: 'openai:/x', JUDGE_BASE_URL: 'ftp://x' },
  ])
    expect(() => judgeOf({ ...testEnvironment(), ...settings })).toThrow(
      expect.objectContaining({ name: 'InvalidJudge' }),
    );
});
