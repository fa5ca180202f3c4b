/** Asks for the facts: counts and objectives in the work bucket, executions, CloudWatch's alarms and metrics, today's budget. */

import {
  DescribeExecutionCommand,
  type ExecutionListItem,
  type ExecutionStatus,
  type SFNClient,
} from '@aws-sdk/client-sfn';
import { HOUR_MS } from '../captures/files/capture-path.ts';
import { callAws } from '../core/aws/aws-json.ts';
import { ringingAlarms } from '../core/aws/cloudwatch.ts';
import { listedExecutions } from '../core/aws/executions.ts';
import type { Storage } from '../core/aws/storage.ts';
import type { RetryInput } from '../core/contract/input.ts';
import { keptText } from '../core/contract/kept.ts';
import { budgetTable, EVENT_RUN_PREFIX } from '../core/contract/names.ts';
import { saidBy } from '../core/errors/errors.ts';
import { inOrder, inTime } from '../core/process/concurrency.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { activeScorers } from '../judge/active-scorers.ts';
import { dayScope, usedUsd } from '../limits/budget.ts';
import type { Item } from '../limits/table.ts';
import { type CountedCell, cellsOf, hourMs, readDays, type TimeWindow } from '../quality/counts-store.ts';
import { objectiveRates } from '../quality/objective-rates.ts';
import { measuresOf, objectivesOf } from '../quality/objectives.ts';
import { askCalls } from './endpoint-calls.ts';
import { askLoad, type EndpointLoad } from './endpoint-load.ts';
import { addedUpBesideRates, endOf, type HealthFacts } from './facts.ts';
import { HISTORY_MS, historyOf } from './history.ts';

/** The stack that is asked about. */
export interface AskedStack {
  storage: Storage;
  /** Its region, login and endpoint are used for CloudWatch and DynamoDB, too. */
  sfn: SFNClient;
  stateMachineArn: string;
  environment: LambdaEnvironment;
  /** `--stack` of the current command. */
  stack?: string | undefined;
  /** Replaces names in counts that captures have made up. */
  named?: (<T>(counts: T) => T) | undefined;
}

/**
 * Time limit of a request. A person waits at most five seconds for all requests, and a network without a route would
 * take longer for one answer.
 */
const LIMIT_MS = 4_000;
/** Captures arrive within minutes of their inference, and each capture file starts or joins a run. */
const QUIET_MS = HOUR_MS;
/** Executions of a list that are looked at. */
const MAX_DESCRIBED = 100;

/** Returns the hour that an hour is added up with others in. */
export type StartOf = (hour: string) => string;

interface FactsQuery {
  /** A window that ends now or earlier. */
  window: TimeWindow;
  nowMs: number;
  /** Limits the end of failed runs. */
  ended?: TimeWindow;
  /** Default: hours are not added up. */
  startOf?: StartOf;
}

/**
 * Reads the facts of a window.
 *
 * @example
 *     const facts = await readFacts(stack, { window: { fromMs: nowMs - 7 * DAY_MS, toMs: nowMs }, nowMs });
 */
