/**
 * The policies of each function's role are sufficient on an emulated AWS that enforces them, over TLS. test/infra/calls.test.ts
 * holds their actions against the calls of each function.
 */
import { Agent } from 'node:https';
import { IAMClient, PutRolePolicyCommand } from '@aws-sdk/client-iam';
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { CreateSecretCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { findForwarding } from '../../bin/operate/forwarding.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { replayKeys, workKeys } from '../../src/core/contract/work-keys.ts';
import { uncheckedIn } from '../aws-requests/product-operations.ts';
import { type Arthur, answer, MODEL, startArthur, TOKEN } from '../doubles/arthur.ts';
import { type MisbehavingServer, startMisbehavingServer } from '../doubles/misbehaving-server.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { chatLine, mixedLines } from '../helpers/deployed-captures.ts';
import { DeployedPipeline } from '../helpers/deployed-pipeline.ts';
import { startDeployedReader } from '../helpers/deployed-reader.ts';
import { DeployedReplay, numberedCapture, received } from '../helpers/deployed-replay.ts';
import { emulated } from '../helpers/emulated.ts';
import { createStack, inlineFunction } from '../helpers/emulated-stack.ts';
import { type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { itemsOf } from '../helpers/otlp-decoded.ts';
import { expectPublished } from '../helpers/published-json.ts';
import { chatLine as chatWithReply, runCli } from '../helpers/replay.ts';

const PREFIX = 'policies';
const ENDPOINT = 'guarded-endpoint';
const HOUR = `${ENDPOINT}/AllTraffic/2026/11/20/10`;
/** The prefix of the files that are forwarded. */
const FOR_ARTHUR = 'for-arthur/';
/** The name of the replay that every later call is about. */
const RUN = 'guarded-replay';

let environment: LocalEnvironment;
let pipeline: DeployedPipeline;
let arthur: Arthur;
let receiver: MisbehavingServer;
let endpoint: StandInEndpoint;
let headersSecretArn: string;

const overTls = () => ({
  ...emulated(environment.ministack.url),
  requestHandler: new NodeHttpHandler({ httpsAgent: new Agent({ ca: environment.ministack.ca }) }),
});

/** Makes secrets by TLS, as everything here asks AWS. */
async function makeSecrets(secrets: object[]): Promise<string[]> {
  const client = new SecretsManagerClient(overTls());
  const made = secrets.map(async (secret, n) =>
    client.send(new CreateSecretCommand({ Name: `secret-${n}`, SecretString: JSON.stringify(secret) })),
  );
  const arns = (await Promise.all(made)).map(({ ARN = '' }) => ARN);
  client.destroy();
  return arns;
}

/** The functions of a person's scorers: one that is named by its version, and one by an alias. */
const SCORERS = {
  Scores: inlineFunction(
    'scores',
    'exports.handler = async ({ scorer, records }) => ({ results: records.map(({ reply }) => ({ name: scorer, usd: 0.001, value: reply.text.length })) });',
  ),
  Fixed: { Type: 'AWS::Lambda::Version', Properties: { FunctionName: { Ref: 'Scores' } } },
  Live: {
    Type: 'AWS::Lambda::Alias',
    Properties: {
      FunctionName: { Ref: 'Scores' },
      FunctionVersion: { 'Fn::GetAtt': ['Fixed', 'Version'] },
      Name: 'live',
    },
  },
};

/** @returns SCORER_FUNCTIONS */
async function makeScorers(): Promise<string> {
  const arns = await createStack(environment.clients.cloudFormation, 'scorers', SCORERS, {
    fixed: 'Fixed',
    live: 'Live',
  });
  const made = Object.entries(arns).map(([name, arn]) => [
    `length_${name}`,
    { arn, values: 'number', usdPerRecord: 0.001 },
  ]);
  return JSON.stringify(Object.fromEntries(made));
}

beforeAll(async () => {
  [endpoint, arthur, receiver] = await Promise.all([
    startStandInEndpoint({ record: true }),
    startArthur(),
    startMisbehavingServer(),
  ]);
  // Shortens only the waits of the state machine. A shard also waits for its clock in the function.
  environment = await startEnvironment({ enforcePolicies: true, awsEnv: { SFN_WAIT_SCALE: '0.01' } });
  // MLflow's server does not require a login.
  const secrets = await makeSecrets([
    { 'x-team': 'search' },
    { token: 'a-token' },
    { token: TOKEN },
    { 'x-key': TOKEN },
  ]);
  const [headers = '', MLFLOW_SECRET_ARN = '', ARTHUR_SECRET_ARN = '', OTLP_SECRET_ARN = ''] = secrets;
  headersSecretArn = headers;
  const outputs = await environment.deployStack({
    STACK_PREFIX: PREFIX,
    SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
    REPLAY_URLS: new URL(endpoint.url).origin,
    REPLAY_HEADERS_SECRET_ARN: headersSecretArn,
    MLFLOW_SECRET_ARN,
    OTLP_ENDPOINT: receiver.url,
    OTLP_SECRET_ARN,
    SCORER_FUNCTIONS: await makeScorers(),
    ARTHUR_HOST: arthur.url,
    ARTHUR_MODEL_ID: MODEL,
    ARTHUR_SECRET_ARN,
    // No run processes these files.
    ARTHUR_S3_PREFIX: FOR_ARTHUR,
  });
  // The emulator takes GetAlias for ListAliases.
  const PolicyDocument = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: 'lambda:ListAliases', Resource: '*' }],
  });
  const RoleName = resourceNames(PREFIX).plannerRole;
  const iam = new IAMClient(overTls());
  await iam.send(new PutRolePolicyCommand({ RoleName, PolicyName: 'of-the-emulator', PolicyDocument }));
  await environment.mlflow;
  pipeline = new DeployedPipeline(environment, PREFIX, outputs);
});
afterAll(async () => {
  await environment?.stop();
  await Promise.all([endpoint?.close(), arthur?.stop(), receiver?.stop()]);
});

