/**
 * The policies of each function's role are sufficient on an emulated AWS that enforces them, over TLS. test/infra/calls.test.ts
 * holds them against the calls of each function; `npm run test:slow` takes away one grant after the other.
 */
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { callAws } from '../../bin/operate/aws-json.ts';
import { type DeadLetter, findForwarding, messagesIn, putBack } from '../../bin/operate/forwarding.ts';
import type { ForwardReceipt } from '../../src/core/contract/forward.ts';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
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
});

test('a replay works with the headers of the secret, the judge and MLflow, and one that was stopped is completed', async () => {
  await stack.replayWhole();
  await stack.forgetStop();
  const { error, payload } = await stack.stopReplay();
  expect([error, payload]).toEqual([undefined, { end: 'summarized' }]);
  expect(await stack.replays.names(replayKeys.stop(RUN))).toHaveLength(1);
  expect(await stack.replays.names(replayKeys.publication(RUN))).toHaveLength(1);
});

test('files for Arthur are posted once, become dead letters with their cause, and are put back and sent again by the command', async () => {
  const { pipeline, environment, arthur } = stack;
  const { clients } = environment;
  const forwarding = await findForwarding(clients.lambda, PREFIX);
  const sqs = (operation: string, input: object) => callAws<object>(clients.lambda, 'sqs', operation, input);
  const deadLetters = async (): Promise<DeadLetter[]> => putBack(clients.lambda, forwarding, true);
  const receipts = () => pipeline.readWork<ForwardReceipt>('forwards/');
  const posted = () => arthur.server.requests.length;
  const folder = `${FOR_ARTHUR}AllTraffic/2026/11/20/10`;
  // Its waits are minutes, and thirty of them a day.
  await pipeline.setVariable('forwarder', 'FORWARD_RETRY_SECONDS', '1');
  const { deadLetterTargetArn } = await redrivePolicy(clients.lambda, forwarding.queue);
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn, maxReceiveCount: '1' });
  await sqs('SetQueueAttributes', { QueueUrl: forwarding.queue, Attributes: { RedrivePolicy } });

  const lines = [chatLine('one'), chatLine('two')];
  for (const _ of [1, 2]) await pipeline.put(`${folder}/a.jsonl`, lines);
  await pipeline.until('the receipt of a file', async () =>
    (await receipts()).find(({ state }) => state === 'forwarded'),
  );
  await emptied(pipeline, clients.lambda, forwarding.queue);
  expect(await arthur.files()).toEqual([{ name: 'a.jsonl', text: lines.map((line) => `${line}\n`).join('') }]);
  expect(await receipts()).toEqual([
    expect.objectContaining({ key: `${folder}/a.jsonl`, posts: 1, counts: { total: 2, success: 2, failure: 0 } }),
  ]);

  arthur.first(...[500, 500, 500].map((status) => answer(status)));
  await pipeline.put(`${folder}/b.jsonl`, lines);
  await pipeline.until('three posts of a file', async () => (posted() === 4 ? true : undefined));
  await pipeline.until('its dead letter', async () => ((await deadLetters()).length === 1 ? true : undefined));
  arthur.first(answer(400));
  await pipeline.put(`${folder}/c.jsonl`, [chatLine('three')]);
  const found = await pipeline.until('both dead letters', async () => {
    const letters = await deadLetters();
    return letters.length === 2 ? letters : undefined;
  });
  expect(found.map(({ name }) => name).toSorted()).toEqual(['ArthurRefused', 'NotForwarded']);

  const command = (...args: string[]) => runCli(['forward', '--stack', PREFIX, ...args], environment.ministack.env);
  expect(await command('--failed')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('2 dead letters were put back.'),
  });
  await pipeline.until('all receipts', async () => {
    const all = await receipts();
    return all.length === 3 && all.every(({ state }) => state === 'forwarded') ? true : undefined;
  });
  expect(await deadLetters()).toEqual([]);

  await emptied(pipeline, clients.lambda, forwarding.queue);
  await pipeline.deleteWork('forwards/');
  const before = posted();
  const { code, stdout } = await command('--from', '2026-11-20', '--to', '2026-11-21', '--json');
  expect(code).toBe(0);
  expect(await expectPublished('forward', stdout)).toMatchObject({
    files: 3,
    before: 0,
    forwarded: 3,
    inferences: 5,
    failed: [],
  });
  expect(posted()).toBe(before + 3);

  // Neither logs nor receipts nor dead letters quote the captures or the token.
  const logGroupName = `/aws/lambda/${pipeline.functionName('forwarder')}`;
  const { events } = await callAws<{ events: { message: string }[] }>(clients.lambda, 'logs', 'FilterLogEvents', {
    logGroupName,
  });
  const told = JSON.stringify([events, await receipts(), found]);
  for (const text of ['A file was forwarded', 'A file cannot be forwarded', 'ForwardedInferences']) {
    expect(told).toContain(text);
  }
  expect(told).not.toMatch(new RegExp(`${TOKEN}|Prune plant`));
});

/** Waits until a queue has no message, also no hidden one. */
async function emptied(pipeline: DeployedPipeline, lambda: LambdaClient, queue: string): Promise<void> {
  await pipeline.until('an empty queue', async () => ((await messagesIn(lambda, queue)) === 0 ? true : undefined));
}

async function redrivePolicy(lambda: LambdaClient, QueueUrl: string): Promise<{ deadLetterTargetArn: string }> {
  const input = { QueueUrl, AttributeNames: ['RedrivePolicy'] };
  const { Attributes } = await callAws<{ Attributes: Record<string, string> }>(
    lambda,
    'sqs',
    'GetQueueAttributes',
    input,
  );
  return JSON.parse(Attributes.RedrivePolicy ?? '{}') as { deadLetterTargetArn: string };
}

test('its requests were held against AWS’s models', async () => {
  expect(await uncheckedIn('deployed-policies')).toEqual([]);
});