export async function readFacts(of: AskedStack, query: FactsQuery): Promise<HealthFacts> {
  const { window, nowMs, ended = window, startOf } = query;
  const { sfn, storage, environment, stack, named } = of;
  const { STACK_PREFIX: prefix, WORK_BUCKET: workBucket, SHADOW_VARIANTS: shadow } = environment;
  const unasked: Record<string, string> = {};
  const asked = <T>(rule: string, question: Promise<T>): Promise<T | undefined> =>
    question.catch((error: unknown) => {
      unasked[rule] = saidBy(error);
      return undefined;
    });
  const soon = <T>(rule: string, question: Promise<T>) => asked(rule, inTime(question, LIMIT_MS));
  const isNow = window.toMs >= nowMs;
  const load = loadOf(of, { ...window, toMs: Math.min(window.toMs, nowMs) });
  const others = Promise.all([
    soon('run-failed', failedRunsOf(of, ended)),
    isNow ? soon('alarm', ringingAlarms(sfn, prefix)) : undefined,
    isNow ? soon('budget', usedToday(of, nowMs)) : undefined,
  ]);
  const active = activeScorers(environment);
  const endMs = Math.ceil(window.toMs / HOUR_MS) * HOUR_MS;
  const readCounts = async () => {
    const [work, measures] = [{ storage, workBucket }, measuresOf(objectivesOf(environment))];
    const [hours, cells]: [CountedCell[], CountedCell[]] = [[], []];
    const historyMs = endMs - HISTORY_MS;
    const all = { fromMs: Math.min(historyMs, window.fromMs), toMs: window.toMs };
    // Hours with many names take much memory until they are added up.
    for await (const ofDay of readDays(work, all, measures)) {
      const read = cellsOf(ofDay);
      const served = read.filter(({ hour, variant }) => hourMs(hour) >= historyMs && !shadow.includes(variant));
      hours.push(...served.map(slim));
      const within = read.filter(({ hour }) => hourMs(hour) >= window.fromMs);
      cells.push(...(startOf ? addedUpBesideRates(within, startOf) : within));
    }
    const shown = named?.(cells) ?? cells;
    const objectives = await objectiveRates(work, environment, shown);
    return { cells: shown, history: historyOf(hours, active), objectives };
  };
  const counts = await asked('captures', readCounts());
  const recent = counts?.cells ?? [];
  const quiet = isNow ? await soon('captures', quietSince(of, recent, window, nowMs)) : undefined;
  const calls = isNow ? await soon('captures', callsOf(of, recent, window, nowMs)) : undefined;
  const [failedRuns, alarms, budget] = await others;
  return {
    ...(counts ?? { cells: [], objectives: [] }),
    ...{ window, active, sampleRate: environment.EVALUATION_SAMPLE_RATE, shadow, nowMs, stack },
    ...{ kept: keptText(environment), load: await load },
    ...{ quiet, calls, failedRuns, alarms, budget, unasked },
  };
}

/** Returns only the counts that the history needs. */
const slim = ({ hour, variant, cell: { captures, replies, notJudged, scorers = {} } }: CountedCell): CountedCell => ({
  hour,
  variant,
  cell: {
    ...{ captures, replies, notJudged },
    scorers: mapValues(scorers, (own) =>
      mapValues(own, ({ captures: some, values, versions }) => ({ captures: some, values, versions })),
    ),
  },
});

const mapValues = <T, U>(of: Record<string, T>, to: (value: T) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(of).map(([name, value]) => [name, to(value)]));

// ------------------------------------------------------------------------------------------------------ executions

/** The newest executions with a status. @param fromMs start of the earliest execution; if absent, the newest thousand executions */
function newest({ sfn, stateMachineArn }: AskedStack, status?: ExecutionStatus, fromMs?: number) {
  const limit = fromMs === undefined ? 1_000 : Infinity;
  return Array.fromAsync(listedExecutions(sfn, stateMachineArn, { status, fromMs, limit }));
}

const isOfEvents = ({ name = '' }: ExecutionListItem): boolean => name.startsWith(EVENT_RUN_PREFIX);

