/** The newest runs of a stack, with their summaries. */
import {
  DescribeExecutionCommand,
  type ExecutionListItem,
  type ExecutionStatus,
  paginateListExecutions,
} from '@aws-sdk/client-sfn';
import { Storage } from '../../src/core/aws/storage.ts';
import { replayKeys, workKeys } from '../../src/core/contract/work-keys.ts';
import { inOrder } from '../../src/core/process/concurrency.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { AwsClients } from './aws-clients.ts';
import { type RunStatus, statusOfRun } from './run-report.ts';
import { inputWords } from './start-execution.ts';

interface ListOptions {
  /** Of the start, epoch milliseconds; `fromMs` is inclusive, `toMs` exclusive. */
  fromMs?: number | undefined;
  toMs?: number | undefined;
  status?: RunStatus | undefined;
  limit: number;
}

export type ListedRun = Awaited<ReturnType<typeof listRuns>>[number];
export type ListedReplay = Awaited<ReturnType<typeof listReplays>>[number];

/** Step Functions' names of the statuses that a list can be limited to. */
const FILTERS: Partial<Record<RunStatus, ExecutionStatus>> = {
  running: 'RUNNING',
  succeeded: 'SUCCEEDED',
  failed: 'FAILED',
  stopped: 'ABORTED',
  'timed out': 'TIMED_OUT',
};

const READS_AT_ONCE = 8;

/** Lists the monitoring runs of the last 90 days, the newest first. A run costs a request or two. */
export async function listRuns(
  clients: Pick<AwsClients, 's3' | 'sfn'>,
  stateMachineArn: string,
  workBucket: string,
  options: ListOptions,
) {
  const storage = new Storage(clients.s3);
  const read = async (item: ExecutionListItem) => {
    const facts = factsOf(item);
    const summary = await storage.getJson<RunSummary>(workBucket, workKeys.summary(facts.run));
    // The summary of a run that planned nothing has none.
    const asked = summary?.input ?? (await inputOf(clients, facts.arn));
    // Without a summary if the run has not written one.
    return { ...facts, asked: inputWords(asked, summary?.objects), summary };
  };
  return collect(inOrder(READS_AT_ONCE, executions(clients, stateMachineArn, options), read));
}

/** Lists the cloud replays of the last 90 days, the newest first. */
export async function listReplays(
  clients: Pick<AwsClients, 's3' | 'sfn'>,
  replayStateMachineArn: string,
  workBucket: string,
  options: ListOptions,
) {
  const storage = new Storage(clients.s3);
  const read = async (item: ExecutionListItem) => {
    const facts = factsOf(item);
    const figures = await storage.getJson<{ sent: number; requests: number }>(
      workBucket,
      replayKeys.figures(facts.run),
    );
    const { target } = ((await inputOf(clients, facts.arn)) ?? {}) as { target?: Record<string, unknown> };
    return {
      ...facts,
      asked: `to ${Object.values(target ?? {}).join(' ') || 'an unknown target'}`,
      /** Absent until the results are summarized. */
      requests: figures && { sent: figures.sent, planned: figures.requests },
    };
  };
  return collect(inOrder(READS_AT_ONCE, executions(clients, replayStateMachineArn, options), read));
}

const factsOf = ({ name = '', executionArn = '', status, startDate, stopDate }: ExecutionListItem) => ({
  run: name,
  arn: executionArn,
  status: statusOfRun(status),
  startedAt: startDate?.toISOString() ?? '',
  endedAt: stopDate?.toISOString(),
});

async function inputOf({ sfn }: Pick<AwsClients, 'sfn'>, executionArn: string): Promise<unknown> {
  const { input } = await sfn.send(new DescribeExecutionCommand({ executionArn }));
  return JSON.parse(input ?? 'null');
}

async function* executions(
  { sfn }: Pick<AwsClients, 'sfn'>,
  stateMachineArn: string,
  { fromMs = 0, toMs = Infinity, status, limit }: ListOptions,
): AsyncGenerator<ExecutionListItem> {
  let found = 0;
  const statusFilter = status && FILTERS[status];
  for await (const page of paginateListExecutions({ client: sfn }, { stateMachineArn, statusFilter })) {
    for (const item of page.executions ?? []) {
      const startedMs = item.startDate?.getTime() ?? 0;
      if (startedMs >= toMs) continue;
      if (startedMs < fromMs || found === limit) return;
      found += 1;
      yield item;
    }
  }
}

/** Step Functions has the newest first, but for those of the same moment. */
async function collect<T extends { startedAt: string }>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all.sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1));
}
