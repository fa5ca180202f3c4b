/** Models that lack a feature: the form of the answer steps down and is remembered, and the verdicts are the same. */
import { ConverseResponse$ } from '@aws-sdk/client-bedrock-runtime';
import type { BehaviorInput } from '../../doubles/faulty-judge/behavior.ts';
import { chatCapture } from '../../unit/judge/captures.ts';
import { modelFaults } from './service-model.ts';
import { CHAT_SCORERS, MODEL, outcomesOf, PARCEL_VERDICTS, requestOf, useStandIn } from './setup.ts';

const rig = useStandIn();

const models = (behavior: NonNullable<BehaviorInput['models']>[string]): BehaviorInput => ({
  models: { [MODEL]: behavior },
});
const captures = (count: number) =>
  Array.from({ length: count }, (_, i) => chatCapture({ user: `Where is my parcel ${i}?` }));

/** Returns the form that each request asked for. */
const forms = (): string[] =>
  rig.standIn.recorded.map((call) => {
    const { outputConfig, toolConfig } = requestOf(call);
    return outputConfig ? 'json-schema' : toolConfig ? 'tool' : 'prompt';
  });

test.each([
  ['accepts a JSON schema', {}, ['json-schema']],
  ['refuses the JSON schema', { jsonSchema: 'rejected' }, ['json-schema', 'tool']],
  ['refuses both', { jsonSchema: 'rejected', forcedTool: 'rejected' }, ['json-schema', 'tool', 'prompt']],
] as const)('gets all verdicts from a model that %s', async (_, behavior, found) => {
  rig.behave(models(behavior));
  const judge = rig.judge();
  const result = await judge.judge(chatCapture(), CHAT_SCORERS);
  expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
  expect(forms()).toEqual(found);
  expect(result.spend.calls).toBe(1);
  for (const call of rig.standIn.recorded) {
    if (call.status === 200) expect(modelFaults(ConverseResponse$, call.answer)).toEqual([]);
  }
  // The form is remembered: every further capture takes one call.
  rig.standIn.forget();
  await Promise.all(captures(40).map((capture) => judge.judge(capture, CHAT_SCORERS)));
  expect(forms()).toEqual(Array(40).fill(found.at(-1)));
});

test('lets other calls wait while the first one finds out the form', async () => {
  rig.behave({ delayMs: 20, ...models({ jsonSchema: 'rejected', forcedTool: 'rejected', temperature: 'rejected' }) });
  const judge = rig.judge();
  const results = await Promise.all(captures(60).map((capture) => judge.judge(capture, CHAT_SCORERS)));
  for (const result of results) expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
  expect(rig.standIn.counts).toMatchObject({ calls: 63, refused: 3, answered: 60 });
});

test.each([
  [
    'temperature',
    { temperature: 'rejected' },
    () => requestOf(rig.standIn.recorded.at(-1)).inferenceConfig.temperature,
  ],
  ['a system prompt', { systemPrompt: 'rejected' }, () => requestOf(rig.standIn.recorded.at(-1)).system],
] as const)('asks a model that refuses %s without it', async (_, behavior, sent) => {
  rig.behave(models(behavior));
  const judge = rig.judge();
  expect(outcomesOf(await judge.judge(chatCapture(), CHAT_SCORERS))).toEqual(PARCEL_VERDICTS);
  expect(sent()).toBeUndefined();
  expect(rig.standIn.counts).toMatchObject({ refused: 1, answered: 1 });
  await judge.judge(chatCapture(), CHAT_SCORERS);
  expect(rig.standIn.counts).toMatchObject({ refused: 1, answered: 2 });
});

test('asks a model that refuses a high bound for the lower one that it names', async () => {
  rig.behave(models({ mostAnswerTokens: 700 }));
  expect(outcomesOf(await rig.judge().judge(chatCapture(), CHAT_SCORERS))).toEqual(PARCEL_VERDICTS);
  expect(rig.standIn.counts).toMatchObject({ refused: 1, answered: 1 });
  expect(requestOf(rig.standIn.recorded.at(-1)).inferenceConfig.maxTokens).toBe(700);
});

test('asks a model that refuses caching without it', async () => {
  rig.behave(models({ caching: 'rejected' }));
  const long = CHAT_SCORERS.map((scorer) => ({ ...scorer, question: scorer.question.repeat(6) }));
  await rig.judge().judge(chatCapture(), long);
  const cached = rig.standIn.recorded.map((call) => requestOf(call).system.some((block) => block.cachePoint));
  expect(cached).toEqual([true, false]);
});

test('fails if the model refuses a parameter that the user has set', async () => {
  rig.behave(models({ temperature: 'rejected' }));
  await expect(
    rig.judge({ parameters: { temperature: 0.2 } }).judge(chatCapture(), CHAT_SCORERS),
  ).rejects.toMatchObject({
    name: 'JudgeRefused',
    message: expect.stringContaining('The model refuses the parameter temperature of the settings'),
  });
});

test('reads the answer of a model that ignores the schema', async () => {
  rig.behave(models({ jsonSchema: 'ignored' }));
  const judge = rig.judge();
  for (const capture of captures(5))
    expect(outcomesOf(await judge.judge(capture, CHAT_SCORERS))).toEqual(PARCEL_VERDICTS);
  expect(forms()).toEqual(Array(5).fill('json-schema'));
});

test('reads the answer of a model that answers a forced tool with text', async () => {
  rig.behave(models({ jsonSchema: 'rejected', forcedTool: 'ignored' }));
  expect(outcomesOf(await rig.judge().judge(chatCapture(), CHAT_SCORERS))).toEqual(PARCEL_VERDICTS);
});

test('stops using a form in which a model repeatedly answers nonsense', async () => {
  rig.behave({ fault: 'prose', faultyCalls: 3 });
  const judge = rig.judge();
  // The first capture gets prose on all three rungs, and then an error.
  const first = await judge.judge(chatCapture(), CHAT_SCORERS);
  expect(forms()).toEqual(['json-schema', 'tool', 'prompt']);
  expect(new Set(Object.values(outcomesOf(first)))).toEqual(new Set(['JudgeReplyUnreadable']));
  expect(first.spend.calls).toBe(3);
  // One bad capture does not decide for the others.
  rig.standIn.forget();
  await judge.judge(chatCapture(), CHAT_SCORERS);
  expect(forms()).toEqual(['json-schema']);
});
