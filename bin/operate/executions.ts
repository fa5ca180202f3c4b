/**
 * Starts executions of a stack's state machines, describes their input as text, and finds the execution that a user
 * means.
 */

import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  ExecutionAlreadyExists,
  ExecutionDoesNotExist,
  InvalidArn,
  type SFNClient,
  StartExecutionCommand,
} from '@aws-sdk/client-sfn';
import { listedExecutions } from '../../src/core/aws/executions.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { nearest } from '../../src/core/errors/nearest.ts';

/** Step Functions also accepts letters of other alphabets. */
const RUN_NAME = /^[-\w.+@=]{1,80}$/;

export type StartedExecution = Awaited<ReturnType<typeof startNamed>>;

/**
 * Starts an execution. The same input under the same name starts no second execution while that run is running.
 *
 * @throws PermanentError `RunNameTaken`, `InvalidRunName`
 *
 * @example
 *     const { name } = await startNamed(clients.sfn, outputs.stateMachineArn, { bucket, prefix }, 'backfill-1');
 */
export async function startNamed(sfn: SFNClient, stateMachineArn: string, input: object, name?: string) {
  if (name !== undefined && !RUN_NAME.test(name)) {
    const expected = 'at most 80 letters, digits and -_.+@=';
    throw new PermanentError('InvalidRunName', 'That cannot be the name of a run', { got: name, expected });
  }
  try {
    const command = new StartExecutionCommand({ stateMachineArn, input: JSON.stringify(input), name });
    const { executionArn: arn = '' } = await sfn.send(command);
    return { name: arn.split(':').at(-1) ?? '', arn };
  } catch (error) {
    if (!(error instanceof ExecutionAlreadyExists)) throw error;
    const expected = 'a name that no run of the last 90 days has';
    throw new PermanentError('RunNameTaken', 'There is a run of that name', { got: name, expected }, error);
  }
}

/** Options whose values are part of the text, in their order. */
const OPTIONS: readonly [name: string, text: (value: unknown) => string | undefined][] = [
  ['dryRun', (value) => (value ? 'dry run' : undefined)],
  ['evaluate', (value) => (value === false ? 'no evaluation' : undefined)],
  ['reevaluate', (value) => (value ? 'judged again' : undefined)],
  ['sampleRate', (value) => `sample rate ${value}`],
  ['verdicts', (value) => `${value} captures judged`],
  ['judge', (value) => (value === 'batch' ? 'batch' : undefined)],
  ['budgetUsd', (value) => `at most $${value}`],
];

/**
 * Describes an input of any version: its captures, then the options that it sets.
 *
 * @param count number of the files, if known
 */
export function inputText(raw: unknown, count?: number): string {
  const input = (typeof raw === 'object' && raw !== null ? raw : {}) as Record<string, unknown>;
  const options = OPTIONS.map(([name, text]) => (input[name] === undefined ? undefined : text(input[name])));
  return [capturesOf(input, count), ...options.filter((text) => text !== undefined)].join(', ');
}

function capturesOf(input: Record<string, unknown>, count: number | undefined): string {
  const { detail, files, retry, replay, bucket, prefix, from, to } = input as {
    detail?: { bucket?: { name?: string }; object?: { key?: string } };
    files?: { key?: string };
    retry?: { run?: string; what?: string };
    replay?: { run?: string };
  } & Record<'bucket' | 'prefix' | 'from' | 'to', string | undefined>;
  if (detail) return `s3://${detail.bucket?.name}/${detail.object?.key}`;
  if (files) return count === undefined ? 'capture files' : `${count} capture file${count === 1 ? '' : 's'}`;
  if (retry) return `${retry.what} of ${retry.run}`;
  if (replay) return `exchanges of ${replay.run}`;
  if (bucket === undefined) return 'unknown input';
  return `s3://${bucket}/${prefix ?? ''}${from ? ` from ${from}` : ''}${to ? ` to ${to}` : ''}`;
}

// ------------------------------------------------------------------------------------- the one that a person means

/** State machines of a stack, by the kind of their executions. */
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
 * @throws PermanentError `NoSuchRun`, with the nearest name and the newest names; `AmbiguousRun` if several executions
 *   have the name
 *
 * @example
 *     const { status } = await findExecution(clients.sfn, machinesOf(stack), 'backfill-1');
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
    const facts = { got: run, expected: found.map(({ executionArn }) => executionArn).join(', or ') };
    throw new PermanentError('AmbiguousRun', 'A monitoring run and a replay have this name', facts);
  }
  if (only !== undefined) return only;
  throw await noSuchRun(sfn, Object.values(machines), run);
}

/** @throws the errors of Step Functions */
export const describeExecution = (sfn: SFNClient, executionArn: string): Promise<DescribeExecutionCommandOutput> =>
  sfn.send(new DescribeExecutionCommand({ executionArn }));

/** @returns `undefined` if it does not or cannot exist: an invalid name makes an invalid ARN */
async function describe(sfn: SFNClient, executionArn: string): Promise<DescribeExecutionCommandOutput | undefined> {
  try {
    return await describeExecution(sfn, executionArn);
  } catch (error) {
    if (error instanceof ExecutionDoesNotExist || error instanceof InvalidArn) return undefined;
    // The SDK does not validate, and Step Functions refuses a name that is too long by the length of the ARN.
    if ((error as Error).name === 'ValidationException') return undefined;
    throw error;
  }
}

async function noSuchRun(sfn: SFNClient, machines: string[], run: string): Promise<PermanentError> {
  const lists = machines.map((machine) => Array.fromAsync(listedExecutions(sfn, machine, { limit: MAX_COMPARED })));
  const found = (await Promise.all(lists)).flat();
  const newest = found.sort((a, b) => Number(b.startDate ?? 0) - Number(a.startDate ?? 0)).map(({ name = '' }) => name);
  const alike = nearest(run.split(':').at(-1) ?? '', newest);
  const others = newest.filter((name) => name !== alike).slice(0, MAX_NAMED);
  const such = [...(alike ? [alike] : []), ...others].join(', ');
  const near = alike === undefined ? '' : `. Did you mean ${alike}?`;
  const which = newest.length === 0 ? '; there is none yet' : ` of the last 90 days, such as ${such}${near}`;
  const facts = { got: run, expected: `the name or the ARN of an execution${which}`, where: machines.join(', ') };
  return new PermanentError('NoSuchRun', 'There is no run of that name', facts);
}
