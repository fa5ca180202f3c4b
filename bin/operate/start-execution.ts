/** Starts runs, and says in words what a run was asked to do. */
import { ExecutionAlreadyExists, type SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';
import type { ExecutionInput } from '../../src/core/contract/input.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { parseInput } from '../../src/monitoring/plan/input.ts';

/** Step Functions also accepts letters of other alphabets. */
const RUN_NAME = /^[-\w.+@=]{1,80}$/;

/** Starts a run of captures. @throws what `startNamed` does; PermanentError `InvalidInput` with the allowed values */
export async function startExecution(
  sfn: SFNClient,
  stateMachineArn: string,
  input: ExecutionInput,
  name?: string,
): Promise<StartedExecution> {
  parseInput(input);
  return startNamed(sfn, stateMachineArn, input, name);
}

export interface StartedExecution {
  name: string;
  arn: string;
}

/**
 * Starts an execution. The same input under the same name starts nothing while that run is running.
 *
 * @throws PermanentError `RunNameTaken`, `InvalidRunName`
 */
export async function startNamed(
  sfn: SFNClient,
  stateMachineArn: string,
  input: object,
  name?: string,
): Promise<StartedExecution> {
  if (name !== undefined && !RUN_NAME.test(name)) {
    const expected = 'at most 80 letters, digits and -_.+@=';
    throw new PermanentError('InvalidRunName', 'That cannot be the name of a run', { got: name, expected });
  }
  try {
    const { executionArn: arn = '' } = await sfn.send(
      new StartExecutionCommand({ stateMachineArn, input: JSON.stringify(input), name }),
    );
    return { name: arn.split(':').at(-1) ?? '', arn };
  } catch (error) {
    if (error instanceof ExecutionAlreadyExists) {
      const expected = 'a name that no run of the last 90 days has';
      throw new PermanentError('RunNameTaken', 'There is a run of that name', { got: name, expected }, error);
    }
    throw error;
  }
}

/** Options whose values are part of the words, in their order. */
const OPTIONS: readonly [name: string, words: (value: unknown) => string | undefined][] = [
  ['dryRun', (value) => (value ? 'dry run' : undefined)],
  ['evaluate', (value) => (value === false ? 'no evaluation' : undefined)],
  ['reevaluate', (value) => (value ? 'judged again' : undefined)],
  ['sampleRate', (value) => `sample rate ${value}`],
  ['judge', (value) => (value === 'batch' ? 'batch' : undefined)],
  ['budgetUsd', (value) => `at most $${value}`],
];

/**
 * Says what an input of any version asks for: its captures, then the options that it sets.
 *
 * @param count of the files, if it is known
 */
export function inputWords(raw: unknown, count?: number): string {
  const input = (typeof raw === 'object' && raw !== null ? raw : {}) as Record<string, unknown>;
  const options = OPTIONS.map(([name, words]) => (input[name] === undefined ? undefined : words(input[name])));
  return [capturesOf(input, count), ...options.filter((words) => words !== undefined)].join(', ');
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
