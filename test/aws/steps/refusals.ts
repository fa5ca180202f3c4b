/** Runs that must do nothing, be refused by name, or be retried. */
import { DeleteFunctionConcurrencyCommand, PutFunctionConcurrencyCommand } from '@aws-sdk/client-lambda';
import { resourceNames } from '../../../src/core/contract/names.ts';
import type { Canary } from '../canary.ts';
import { captureKey, judgedKey } from './judge.ts';

const THROTTLED = 'Lambda.TooManyRequestsException';
const THROTTLE_LIMIT_MS = 120_000;

/** The input that the rule sends. */
export const eventInput = (bucket: string, key: string, more: object = {}) => ({
  detail: { bucket: { name: bucket }, object: { key } },
  ...more,
});

export async function refusalsStep(canary: Canary): Promise<void> {
  const machine = await canary.machine('stateMachineArn');
  const { captureBucket } = await canary.outputs();
  await checkTwice(canary, machine, captureBucket);
  const missing = await canary.ended(await canary.start(machine, eventInput(captureBucket, captureKey('not-there'))));
  canary.note('missing-is-404', missing.error === 'CaptureMissing', missing.error || missing.status);
  const elsewhere = await canary.ended(await canary.start(machine, eventInput(`${captureBucket}-2`, captureKey('a'))));
  canary.note('wrong-bucket', elsewhere.error === 'OutsideCaptureScope', elsewhere.error || elsewhere.status);
  const refused = await canary.ended(await canary.start(machine, { retry: {} }));
  const errors = await canary.taskErrors(refused.arn);
  canary.note('errors-by-name', errors.join() === refused.error, `errors of tasks: ${errors.join(', ') || 'none'}`);
  await checkThrottle(canary, machine, eventInput(captureBucket, judgedKey(canary), { dryRun: true }));
}

async function checkTwice(canary: Canary, machine: string, bucket: string): Promise<void> {
  const { summary, status } = await canary.ended(await canary.start(machine, eventInput(bucket, judgedKey(canary))));
  const { newVerdicts = -1 } = summary?.verdicts ?? {};
  const { calls = -1, usd = -1 } = summary?.spend ?? {};
  canary.note(
    'event-twice',
    status === 'SUCCEEDED' && newVerdicts === 0 && calls === 0 && usd === 0,
    `${status}, ${summary?.lines.traced} traces there, ${newVerdicts} new verdicts, ${calls} calls`,
  );
}

/** Lets the planner run nowhere until Step Functions has met that, and then again. */
async function checkThrottle(canary: Canary, machine: string, input: object): Promise<void> {
  const { lambda } = canary.clients;
  const FunctionName = resourceNames(canary.state.prefix).planner;
  await lambda.send(new PutFunctionConcurrencyCommand({ FunctionName, ReservedConcurrentExecutions: 0 }));
  let arn: string;
  try {
    arn = await canary.start(machine, input);
    await canary.until('a throttled call', THROTTLE_LIMIT_MS, async () => (await canary.taskErrors(arn))[0]);
  } finally {
    await lambda.send(new DeleteFunctionConcurrencyCommand({ FunctionName }));
  }
  const { status } = await canary.ended(arn);
  const errors = new Set(await canary.taskErrors(arn));
  canary.note(
    'throttle-retried',
    status === 'SUCCEEDED' && [...errors].join() === THROTTLED,
    `${[...errors]}, then ${status}`,
  );
}
