/**
 * Masking that is switched on over what was written without it changes no id, no verdict and no figure: a deployed stack with the same
 * captures and labels before and after.
 */
import { REDACT_KINDS } from '../../src/core/settings/redact-setting.ts';
import { captureLine, chatReply, chatRequest, json } from '../helpers/deployed-captures.ts';
import { DeployedPipeline } from '../helpers/deployed-pipeline.ts';
import { type DeployedReader, startDeployedReader } from '../helpers/deployed-reader.ts';
import { CAPTURE_BUCKET, type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { plantedItems } from '../helpers/planted.ts';
import { runCli } from '../helpers/replay.ts';

const ENDPOINT = 'figures-endpoint';
const PLANTED = plantedItems(48, 31);
const DAY = new Date(Date.now() - 24 * 3_600_000).toISOString().slice(0, 10);
/** Of the captures before and after, a window each. */
const HOURS = { before: `${DAY}T10`, after: `${DAY}T12` } as const;
/** Scorers of lengths, and of a language that needs a length: of a capture with items, they read the masked text. */
const LENGTHS = /^(?:response_length|response_words|reply_language)$/;
type Name = keyof typeof HOURS;

/** Chats with items in the request, the reply or neither, and predictions, which are numbers or a mail address. */
function capturesOf(name: Name): string[] {
  const sentence = (at: number): string => PLANTED[at % PLANTED.length]?.sentence ?? '';
  const time = (at: number): string => `${HOURS[name]}:00:${String(at).padStart(2, '0')}Z`;
  const chats = Array.from({ length: 48 }, (_, at) => {
    const [request, reply] = [at % 3 === 0 ? sentence(at) : '', at % 4 === 0 ? sentence(at + 1) : ''];
    const input = json(chatRequest(`When do roses bloom? ${request}`));
    return captureLine(`${name}-${at}`, time(at), input, json(chatReply(`In June, I think. ${reply}`)));
  });
  const predictions = ['1', '0', '1', '"jane@example.com"', '"jane@example.com"'].map((prediction, at) => {
    const line = captureLine(`${name}-p${at}`, time(50 + at), json({ inputs: sentence(at) }), {
      ...json(null),
      data: `{"predictions":[${prediction}]}`,
    });
    const record = JSON.parse(line);
    record.eventMetadata.inferenceId = `${name}${at}@example.com`;
    return JSON.stringify(record);
  });
  return [...chats, ...predictions];
}

/** Right, wrong, right, right and wrong, by ids that are mail addresses. */
const labelsOf = (name: Name): string[] =>
  ['1', '1', '1', 'jane@example.com', 'joe@example.com'].map((data, at) => {
    const eventMetadata = { eventId: `${name}${at}@example.com` };
    return JSON.stringify({ groundTruthData: { data, encoding: 'CSV' }, eventMetadata, eventVersion: '0' });
  });

let environment: LocalEnvironment;
let reader: DeployedReader;
beforeAll(async () => {
  environment = await startEnvironment({ awsEnv: { SFN_WAIT_SCALE: '0.05' } });
});
afterAll(async () => {
  reader?.stop();
  await environment?.stop();
});

test('masking changes no id, no verdict and no figure', async () => {
  const settings = {
    STACK_PREFIX: 'figures',
    SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
    BATCH_WINDOW_SECONDS: '0',
    GROUND_TRUTH_S3_PREFIX: `s3://${CAPTURE_BUCKET}/figures-labels/`,
  };
  const deployed = async (more: Record<string, string>) => {
    const outputs = await environment.deployStack({ ...settings, ...more });
    const { groundTruthStateMachineArn: stateMachineArn } = outputs;
    const pipeline = new DeployedPipeline(environment, 'figures', outputs);
    return { pipeline, labels: new DeployedPipeline(environment, 'figures', { ...outputs, stateMachineArn }) };
  };
  const keyOf = (name: Name): string => `${ENDPOINT}/AllTraffic/${HOURS[name].replaceAll(/[-T]/g, '/')}/${name}.jsonl`;
  const stacks = { before: await deployed({}), after: undefined as Awaited<ReturnType<typeof deployed>> | undefined };
  await environment.mlflow;
  reader = await startDeployedReader(environment.ministack.env, environment.mlflowUrl);
  const { captureBucket } = stacks.before.pipeline.outputs;

  /** What is measured of the captures of a name. */
  const figures = async (name: Name, more: Record<string, string>) => {
    const cli = async (...args: string[]) => {
      const variables = { ...environment.ministack.env, ...settings, ...more, DATA_CAPTURE_S3_BUCKET: captureBucket };
      const window = [
        '--from',
        `${HOURS[name]}:00:00Z`,
        '--to',
        `${HOURS[name].slice(0, -1)}${name === 'before' ? 1 : 3}:00:00Z`,
      ];
      const { stdout, stderr, code } = await runCli([...args, ...window, '--json'], {
        ...variables,
        MLFLOW_TRACKING_URI: environment.mlflowUrl,
        MLFLOW_EXPERIMENT_NAME: ENDPOINT,
      });
      expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
      return JSON.parse(stdout);
    };
    const found = await reader.compare(captureBucket, ENDPOINT, [keyOf(name)]);
    expect(found).toMatchObject({ records: 53, traced: 53, missing: [] });
    // Until others are processed, there are no more.
    if (name === 'before') expect(found.extra).toEqual([]);
    const verdicts = Object.entries(found.assessments).map(([trace, all]) => {
      const told = all
        .filter(({ name: scorer, valid }) => valid && !LENGTHS.test(scorer))
        .map((one) => `${one.name} ${JSON.stringify(one.value)} ${one.error}`);
      return [trace, told.toSorted()] as const;
    });
    const rates: { scorer: string }[] = (await cli('rates')).groups[0].rates;
    const { groups, leftOut } = (await cli('ground-truth')).quality;
    return { verdicts, rates: rates.filter(({ scorer }) => !LENGTHS.test(scorer)), truth: { groups, leftOut } };
  };

  const before = stacks.before;
  expect(await before.pipeline.process(keyOf('before'), capturesOf('before'))).toMatchObject({ status: 'SUCCEEDED' });
  expect(await before.labels.process('figures-labels/before.jsonl', labelsOf('before'))).toMatchObject({
    status: 'SUCCEEDED',
  });
  const plain = await figures('before', {});
  expect(plain.truth.groups[0]).toMatchObject({ rows: 5, compared: 3 });
  expect(plain.rates.length).toBeGreaterThan(8);

  const more = { REDACT: REDACT_KINDS.join(',') };
  const after = await deployed(more);
  const again = await after.pipeline.run(after.pipeline.event(keyOf('before'), { reevaluate: true }));
  expect(again).toMatchObject({ status: 'SUCCEEDED' });
  expect(await after.labels.process('figures-labels/again.jsonl', labelsOf('before'))).toMatchObject({
    status: 'SUCCEEDED',
  });
  expect(await figures('before', more)).toEqual(plain);

  expect(await after.pipeline.process(keyOf('after'), capturesOf('after'))).toMatchObject({ status: 'SUCCEEDED' });
  expect(await after.labels.process('figures-labels/after.jsonl', labelsOf('after'))).toMatchObject({
    status: 'SUCCEEDED',
  });
  const masked = await figures('after', more);
  expect({ rates: masked.rates, truth: masked.truth }).toEqual({ rates: plain.rates, truth: plain.truth });
  expect(masked.verdicts.map(([, all]) => all).toSorted()).toEqual(plain.verdicts.map(([, all]) => all).toSorted());
});
