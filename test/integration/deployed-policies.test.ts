/**
 * The policies of each function's role are sufficient on an emulated AWS that enforces them, over TLS. test/infra/calls.test.ts
 * holds their actions against the calls of each function.
 */
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { findForwarding } from '../../bin/operate/forwarding.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import { replayKeys, workKeys } from '../../src/core/contract/work-keys.ts';
import { uncheckedIn } from '../aws-requests/product-operations.ts';
import { answer, TOKEN } from '../doubles/arthur.ts';
import { chatLine, mixedLines } from '../helpers/deployed-captures.ts';
import type { DeployedPipeline } from '../helpers/deployed-pipeline.ts';
import { startDeployedReader } from '../helpers/deployed-reader.ts';
import { ENDPOINT, FOR_ARTHUR, GuardedStack, HOUR, PREFIX, RUN } from '../helpers/guarded-stack.ts';
import { expectPublished } from '../helpers/published-json.ts';
import { runCli } from '../helpers/replay.ts';

let stack: GuardedStack;
beforeAll(async () => {
  stack = await GuardedStack.deploy();
});
afterAll(() => stack?.stop());

test('the whole path works with the policies of the stack', async () => {
  const { pipeline, environment } = stack;
  const key = `${HOUR}/mixed.jsonl`;
  const { status, error, cause, summary } = await pipeline.process(key, mixedLines('guarded'));
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  expect(summary?.lines).toMatchObject({ planned: 6, traced: 5, quarantined: 1, lost: 0 });
  const reader = await startDeployedReader(environment.ministack.env, environment.mlflowUrl);
  const found = await reader.compare(pipeline.outputs.captureBucket, ENDPOINT, [key]);
  reader.stop();
  expect(found).toMatchObject({ records: 5, traced: 5, missing: [], wrong: {} });
  expect(summary?.verdicts.newVerdicts).toBe(Object.values(found.assessments).flat().length);
  const storage = new Storage(environment.clients.s3);
  const page = await storage.getText(pipeline.outputs.workBucket, workKeys.report('latest'));
  for (const asked of ['no run lacks lines or verdicts', 'of today&#39;s budget']) expect(page?.text).toContain(asked);
  // The emulator asks for this one without a resource, and AWS has it for alarms alone.
  const denied = [...(page?.text ?? '').matchAll(/denied ([\w:]+)/g)].map(([, action]) => action);
  expect(new Set(denied)).toEqual(new Set(['cloudwatch:DescribeAlarms']));
});

test('a replay works with the headers of the secret, the judge and MLflow, and one that was stopped is completed', async () => {
  await stack.replayWhole();
  await stack.forgetStop();
  const { error, payload } = await stack.stopReplay();
  expect([error, payload]).toEqual([undefined, { end: 'summarized' }]);
  expect(await stack.replays.names(replayKeys.stop(RUN))).toHaveLength(1);
  expect(await stack.replays.names(replayKeys.publication(RUN))).toHaveLength(1);
});

test('files for Arthur are posted once, by their own events or the command’s, and failures become dead letters with their cause', async () => {
  const { pipeline, environment, arthur } = stack;
  const { clients } = environment;
  const { FORWARD_QUEUE: queue, FORWARD_DEAD_LETTERS: deadLetters } = await findForwarding(clients.lambda, PREFIX);
  const letters = (): Promise<number> => messagesIn(clients.lambda, deadLetters);
  const receipts = () => pipeline.readWork<{ key: string; forwarded: boolean }>('forwards/');
  const posted = () => arthur.server.requests.length;
  const folder = `${FOR_ARTHUR}AllTraffic/2026/11/20/10`;
  // Its waits are minutes, and thirty of them a day.
  await pipeline.setVariable('forwarder', 'FORWARD_RETRY_SECONDS', '1');
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