test('the whole path works with the policies of the stack', async () => {
  const key = `${HOUR}/mixed.jsonl`;
  const { status, error, cause, summary } = await pipeline.process(key, mixedLines('guarded'));
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  expect(summary?.lines).toMatchObject({ planned: 6, traced: 5, quarantined: 1, lost: 0 });
  const reader = await startDeployedReader(environment.ministack.env, environment.mlflowUrl);
  const found = await reader.compare(pipeline.outputs.captureBucket, ENDPOINT, [key]);
  reader.stop();
  expect(found).toMatchObject({ records: 5, traced: 5, missing: [], wrong: {} });
  const scored = Object.values(found.assessments).flatMap((all) => all.filter(({ name }) => /^length_/.test(name)));
  expect(scored.map(({ name, source, value }) => [name, source, typeof value]).toSorted()).toEqual([
    ...Array(scored.length / 2).fill(['length_fixed', 'CODE lambda:/scores:1', 'number']),
    ...Array(scored.length / 2).fill(['length_live', 'CODE lambda:/scores:1', 'number']),
  ]);
  expect(scored.length).toBeGreaterThan(0);
  expect(summary?.verdicts.newVerdicts).toBe(Object.values(found.assessments).flat().length);
  // Each part is sent by its own event, and once more by the command.
  const sent = () => ['traces', 'logs'].map((signal) => itemsOf(receiver.requests, signal as 'logs'));
  // Two rows of a table have spans of their own.
  const numbers = [7, Object.values(found.assessments).flat().length];
  const hasSent = (times: number) => async () =>
    sent().every((items, n) => items.length === times * (numbers[n] ?? 0)) ? true : undefined;
  await pipeline.until('all spans and verdicts', hasSent(1));
  expect(receiver.requests.every(({ headers }) => headers['x-key'] === TOKEN)).toBe(true);
  const again = ['retry', '--what', 'otlp', '--from', '2026-11-20', '--to', '2026-11-21', '--stack', PREFIX, '--json'];
  const { code, stdout } = await runCli(again, environment.ministack.env);
  expect([code, await expectPublished('retry', stdout)]).toMatchObject([0, { runs: [], files: 2 }]);
  await pipeline.until('them again', hasSent(2));
  const page = await pipeline.storage.getText(pipeline.outputs.workBucket, workKeys.report('latest'));
  for (const asked of ['no run lacks lines or verdicts', 'of today&#39;s budget']) expect(page?.text).toContain(asked);
  // The emulator asks for this one without a resource, and AWS has it for alarms alone.
  const denied = [...(page?.text ?? '').matchAll(/denied ([\w:]+)/g)].map(([, action]) => action);
  expect(new Set(denied)).toEqual(new Set(['cloudwatch:DescribeAlarms']));
});

