/** Asks for the facts: counts and objectives in the work bucket, executions, CloudWatch's alarms and metrics, today's budget. */

import {
  DescribeExecutionCommand,
  type ExecutionStatus,
  ListExecutionsCommand,
  type SFNClient,
} from '@aws-sdk/client-sfn';
import { HOUR_MS } from '../captures/files/capture-path.ts';
import { callAws } from '../core/aws/aws-json.ts';
import type { AwsClient } from '../core/aws/aws-post.ts';
import type { Storage } from '../core/aws/storage.ts';
import type { RetryInput } from '../core/contract/input.ts';
import { budgetTable, EVENT_RUN_PREFIX } from '../core/contract/names.ts';
import { saidBy } from '../core/errors/errors.ts';
import { inOrder } from '../core/process/concurrency.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { sum } from '../core/values/sum.ts';
import { activeScorers } from '../judge/active-scorers.ts';
import { dayScope, usedUsd } from '../limits/budget.ts';
import type { Item } from '../limits/table.ts';
import { type CountedCell, cellsOf, dayOf, readWindow, type TimeWindow } from '../quality/counts-store.ts';
import { daysWithCounts } from '../quality/day-objects.ts';
import { objectiveRates } from '../quality/objective-rates.ts';
import { hourOf } from '../quality/tally.ts';
import {
  type Asked,
  addedUp,
  endOf,
  type FailedRun,
  type HealthFacts,
  type QuietTime,
  type RingingAlarm,
} from './facts.ts';

/** The stack that is asked about. */
export interface AskedStack {
  storage: Storage;
  /** Its region, login and endpoint are those of CloudWatch and DynamoDB, too. */
  sfn: SFNClient;
  stateMachineArn: string;
  environment: LambdaEnvironment;
  /** `--stack` of the command at hand. */
  stack?: string | undefined;
}

/** A person waits for everything for five seconds. A network without a route would take longer for one answer. */
const LIMIT_MS = 4_000;
/** Captures come within minutes of their inference, and each file of them starts a run or joins one. */
const QUIET_MS = HOUR_MS;
/** CloudWatch has the invocations of the last minutes before their captures are written. */
const IN_FLIGHT_MS = 15 * 60_000;
/** Executions of a page, and those of a list that are looked at. */
const [PAGE_SIZE, MAX_DESCRIBED] = [1_000, 100];
const AT_ONCE = 16;
/** From two days on, hours before the window need not be told apart. */
const LONG_MS = 48 * HOUR_MS;

/**
 * Reads the facts of a window that ends now, or of one that is over.
 *
 * @param before the window to compare with
 * @param ended when runs ended that failed
 */
export async function readFacts(
  of: AskedStack,
  window: TimeWindow,
  before: TimeWindow,
  nowMs: number,
  ended = window,
): Promise<HealthFacts> {
  const { environment, stack } = of;
  const asOf = new Date(nowMs).toISOString();
  const asked = <T>(question: Promise<T>): Promise<Asked<T>> =>
    question.then(
      (value) => ({ value, asOf }),
      (error: unknown) => ({ failed: saidBy(error), asOf }),
    );
  const soon = <T>(question: Promise<T>): Promise<Asked<T>> => asked(inTime(question));
  const isNow = window.toMs >= nowMs;
  const others = Promise.all([
    soon(failedRunsOf(of, ended)),
    isNow ? soon(ringingAlarms(of.sfn, environment.STACK_PREFIX)) : undefined,
    isNow ? soon(usedToday(of, nowMs)) : undefined,
  ]);
  const counts = await asked(readCounts(of, window, before));
  const read = 'value' in counts ? counts.value : { cells: [], before: [], objectives: [] };
  const quiet = 'failed' in counts ? counts : isNow ? await soon(quietTime(of, read.cells, window, nowMs)) : undefined;
  const [failedRuns, alarms, budget] = await others;
  return {
    ...read,
    window,
    active: activeScorers(environment),
    shadow: environment.SHADOW_VARIANTS,
    quiet: quiet && 'value' in quiet && quiet.value === undefined ? undefined : (quiet as Asked<QuietTime>),
    failedRuns,
    alarms,
    budget,
    nowMs,
    stack,
  };
}

