/**
 * The emulated AWS passes the same error names to Step Functions as AWS. Without them, a Retry by name would never apply, and
 * no other test would notice.
 */
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import {
  CreateStackCommand,
  DescribeStacksCommand,
  waitUntilStackCreateComplete,
} from '@aws-sdk/client-cloudformation';
import { PutFunctionConcurrencyCommand } from '@aws-sdk/client-lambda';
import { DescribeExecutionCommand, StartExecutionCommand } from '@aws-sdk/client-sfn';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';

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

const template = {
  Resources: {
    Role: {
      Type: 'AWS::IAM::Role',
      Properties: {
        AssumeRolePolicyDocument: {
          Version: '2012-10-17',
          Statement: [
            {
              Effect: 'Allow',
              Principal: { Service: ['lambda.amazonaws.com', 'states.amazonaws.com'] },
              Action: 'sts:AssumeRole',
            },
          ],
        },
      },
    },
    ...Object.fromEntries(
      Object.entries(CASES).flatMap(([name, { code, timeout }]) => [
        [
          `${name}Function`,
          {
            Type: 'AWS::Lambda::Function',
            Properties: {
              Runtime: 'nodejs24.x',
              Handler: 'index.handler',
              Role: { 'Fn::GetAtt': ['Role', 'Arn'] },
              Timeout: timeout ?? 60,
              FunctionName: name,
              Code: { ZipFile: code },
            },
          },
        ],
        [
          `${name}Machine`,
          {
            Type: 'AWS::StepFunctions::StateMachine',
            Properties: {
              RoleArn: { 'Fn::GetAtt': ['Role', 'Arn'] },
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
          },
        ],
      ]),
    ),
  },
  Outputs: Object.fromEntries(Object.keys(CASES).map((name) => [name, { Value: { Ref: `${name}Machine` } }])),
};

describe('error names in the emulated AWS', () => {
  let ministack: MiniStack;
  let clients: AwsClients;
  let machines: Record<string, string>;

  beforeAll(async () => {
    ministack = await startMiniStack({ env: { SFN_WAIT_SCALE: '0.1' } });
    clients = emulatedClients(ministack);
    await clients.cloudFormation.send(
      new CreateStackCommand({
        StackName: 'errors',
        TemplateBody: JSON.stringify(template),
        Capabilities: ['CAPABILITY_IAM'],
      }),
    );
    await waitUntilStackCreateComplete(
      { client: clients.cloudFormation, maxWaitTime: 60, minDelay: 1, maxDelay: 1 },
      { StackName: 'errors' },
    );
    const { Stacks } = await clients.cloudFormation.send(new DescribeStacksCommand({ StackName: 'errors' }));
    await allowNoInvocation('Throttled');
    machines = Object.fromEntries((Stacks?.[0]?.Outputs ?? []).map((o) => [o.OutputKey ?? '', o.OutputValue ?? '']));
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