test('a replay works with the headers of the secret, the judge and MLflow, and one that was stopped is completed', async () => {
  const replays = new DeployedReplay(pipeline);
  const captures = [0, 1, 2].map((number) => numberedCapture(number, number));
  // It has its reply, so that the judge has something to compare.
  const compared = chatWithReply('compared', 2, 'Where is parcel 8841?', 'I do not know.');
  const folder = `${ENDPOINT}/replayed/`;
  const lines = [...captures.map(({ line }) => line), compared];
  await pipeline.process(`${folder}AllTraffic/2026/11/20/10/a.jsonl`, lines);
  const target = { url: `${endpoint.url}/invocations`, headersSecretArn };
  const outcome = await replays.ended(await replays.start({ source: { prefix: folder }, target, judge: true }, RUN));
  expect(DeployedReplay.facts(outcome)).toEqual({ status: 'SUCCEEDED' });
  const { numbers, requests } = received(endpoint, captures);
  expect(numbers).toEqual([0, 1, 2]);
  expect(requests.map(({ headers }) => headers['x-team'])).toEqual(['search', 'search', 'search']);
  const { records, summary, names } = await replays.results(outcome.name);
  expect(records).toHaveLength(4);
  expect(summary.is_complete).toBe(true);
  expect(names).toContain('compare.json');
  expect(outcome.output).toMatchObject({ monitoringRun: `replay-${RUN}`, mlflow: { leftOut: [] } });
  const judged = await pipeline.ended(replays.monitoringArn(RUN));
  expect([judged.status, judged.cause]).toEqual(['SUCCEEDED', undefined]);
  expect(judged.summary).toMatchObject({ lines: { traced: 4 }, verdicts: { newVerdicts: 1, notJudgeable: 3 } });

  // With a stop order the later functions do less, and after the publication the summarizer does less.
  const keys = [replayKeys.stop(RUN), replayKeys.publication(RUN)];
  for (const key of keys) await replays.deleteWork(key);
  const executionArn = `arn:aws:states:us-east-1:000000000000:execution:replays:${RUN}`;
  const { error, payload } = await replays.invoke('replaySummarizer', { detail: { executionArn, status: 'ABORTED' } });
  expect([error, payload]).toMatchObject([undefined, { ok: true, mlflow: { leftOut: [] } }]);
  for (const key of keys) expect(await replays.names(key)).toHaveLength(1);
});