/** Returns the runs of the window that failed or were stopped, and that no retry has made whole. */
async function failedRunsOf(of: AskedStack, { fromMs, toMs }: TimeWindow) {
  const statuses = ['FAILED', 'TIMED_OUT', 'ABORTED'] as const;
  const ended = (await Promise.all(statuses.map((status) => newest(of, status)))).flat();
  const within = ended
    .filter(({ stopDate }) => Number(stopDate) >= fromMs && Number(stopDate) < toMs)
    .toSorted((a, b) => Number(b.stopDate) - Number(a.stopDate));
  const failed = await described(of, within);
  if (failed.length === 0) return { runs: [] };
  // New files start runs by themselves. Runs that a person starts have other names.
  const sinceMs = Math.min(...failed.map(({ startMs }) => startMs));
  const later = (await newest(of, 'SUCCEEDED', sinceMs)).filter(({ startDate }) => Number(startDate) > sinceMs);
  const byPerson = later.filter((one) => !isOfEvents(one));
  const whole = await described(of, byPerson);
  const isWhole = ({ run, startMs, error, retry: own }: (typeof failed)[number]): boolean => {
    // A retry of the run, or a second retry of the run that this one retried.
    const wanted = [{ run, what: error === 'VerdictsStillHeld' ? 'held' : 'failed' }, ...(own ? [own] : [])];
    const isOf = ({ retry, startMs: laterMs }: (typeof failed)[number]): boolean =>
      laterMs > startMs && wanted.some((one) => one.run === retry?.run && one.what === retry.what);
    return whole.some(isOf) || failed.some((one) => isOf(one) && isWhole(one));
  };
  return { runs: failed.filter((run) => !isWhole(run)), hasMore: within.length > MAX_DESCRIBED };
}

/** Returns the inputs of the first executions. */
function described({ sfn }: AskedStack, some: readonly ExecutionListItem[]) {
  const describe = async ({ executionArn, startDate, name: run = '' }: ExecutionListItem) => {
    const { status, error, input } = await sfn.send(new DescribeExecutionCommand({ executionArn }));
    const { retry, dryRun } = (JSON.parse(input ?? 'null') ?? {}) as Partial<RetryInput>;
    const why = status === 'ABORTED' ? 'it was stopped' : (error ?? 'it took too long');
    return { run, startMs: Number(startDate), error: why, retry: dryRun ? undefined : retry };
  };
  return Array.fromAsync(inOrder(16, some.slice(0, MAX_DESCRIBED), describe));
}

/** Returns since when no captures have come; `undefined` if they have just come, or are being counted. */
async function quietSince(of: AskedStack, cells: readonly CountedCell[], { fromMs }: TimeWindow, nowMs: number) {
  const lastMs = endOf(cells) ?? fromMs;
  if (nowMs - lastMs < QUIET_MS) return undefined;
  // The newest captures are in no counts while their run continues.
  const latest = (await newest(of)).find(isOfEvents);
  const sinceMs = Math.max(lastMs, Number(latest?.startDate ?? 0));
  return nowMs - sinceMs < QUIET_MS ? undefined : { since: new Date(sinceMs).toISOString() };
}

/**
 * Returns the calls of the window, and the missing captures. Returns `undefined` for an emulator without the endpoint.
 */
async function callsOf(of: AskedStack, cells: readonly CountedCell[], window: TimeWindow, nowMs: number) {
  const running = (await newest(of, 'RUNNING')).map(({ startDate }) => Number(startDate));
  const about = { window, cells, nowMs, openMs: Math.min(...running) };
  const asked = askCalls(of.sfn, of.environment.SAGEMAKER_ENDPOINT_NAME, about);
  return process.env.AWS_ENDPOINT_URL ? asked.catch(() => undefined) : asked;
}

/** Returns what the endpoint's servers measured. It is no fault of the endpoint if this cannot be read. */
const loadOf = ({ sfn, environment }: AskedStack, window: TimeWindow): Promise<EndpointLoad> =>
  inTime(askLoad(sfn, environment.SAGEMAKER_ENDPOINT_NAME, window), LIMIT_MS).catch((error: unknown) =>
    process.env.AWS_ENDPOINT_URL ? new Map() : new Map([['', `not measured: ${saidBy(error)}`]]),
  );

/** Returns the judge's spending today, and the daily budget. */
async function usedToday({ sfn, environment }: AskedStack, nowMs: number) {
  const { BUDGET_TABLE: TableName, EVALUATION_BUDGET_USD: limit } = environment;
  if (limit === 0) return { usd: 0, limit: 0 };
  const input = { TableName, Key: { [budgetTable.partitionKey]: { S: dayScope(nowMs) } } };
  const { Item } = await callAws<{ Item?: Item }>(sfn, 'dynamodb', 'GetItem', input);
  return { usd: usedUsd(Item), limit };
}
