/**
 * The emulated AWS passes the same error names to Step Functions as AWS. Without them, a Retry by name would never apply, and
 * no other test would notice.
 */
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { PutFunctionConcurrencyCommand } from '@aws-sdk/client-lambda';
import { DescribeExecutionCommand, StartExecutionCommand } from '@aws-sdk/client-sfn';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { createStack, inlineFunction, ROLE_ARN } from '../helpers/emulated-stack.ts';

/** The error that AWS reports for each function body. */
const CASES: Record<string, { code: string; timeout?: number; error: string; message: string }> = {
  Named: {
    code: 'exports.handler = async () => { const e = new Error("slow down"); e.name = "JudgeThrottled"; throw e; };',
    error: 'JudgeThrottled',
    message: 'slow down',
  },
  Thrown: {
    code: 'exports.handler = () => { throw new RangeError("too far"); };',
    error: 'RangeError',
    message: 'too far',
  },
  NotAnError: { code: 'exports.handler = async () => { throw "text"; };', error: 'string', message: 'text' },
  Init: {
    code: 'const e = new Error("BUCKET is missing"); e.name = "EnvironmentInvalid"; throw e;',
    error: 'EnvironmentInvalid',
    message: 'BUCKET is missing',
  },
  Exits: {
    code: 'exports.handler = async () => process.exit(1);',
    error: 'Runtime.ExitError',
    message: 'Runtime exited without providing a reason',
  },
  Slow: {
    code: 'exports.handler = () => new Promise((resolve) => setTimeout(resolve, 60000));',
    timeout: 1,
    error: 'Sandbox.Timedout',
    message: 'Task timed out after 1.00 seconds',
  },
  Throttled: {
    code: 'exports.handler = async () => 1;',
    error: 'Lambda.TooManyRequestsException',
    message: 'Rate Exceeded',
  },
};

/** A state machine that calls the function of a case. */
const machineOf = (name: string): object => ({
  Type: 'AWS::StepFunctions::StateMachine',
  Properties: {
    RoleArn: ROLE_ARN,
    Definition: {
      StartAt: 'Call',
      States: {
        Call: {
          Type: 'Task',
          Resource: 'arn:aws:states:::lambda:invoke',
          Parameters: { FunctionName: { 'Fn::GetAtt': [`${name}Function`, 'Arn'] }, Payload: {} },
          // The name is correct if a Retry that lists only this name applies.
          Retry: [{ ErrorEquals: [CASES[name]?.error], IntervalSeconds: 1, MaxAttempts: 1 }],
          End: true,
        },
      },
    },
  },
});

const resources = Object.fromEntries(
  Object.entries(CASES).flatMap(([name, { code, timeout }]) => [
    [`${name}Function`, inlineFunction(name, code, timeout)],
    [`${name}Machine`, machineOf(name)],
  ]),
);

describe('error names in the emulated AWS', () => {
  let ministack: MiniStack;
  let clients: AwsClients;
  let machines: Record<string, string>;

  beforeAll(async () => {
    ministack = await startMiniStack({ env: { SFN_WAIT_SCALE: '0.1' } });
    clients = emulatedClients(ministack);
    const names = Object.fromEntries(Object.keys(CASES).map((name) => [name, `${name}Machine`]));
    machines = await createStack(clients.cloudFormation, 'errors', resources, names);
    await allowNoInvocation('Throttled');
  });

  afterAll(() => ministack.stop());

  test.each(Object.keys(CASES))('%s', async (name) => {
    const { error, message } = CASES[name] as (typeof CASES)[string];
    const { executionArn } = await clients.sfn.send(new StartExecutionCommand({ stateMachineArn: machines[name] }));
    const outcome = await ended(executionArn ?? '');
    expect(outcome.status).toBe('FAILED');
    expect(outcome.error).toBe(error);
    expect(outcome.cause).toContain(message);
    // People read the cause, so it must not contain the separators that carry the name.
    expect(outcome.cause).not.toMatch(/\\u001f/);
  });

  /** Set by the API, because the emulator ignores ReservedConcurrentExecutions in CloudFormation. */
  async function allowNoInvocation(name: string): Promise<void> {
    const none = new PutFunctionConcurrencyCommand({ FunctionName: name, ReservedConcurrentExecutions: 0 });
    await clients.lambda.send(none);
  }

  async function ended(executionArn: string) {
    for (;;) {
      const facts = await clients.sfn.send(new DescribeExecutionCommand({ executionArn }));
      if (facts.status !== 'RUNNING') return facts;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
});

test('a stopped emulator leaves no processes or files behind', async () => {
  const emulator = await startMiniStack();
  expect(() => process.kill(emulator.pid, 0)).not.toThrow();
  await emulator.stop();
  expect(() => process.kill(emulator.pid, 0)).toThrow('ESRCH');
  expect(readdirSync(tmpdir()).filter((name) => name.startsWith(`ministack-${process.pid}-`))).toEqual([]);
});