test('files for Arthur are posted once, by their own events or the command’s, and failures become dead letters with their cause', async () => {
  const { clients } = environment;
  const { QUEUE_URL: queue, DEAD_LETTERS_URL: deadLetters } = await findForwarding(clients.lambda, PREFIX);
  const letters = (): Promise<number> => messagesIn(clients.lambda, deadLetters);
  const receipts = () => pipeline.readWork<{ key: string; forwarded: boolean }>('forwards/');
  const posted = () => arthur.server.requests.length;
  const folder = `${FOR_ARTHUR}AllTraffic/2026/11/20/10`;
  // Its waits are minutes, and thirty of them a day.
  await pipeline.setVariable('forwarder', 'RETRY_SECONDS', '1');
  const { RedrivePolicy: policy } = await attributesOf(clients.lambda, queue, ['RedrivePolicy']);
  const RedrivePolicy = JSON.stringify({ ...JSON.parse(policy ?? ''), maxReceiveCount: '1' });
  await callAws(clients.lambda, 'sqs', 'SetQueueAttributes', { QueueUrl: queue, Attributes: { RedrivePolicy } });

  const lines = [chatLine('one'), chatLine('two')];
  for (const _ of [1, 2]) await pipeline.put(`${folder}/a.jsonl`, lines);
  await pipeline.until('the receipt of a file', async () => (await receipts()).find(({ forwarded }) => forwarded));
  await emptied(pipeline, clients.lambda, queue);
  expect(await arthur.files()).toEqual([{ name: 'a.jsonl', text: lines.map((line) => `${line}\n`).join('') }]);
  const dead = await letters();

  arthur.first(answer(500), answer(400));
  await pipeline.put(`${folder}/b.jsonl`, lines);
  await pipeline.until('its dead letter', async () => ((await letters()) === dead + 1 ? true : undefined));
  await pipeline.put(`${folder}/c.jsonl`, [chatLine('three')]);
  await pipeline.until('both dead letters', async () => ((await letters()) === dead + 2 ? true : undefined));
  expect((await receipts()).filter(({ forwarded }) => forwarded)).toHaveLength(1);

  const before = posted();
  const window = ['--from', '2026-11-20', '--to', '2026-11-21', '--json'];
  const { code, stdout } = await runCli(['forward', '--stack', PREFIX, ...window], environment.ministack.env);
  expect(code).toBe(0);
  expect(await expectPublished('forward', stdout)).toMatchObject({ files: 3, queued: true });
  await pipeline.until('all receipts', async () =>
    (await receipts()).every(({ forwarded }) => forwarded) ? true : undefined,
  );
  await emptied(pipeline, clients.lambda, queue);
  expect(posted()).toBe(before + 2);

  // Neither logs nor receipts nor dead letters quote the captures or the token.
  const logGroupName = `/aws/lambda/${pipeline.functionName('forwarder')}`;
  const { events } = await callAws<{ events: { message: string }[] }>(clients.lambda, 'logs', 'FilterLogEvents', {
    logGroupName,
  });
  const { Messages } = await callAws<{ Messages: object[] }>(clients.lambda, 'sqs', 'ReceiveMessage', {
    QueueUrl: deadLetters,
    MaxNumberOfMessages: 10,
    MessageAttributeNames: ['All'],
  });
  const told = JSON.stringify([events, await receipts(), Messages]);
  for (const text of ['A file was forwarded', 'A file cannot be forwarded', 'ForwardedInferences', 'ArthurRefused']) {
    expect(told).toContain(text);
  }
  expect(told).not.toMatch(new RegExp(`${TOKEN}|Prune plant`));
});

/** The messages of a queue, also those that are hidden. */
async function messagesIn(lambda: LambdaClient, queue: string): Promise<number> {
  const names = ['', 'NotVisible', 'Delayed'].map((kind) => `ApproximateNumberOfMessages${kind}`);
  const found = await attributesOf(lambda, queue, names);
  return names.reduce((sum, name) => sum + Number(found[name] ?? 0), 0);
}

/** Waits until a queue has no message, also no hidden one. */
async function emptied(pipeline: DeployedPipeline, lambda: LambdaClient, queue: string): Promise<void> {
  await pipeline.until('an empty queue', async () => ((await messagesIn(lambda, queue)) === 0 ? true : undefined));
}

async function attributesOf(
  lambda: LambdaClient,
  QueueUrl: string,
  AttributeNames: string[],
): Promise<Record<string, string>> {
  const input = { QueueUrl, AttributeNames };
  type Reply = { Attributes: Record<string, string> };
  return (await callAws<Reply>(lambda, 'sqs', 'GetQueueAttributes', input)).Attributes;
}

test('its requests were held against AWS’s models', async () => {
  expect(await uncheckedIn('deployed-policies')).toEqual([]);
});
