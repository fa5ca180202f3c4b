/** The verdict on the judge's model, with a Bedrock that answers as scripted. */
import type { BedrockClient } from '@aws-sdk/client-bedrock';
import { logger } from '../../../src/core/process/logging.ts';
import { assertListPrice, checkJudgeModel } from '../../../src/judge/model-check.ts';
import { watchJudgeModels } from '../../../src/judge/model-watch.ts';

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

test.each<[string, Reply, string, string]>([
  ['that is active', { status: 'ACTIVE' }, 'active', 'ok'],
  ['that ends now', { status: 'LEGACY', endOfLifeTime: NOW }, 'ended', 'error'],
  ['that ends later', { status: 'LEGACY', endOfLifeTime: new Date(NOW.getTime() + DAY_MS) }, 'legacy', 'warning'],
  ['that does not exist', named('ResourceNotFoundException'), 'missing', 'error'],
  ['that may not be looked up', named('AccessDeniedException'), 'denied', 'warning'],
])('a model %s', async (_, reply, state, level) => {
  expect(await checkJudgeModel(MODEL, bedrock(reply), NOW)).toMatchObject({ model: MODEL, state, level });
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
