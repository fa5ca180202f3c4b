/** Starts an execution at most once. */
import { ExecutionAlreadyExists, type SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';
import { RetryableError, saidBy } from '../src/core/errors/errors.ts';

/**
 * Starts an execution of this name, unless there was one in the last 90 days.
 *
 * @throws RetryableError `StepFunctionsUnavailable`
 */
export async function startOnce(
  stepFunctions: SFNClient,
  stateMachineArn: string | undefined,
  name: string,
  input: object,
): Promise<void> {
  try {
    await stepFunctions.send(new StartExecutionCommand({ stateMachineArn, name, input: JSON.stringify(input) }));
  } catch (error) {
    if (error instanceof ExecutionAlreadyExists) return;
    const facts = { got: saidBy(error), where: stateMachineArn };
    throw new RetryableError('StepFunctionsUnavailable', 'Step Functions did not start an execution', facts, error);
  }
}
