/** The execution of a replay that an event of Step Functions is about. */
import type { EndedExecution, ReplayExecution } from '../../replay-contract.ts';

export function executionOf({ executionArn, startDate }: EndedExecution['detail']): ReplayExecution {
  return {
    name: executionArn.slice(executionArn.lastIndexOf(':') + 1),
    arn: executionArn,
    startTime: startDate === undefined ? '' : new Date(startDate).toISOString(),
  };
}
