/** Bad answers: valid verdicts are kept, missing ones are asked for again, and unobtainable ones become errors with a reason. */
import { ANSWER_FAULTS, type AnswerFault } from '../../doubles/faulty-judge/behavior.ts';
import { chatCapture } from '../../unit/judge/captures.ts';
import { CHAT_SCORERS, MODEL, outcomesOf, PARCEL_VERDICTS, requestOf, useStandIn } from './setup.ts';

const rig = useStandIn();
const NAMES = CHAT_SCORERS.map(({ name }) => name);

/** Every form of answer is combined with every fault. */
const noSchema = { jsonSchema: 'rejected' } as const;
const RUNGS = { 'json-schema': {}, tool: noSchema, prompt: { ...noSchema, forcedTool: 'rejected' } } as const;

const askedOf = (): string[][] => rig.standIn.recorded.filter(({ status }) => status === 200).map(({ asked }) => asked);

/** Checks that the spend equals the service’s count and is divided among the scorers without loss. */
function expectPaid(result: Awaited<ReturnType<ReturnType<typeof rig.judge>['judge']>>): void {
  const { counts } = rig.standIn;
  const { answered: calls, inputTokens, outputTokens } = counts;
  expect(result.spend).toMatchObject({ calls, inputTokens, outputTokens });
  expect(result.verdicts.reduce((sum, { usage }) => sum + usage.inputTokens, 0)).toBe(counts.inputTokens);
  expect(result.verdicts.reduce((sum, { usage }) => sum + usage.outputTokens, 0)).toBe(counts.outputTokens);
  expect(result.verdicts.reduce((sum, { usage }) => sum + (usage.usd ?? 0), 0)).toBeCloseTo(result.spend.usd ?? -1, 12);
}

describe.each(Object.entries(RUNGS))('on the rung %s', (_, behavior) => {
  const FINAL: Partial<Record<AnswerFault, string>> = {
    guardrail: 'JudgeGuardrailIntervened',
    'content-filtered': 'JudgeContentFiltered',
  };
  const recoverable = ANSWER_FAULTS.filter((fault) => !(fault in FINAL));

  /** The model refuses each form once before it answers. */
  const refusals = Object.keys(behavior).length;

  test.each(recoverable)('loses no verdict to one answer that is %s', async (fault) => {
    rig.behave({ fault, faultyCalls: 1 + refusals, models: { [MODEL]: behavior } });
    const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
    expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
    expect(result.verdicts.map(({ scorer }) => scorer)).toEqual(NAMES);
    expectPaid(result);
  });

  test.each(Object.entries(FINAL))('does not ask again after an answer that is %s', async (fault, code) => {
    rig.behave({ fault: fault as AnswerFault, models: { [MODEL]: behavior } });
    const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
    expect(outcomesOf(result)).toEqual(Object.fromEntries(NAMES.map((name) => [name, code])));
    expect(rig.standIn.counts.answered).toBe(1);
    expectPaid(result);
  });
});

test('keeps the verdicts of a partial answer, and asks again only for the missing ones', async () => {
  rig.behave({ fault: 'missing-keys', faultyCalls: 1 });
  const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
  expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
  expect(askedOf()).toEqual([NAMES, NAMES.filter((_, index) => index % 2 === 1)]);
  expectPaid(result);
});

test('keeps the complete entries of a truncated answer, and asks for the rest with a higher limit', async () => {
  rig.behave({ fault: 'cut', faultyCalls: 1 });
  await rig.judge().judge(chatCapture(), CHAT_SCORERS);
  const [first, second] = rig.standIn.recorded.map((call) => ({
    asked: call.asked,
    max: requestOf(call).inferenceConfig.maxTokens as number,
  }));
  expect(second?.asked).toEqual(NAMES.slice(-(second?.asked.length ?? 0)));
  expect(second?.asked.length).toBeLessThan(NAMES.length);
  expect((second?.max ?? 0) / (second?.asked.length ?? 1)).toBeGreaterThan(((first?.max ?? 0) / NAMES.length) * 1.8);
});

test('obtains an answer that exceeds its token bound', async () => {
  const result = await rig.judge({ parameters: { max_tokens: 200 } }).judge(chatCapture(), CHAT_SCORERS);
  const codes = Object.values(outcomesOf(result));
  // 200 tokens are enough for about six of the nine verdicts. The others are asked for again.
  expect(codes).not.toContain('JudgeReplyCut');
  expect(askedOf().length).toBeGreaterThan(1);
});

test.each<[AnswerFault, string]>([
  ['prose', 'JudgeReplyUnreadable'],
  ['nonsense', 'JudgeReplyUnreadable'],
  ['empty', 'JudgeReplyUnreadable'],
  ['malformed', 'JudgeReplyUnreadable'],
  ['wrong-value', 'JudgeValueNotAllowed'],
  ['wrong-language', 'JudgeValueNotAllowed'],
  ['context-exceeded', 'JudgeInputTooLong'],
])('after three answers that are %s, ends as %s', async (fault, code) => {
  rig.behave({ fault });
  const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
  expect(outcomesOf(result)).toEqual(Object.fromEntries(NAMES.map((name) => [name, code])));
  expect(rig.standIn.counts.answered).toBe(3);
  for (const verdict of result.verdicts) {
    expect(verdict).toMatchObject({
      outcome: 'error',
      error: { message: expect.stringContaining('asked 3 times') },
    });
  }
  expectPaid(result);
});

test('returns the available verdicts if every answer is incomplete', async () => {
  rig.behave({ fault: 'missing-keys' });
  const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
  // Nine asked, five answered; four asked, two answered; two asked, one answered; one remains.
  const codes = Object.values(outcomesOf(result));
  expect(codes.filter((code) => code === 'JudgeScorerMissing')).toHaveLength(1);
  expect(askedOf().map((asked) => asked.length)).toEqual([9, 4, 2]);
});