/** Rejects if there is no answer within a limit. The question is not stopped. */
export const inTime = <T>(question: Promise<T>, ms = LIMIT_MS): Promise<T> =>
  new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`no answer within ${ms / 1000} s`)), ms).unref();
    question.then(resolve, reject);
  });

async function readCounts({ storage, environment }: AskedStack, window: TimeWindow, earlier: TimeWindow) {
  const { WORK_BUCKET: bucket } = environment;
  const days = await daysWithCounts(storage, bucket);
  const isLong = window.toMs - window.fromMs >= LONG_MS;
  const cellsIn = async (of: TimeWindow) => cellsOf(await readWindow(storage, bucket, days, of));
  const before: CountedCell[] = [];
  for (let { fromMs } = earlier; fromMs < earlier.toMs; fromMs += LONG_MS) {
    const some = await cellsIn({ fromMs, toMs: Math.min(fromMs + LONG_MS, earlier.toMs) });
    // Of a longer window, the last day is compared with the day before, and not with an earlier one.
    before.push(...(isLong ? addedUp(some, (ms) => `${dayOf(hourOf(ms))}T00`) : some));
  }
  const cells = await cellsIn(window);
  return { cells, before, objectives: await objectiveRates(storage, bucket, environment, cells) };
}

// ------------------------------------------------------------------------------------------------------ executions

/** An execution, and what it was asked to do. */
interface Execution extends FailedRun {
  startMs: number;
  /** What it does again, of which run. */
  retry?: RetryInput['retry'] | undefined;
}

/** Lists executions, the newest first. @param sinceMs of the earliest one; without it, the newest thousand */
async function executions({ sfn: client, stateMachineArn }: AskedStack, status?: ExecutionStatus, sinceMs = Infinity) {
  const found: (Pick<Execution, 'startMs'> & { name: string; executionArn: string | undefined; endMs: number })[] = [];
  const request = { stateMachineArn, statusFilter: status, maxResults: PAGE_SIZE };
  let nextToken: string | undefined;
  do {
    const page = await client.send(new ListExecutionsCommand({ ...request, nextToken }));
    for (const { name = '', executionArn, startDate, stopDate = startDate } of page.executions ?? [])
      found.push({ name, executionArn, startMs: Number(startDate ?? 0), endMs: Number(stopDate ?? 0) });
    nextToken = (found.at(-1)?.startMs ?? 0) < sinceMs ? undefined : page.nextToken;
  } while (nextToken !== undefined);
  return found;
}

/** Returns the runs of the window that failed or were stopped, and that no retry has made whole. */
async function failedRunsOf(of: AskedStack, { fromMs, toMs }: TimeWindow): Promise<FailedRun[]> {
  const statuses = ['FAILED', 'TIMED_OUT', 'ABORTED'] as const;
  const ended = (await Promise.all(statuses.map((status) => executions(of, status)))).flat();
  const within = ended.filter(({ endMs }) => endMs >= fromMs && endMs < toMs);
  const failed = await described(of, within);
  if (failed.length === 0) return [];
  // New files start runs by themselves; what a person starts has another name.
  const sinceMs = Math.min(...failed.map(({ startMs }) => startMs));
  const others = (await executions(of, 'SUCCEEDED', sinceMs)).filter(({ name }) => !name.startsWith(EVENT_RUN_PREFIX));
  const later = others.filter(({ startMs }) => startMs > sinceMs);
  const whole = await described(of, later);
  const isWhole = ({ run, startMs, error, retry: own }: Execution): boolean => {
    // Of the run, or again of the one that it retried.
    const wanted = [{ run, what: error === 'VerdictsStillHeld' ? 'held' : 'failed' }, ...(own ? [own] : [])];
    const isOf = ({ retry, startMs: laterMs }: Execution): boolean =>
      laterMs > startMs && wanted.some((one) => one.run === retry?.run && one.what === retry.what);
    return whole.some(isOf) || failed.some((one) => isOf(one) && isWhole(one));
  };
  return failed.filter((run) => !isWhole(run)).map(({ run, endedAt, error }) => ({ run, endedAt, error }));
}

