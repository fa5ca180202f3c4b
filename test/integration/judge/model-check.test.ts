/** Checking that the judge's model exists: before a run, and with the `doctor` command. */
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { logger } from '../../../src/core/process/logging.ts';
import { assertModelLives, checkJudgeModel } from '../../../src/judge/model-check.ts';
import { watchJudgeModels } from '../../../src/judge/model-watch.ts';
import type { ModelBehavior } from '../../doubles/faulty-judge/behavior.ts';
import { runCli } from '../../helpers/replay.ts';
import { credentials, useStandIn } from './setup.ts';

const rig = useStandIn();
const client = () => new BedrockClient({ endpoint: rig.standIn.url, region: 'us-east-1', credentials, maxAttempts: 1 });
const BASE = 'anthropic.claude-sonnet-4-6';

const check = (model: string, state: ModelBehavior['state']) => {
  rig.behave({ models: { [BASE]: { state } } });
  return checkJudgeModel(model, client());
};

test.each([
  ['active', 'ok', /is active/],
  ['legacy', 'warning', /legacy model and will be retired on \d{4}-\d\d-\d\d/],
  ['ended', 'error', /was retired on \d{4}-\d\d-\d\d: set BEDROCK_MODEL_ID/],
  ['missing', 'error', /no model .*check BEDROCK_MODEL_ID and AWS_REGION/],
  ['denied', 'warning', /allow bedrock:GetFoundationModel/],
  ['invalid', 'error', /BEDROCK_MODEL_ID/],
] as const)('reports a model that is %s as %s', async (state, level, message) => {
  const found = { state: state === 'invalid' ? 'missing' : state, message: expect.stringMatching(message) };
  expect(await check(BASE, state)).toMatchObject({ ...found, model: BASE, level });
});

test.each([
  `bedrock:/global.${BASE}`,
  `us.${BASE}`,
  `arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.${BASE}`,
  `arn:aws:bedrock:us-east-1::foundation-model/${BASE}`,
])('looks up the model behind %s', async (model) => {
  expect(await check(model, 'ended')).toMatchObject({ state: 'ended' });
});

test('does not report a profile as missing if its region does not list the model', async () => {
  expect(await check(`us.${BASE}`, 'unlisted')).toMatchObject({ state: 'unknown', level: 'warning' });
  expect(await check(`us.${BASE}`, 'missing')).toMatchObject({ state: 'missing', level: 'error' });
  expect(await check(BASE, 'unlisted')).toMatchObject({ state: 'missing', level: 'error' });
});

describe('at the start of runs', () => {
  jest.spyOn(logger, 'warn').mockImplementation();
  const watch = (state: ModelBehavior['state']) => {
    rig.behave({ models: { [BASE]: { state } } });
    return watchJudgeModels([BASE], client());
  };

  test.each(['active', 'unlisted'] as const)('reports nothing about a model that is %s', async (state) => {
    rig.behave({ models: { [BASE]: { state } } });
    expect(await watchJudgeModels([`us.${BASE}`], client())()).toBeUndefined();
  });

  test('reports a model that will be retired, and looks it up once', async () => {
    const tell = watch('legacy');
    const check = await tell();
    expect(check).toMatchObject({
      level: 'warning',
      message: expect.stringContaining('Plan a newer BEDROCK_MODEL_ID'),
    });
    expect(() => assertModelLives(check)).not.toThrow();
    rig.behave({ models: { [BASE]: { state: 'missing' } } });
    expect(await tell()).toEqual(check);
  });

  test.each(['ended', 'missing', 'invalid'] as const)(
    'stops the run with a named error if the model is %s',
    async (state) => {
      const check = await watch(state)();
      expect(() => assertModelLives(check)).toThrow(
        expect.objectContaining({ name: 'JudgeModelGone', message: expect.stringContaining('BEDROCK_MODEL_ID') }),
      );
    },
  );

  test('checks again after an error, and finds a model that is back', async () => {
    const tell = watch('missing');
    expect(await tell()).toMatchObject({ level: 'error' });
    rig.behave({ models: { [BASE]: { state: 'active' } } });
    expect(await tell()).toBeUndefined();
  });
});

test('knows no life cycle for custom models and judges outside Bedrock', async () => {
  expect(await check('arn:aws:bedrock:us-east-1:123456789012:provisioned-model/abc', 'active')).toMatchObject({
    state: 'unknown',
    level: 'warning',
  });
  expect(await check('openai:/gpt-oss-20b', 'active')).toMatchObject({ state: 'unknown', level: 'ok' });
});

test.each([
  ['active', 0, /^ok +judge[\s\S]*US dollars per million/m],
  ['ended', 1, /^error +judge .*was retired/m],
] as const)('runs the doctor command on a model that is %s: exit code %d', async (state, code, says) => {
  rig.behave({ models: { [BASE]: { state } } });
  // The stand-in knows nothing of quotas, which is a warning.
  const servers = { AWS_ENDPOINT_URL_BEDROCK: rig.standIn.url, AWS_ENDPOINT_URL: rig.standIn.url };
  const keys = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' };
  const ran = await runCli(['doctor', '--judge-model', BASE], { ...servers, ...keys });
  expect(ran).toMatchObject({ code, stdout: expect.stringMatching(says) });
});
