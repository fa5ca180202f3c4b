/** Lists the executions of a state machine. */

import {
  type ExecutionListItem,
  type ExecutionStatus,
  ListExecutionsCommand,
  type SFNClient,
} from '@aws-sdk/client-sfn';

export interface ListedExecutions {
  /** Start of the range of start times, epoch milliseconds. `fromMs` is inclusive, `toMs` exclusive. */
  fromMs?: number | undefined;
  toMs?: number | undefined;
  status?: ExecutionStatus | undefined;
  limit?: number;
}

/** Maximum page size of Step Functions. */
const PAGE_SIZE = 1_000;

/** Yields the executions of the last 90 days, the newest first. */
export async function* listedExecutions(
  sfn: SFNClient,
  stateMachineArn: string,
  { fromMs = 0, toMs = Infinity, status: statusFilter, limit = Infinity }: ListedExecutions,
): AsyncGenerator<ExecutionListItem> {
  let found = 0;
  let nextToken: string | undefined;
  do {
    const request = { stateMachineArn, statusFilter, maxResults: PAGE_SIZE, nextToken };
    const page = await sfn.send(new ListExecutionsCommand(request));
    for (const item of page.executions ?? []) {
      const startedMs = item.startDate?.getTime() ?? 0;
      if (startedMs >= toMs) continue;
      if (startedMs < fromMs || found === limit) return;
      found += 1;
      yield item;
    }
    nextToken = page.nextToken;
  } while (nextToken !== undefined && found < limit);
}