async function described({ sfn }: AskedStack, some: Awaited<ReturnType<typeof executions>>): Promise<Execution[]> {
  const all: Execution[] = [];
  const describe = async ({ executionArn, startMs, name: run }: (typeof some)[number]): Promise<Execution> => {
    const { status, stopDate, error, input } = await sfn.send(new DescribeExecutionCommand({ executionArn }));
    const { retry, dryRun } = (JSON.parse(input ?? 'null') ?? {}) as Partial<RetryInput>;
    const why = status === 'ABORTED' ? 'it was stopped' : (error ?? 'it took too long');
    return { run, startMs, endedAt: stopDate?.toISOString() ?? '', error: why, retry: dryRun ? undefined : retry };
  };
  for await (const one of inOrder(AT_ONCE, some.slice(0, MAX_DESCRIBED), describe)) all.push(one);
  return all;
}

/** Returns since when no captures have come, and how often the endpoint was called since then; `undefined` if they have just come. */
async function quietTime(of: AskedStack, cells: readonly CountedCell[], { fromMs }: TimeWindow, nowMs: number) {
  const lastMs = endOf(cells) ?? fromMs;
  if (nowMs - lastMs < QUIET_MS) return undefined;
  // The newest captures are in no counts while their run continues.
  const newest = (await executions(of)).find(({ name }) => name.startsWith(EVENT_RUN_PREFIX));
  const sinceMs = Math.max(lastMs, newest?.startMs ?? 0);
  if (nowMs - sinceMs < QUIET_MS) return undefined;
  const calls = await invocations(of.sfn, of.environment.SAGEMAKER_ENDPOINT_NAME, sinceMs, nowMs - IN_FLIGHT_MS);
  return { since: new Date(sinceMs).toISOString(), invocations: calls };
}

// ------------------------------------------------------------------------------------------ CloudWatch and DynamoDB

const PERIOD_S = 300;

/** Counts the invocations of all variants, whatever they are called. */
export async function invocations(client: AwsClient, endpoint: string, fromMs: number, toMs: number): Promise<number> {
  const metric = `MetricName="Invocations" EndpointName="${endpoint}"`;
  const search = `SEARCH('{AWS/SageMaker,EndpointName,VariantName} ${metric}', 'Sum', ${PERIOD_S})`;
  type Reply = { MetricDataResults?: { Values?: number[] }[] };
  const { MetricDataResults = [] } = await callAws<Reply>(client, 'monitoring', 'GetMetricData', {
    StartTime: Math.ceil(fromMs / 1000 / PERIOD_S) * PERIOD_S,
    EndTime: Math.floor(toMs / 1000 / PERIOD_S) * PERIOD_S,
    MetricDataQueries: [{ Id: 'calls', Expression: search, Period: PERIOD_S }],
  });
  return sum(MetricDataResults.flatMap(({ Values = [] }) => Values));
}

/** Returns the alarms of a stack that are on. */
export async function ringingAlarms(client: AwsClient, prefix: string): Promise<RingingAlarm[]> {
  const AlarmNamePrefix = `sagemaker-monitoring-${prefix}-`;
  const input = { AlarmNamePrefix, StateValue: 'ALARM' };
  type Reply = { MetricAlarms?: { AlarmName: string; AlarmDescription?: string; StateUpdatedTimestamp?: number }[] };
  const reply = await callAws<Reply>(client, 'monitoring', 'DescribeAlarms', input);
  return (reply.MetricAlarms ?? []).flatMap(({ AlarmName, AlarmDescription = '', StateUpdatedTimestamp: at }) => {
    const id = AlarmName.slice(AlarmNamePrefix.length);
    const [what = ''] = AlarmDescription.split(/\. (?:What to do|Section)/);
    // A longer prefix may begin with this one.
    if (!/^(?:Quality-|[A-Za-z]+$)/.test(id)) return [];
    return [{ id, name: AlarmName, what, since: at === undefined ? undefined : new Date(at * 1000).toISOString() }];
  });
}

async function usedToday({ sfn, environment }: AskedStack, nowMs: number): Promise<{ usd: number; limit: number }> {
  const { BUDGET_TABLE: TableName, EVALUATION_BUDGET_USD: limit } = environment;
  if (TableName === undefined || limit === 0) return { usd: 0, limit: 0 };
  const input = { TableName, Key: { [budgetTable.partitionKey]: { S: dayScope(nowMs) } } };
  const { Item } = await callAws<{ Item?: Item }>(sfn, 'dynamodb', 'GetItem', input);
  return { usd: usedUsd(Item), limit };
}
