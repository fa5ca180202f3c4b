/** Bad answers: what is good in them is kept, what is not is asked again, what cannot be had is an error with its reason. */
import { ANSWER_FAULTS, type AnswerFault } from '../../../local/stand-in-judge/behavior.ts';
import { chatCapture } from '../../unit/judge/captures.ts';
import { CHAT_SCORERS, MODEL, outcomesOf, PARCEL_VERDICTS, requestOf, useStandIn } from './setup.ts';

const rig = useStandIn();
const NAMES = CHAT_SCORERS.map(({ name }) => name);

/** Every form of answer meets every fault. */
const RUNGS = {
  'json-schema': {},
  tool: { jsonSchema: 'rejected' },
  prompt: { jsonSchema: 'rejected', forcedTool: 'rejected' },
} as const;

const askedOf = (): string[][] => rig.standIn.recorded.filter(({ status }) => status === 200).map(({ asked }) => asked);

/** What was paid is what the service counted, divided over the scorers without loss. */
function expectPaid(result: Awaited<ReturnType<ReturnType<typeof rig.judge>['judge']>>): void {
  const { counts } = rig.standIn;
  expect(result.spend).toMatchObject({
    calls: counts.answered,
    inputTokens: counts.inputTokens,
    outputTokens: counts.outputTokens,
  });
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

  /** A model that refuses a form does so once for each, before it answers. */
  const refusals = Object.keys(behavior).length;

  test.each(recoverable)('one answer that is %s costs no verdict', async (fault) => {
    rig.behave({ fault, faultyCalls: 1 + refusals, models: { [MODEL]: behavior } });
    const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
    expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
    expect(result.verdicts.map(({ scorer }) => scorer)).toEqual(NAMES);
    expectPaid(result);
  });

  test.each(Object.entries(FINAL))('an answer that is %s is an error that is not asked again', async (fault, code) => {
    rig.behave({ fault: fault as AnswerFault, models: { [MODEL]: behavior } });
    const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
    expect(outcomesOf(result)).toEqual(Object.fromEntries(NAMES.map((name) => [name, code])));
    expect(rig.standIn.counts.answered).toBe(1);
    expectPaid(result);
  });
});

test('of a partial answer the verdicts are kept, and only the missing are asked again', async () => {
  rig.behave({ fault: 'missing-keys', faultyCalls: 1 });
  const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
  expect(outcomesOf(result)).toEqual(PARCEL_VERDICTS);
  expect(askedOf()).toEqual([NAMES, NAMES.filter((_, index) => index % 2 === 1)]);
  expectPaid(result);
});

test('of a cut answer the whole entries are kept, and the rest gets more room', async () => {
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

test('an answer that needs more than its bound of tokens is cut, and got in the end', async () => {
  const result = await rig.judge({ parameters: { max_tokens: 200 } }).judge(chatCapture(), CHAT_SCORERS);
  const codes = Object.values(outcomesOf(result));
  // 200 tokens hold some six of the nine verdicts; the others are asked again.
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
])('answers that stay %s end as %s, after three', async (fault, code) => {
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

test('answers that always leave something out end with what could be had', async () => {
  rig.behave({ fault: 'missing-keys' });
  const result = await rig.judge().judge(chatCapture(), CHAT_SCORERS);
  // Nine asked, five answered; four asked, two answered; two asked, one answered; one is left.
  const codes = Object.values(outcomesOf(result));
  expect(codes.filter((code) => code === 'JudgeScorerMissing')).toHaveLength(1);
  expect(askedOf().map((asked) => asked.length)).toEqual([9, 4, 2]);
});

test('asked one by one, one bad answer touches one scorer', async () => {
  rig.behave({ fault: 'guardrail', faultyCalls: 1 });
  const result = await rig.judge({ calls: 'separate' }).judge(chatCapture(), CHAT_SCORERS);
  expect(outcomesOf(result)).toEqual({ ...PARCEL_VERDICTS, safety: 'JudgeGuardrailIntervened' });
  expectPaid(result);
});

describe('a prompt that is too long', () => {
  const long = chatCapture({ reply: 'Your parcel is on its way. '.repeat(4000) });

  test('is tried with less of the captured text', async () => {
    rig.behave({ models: { '*': { maxInputTokens: 9000 } } });
    const result = await rig.judge().judge(long, CHAT_SCORERS);
    expect(outcomesOf(result).safety).toBe('yes');
    expect(rig.standIn.counts).toMatchObject({ refused: 2, answered: 1 });
  });

  test('is an error when even the least of it does not fit', async () => {
    rig.behave({ models: { '*': { maxInputTokens: 600 } } });
    const result = await rig.judge().judge(long, CHAT_SCORERS);
    expect(new Set(Object.values(outcomesOf(result)))).toEqual(new Set(['JudgeInputTooLong']));
    expect(rig.standIn.counts.answered).toBe(0);
  });
});
