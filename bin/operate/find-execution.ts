/** Finds the execution that a person means, among those of some state machines. */
import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  ExecutionDoesNotExist,
  InvalidArn,
  ListExecutionsCommand,
  type SFNClient,
} from '@aws-sdk/client-sfn';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { nearest } from '../../src/core/values/nearest.ts';

/** State machines of a stack, by what their executions are. */
export type StateMachines = Partial<Record<'monitoring' | 'replay' | 'groundTruth', string>>;

export interface FoundExecution extends DescribeExecutionCommandOutput {
  executionArn: string;
  name: string;
  status: NonNullable<DescribeExecutionCommandOutput['status']>;
  kind: keyof StateMachines;
}

/** Names that the error for an unknown one lists. */
const MAX_NAMED = 5;
/** Executions of each state machine among which the nearest name is looked for. */
const MAX_COMPARED = 200;

const arnOf = (machine: string, name: string): string => `${machine.replace(':stateMachine:', ':execution:')}:${name}`;

/**
 * Describes an execution of the stack.
 *
 * @param run its name, or its ARN
 * @throws PermanentError `NoSuchRun`, with the nearest name and the newest ones; `AmbiguousRun` if several have one
 */
export async function findExecution(sfn: SFNClient, machines: StateMachines, run: string): Promise<FoundExecution> {
  const all = Object.entries(machines) as [keyof StateMachines, string][];
  const byArn = run.startsWith('arn:');
  const name = byArn ? (run.split(':').at(-1) ?? '') : run;
  const asked = all.filter(([, machine]) => !byArn || run === arnOf(machine, name));
  const found: FoundExecution[] = [];
  for (const [kind, machine] of asked) {
    const execution = await describe(sfn, arnOf(machine, name));
    if (execution !== undefined) found.push({ ...execution, kind } as FoundExecution);
  }
  const [only, other] = found;
  if (other !== undefined) {
    throw new PermanentError('AmbiguousRun', 'A monitoring run and a replay have this name', {
      got: run,
      expected: found.map(({ executionArn }) => executionArn).join(', or '),
    });
  }
  if (only !== undefined) return only;
  throw await noSuchRun(sfn, Object.values(machines), run);
}

/** @returns `undefined` if it does not exist, or cannot: an invalid name makes an invalid ARN */
async function describe(sfn: SFNClient, executionArn: string): Promise<DescribeExecutionCommandOutput | undefined> {
  try {
    return await sfn.send(new DescribeExecutionCommand({ executionArn }));
  } catch (error) {
    if (error instanceof ExecutionDoesNotExist || error instanceof InvalidArn) return undefined;
    // The SDK checks nothing, and Step Functions refuses a name that is too long by the length of the ARN.
    if ((error as Error).name === 'ValidationException') return undefined;
    throw error;
  }
}

async function noSuchRun(sfn: SFNClient, machines: string[], run: string): Promise<PermanentError> {
  const lists = await Promise.all(
    machines.map((stateMachineArn) =>
      sfn.send(new ListExecutionsCommand({ stateMachineArn, maxResults: MAX_COMPARED })),
    ),
  );
  const newest = lists
    .flatMap(({ executions = [] }) => executions)
    .sort((a, b) => Number(b.startDate ?? 0) - Number(a.startDate ?? 0))
    .map(({ name = '' }) => name);
  const alike = nearest(run.split(':').at(-1) ?? '', newest);
  const others = newest.filter((name) => name !== alike).slice(0, MAX_NAMED);
  const expected =
    newest.length === 0
      ? 'the name or the ARN of an execution; there is none yet'
      : `the name or the ARN of an execution of the last 90 days, such as ${[...(alike ? [alike] : []), ...others].join(', ')}`;
  return new PermanentError('NoSuchRun', 'There is no run of that name', {
    got: run,
    expected: alike === undefined ? expected : `${expected}. Did you mean ${alike}?`,
    where: machines.join(', '),
  });
}
