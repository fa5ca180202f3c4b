/** A stack that `status` asks: counts in memory, and a server that answers for Step Functions, CloudWatch and DynamoDB. */

import { SFNClient } from '@aws-sdk/client-sfn';
import type { QualityCell, QualityCounts } from '../../src/core/contract/quality.ts';
import type { HealthFacts } from '../../src/health/facts.ts';
import { type Health, healthOf } from '../../src/health/findings.ts';
import { type AskedStack, readFacts } from '../../src/health/gather.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';
import { type Answers, AwsAnswers } from './aws-answers.ts';
import { writeCounts } from './day-sums.ts';
import { emulated } from './emulated.ts';
import { environment, HOUR_MS, NOW_MS } from './example-month.ts';

/** An execution as Step Functions lists and describes it. */
export interface Ran {
  name: string;
  status: 'SUCCEEDED' | 'FAILED' | 'ABORTED' | 'RUNNING';
  /** When it started, hours ago. */
  ago: number;
  /** Default: soon after. */
  endedAgo?: number;
  input?: object;
}

const aws = new AwsAnswers();
const MACHINE = 'arn:aws:states:us-east-1:000000000000:stateMachine:monitoring';
let sfn: SFNClient;

/** Starts the server before all tests of a file, and stops it after them. */
export function useAskedStack(): void {
  beforeAll(async () => {
    await aws.start();
    sfn = new SFNClient({ ...emulated(aws.url), maxAttempts: 1 });
  });
  afterAll(() => aws.close());
}

/** 40 captures an hour, a quarter of them judged: all is well. */
export const GOOD: QualityCell = {
  captures: 40,
  inputTokens: 4000,
  outputTokens: 2000,
  judgeUsd: 0.04,
  scorers: {
    safety: { 0.25: { captures: 40, values: { yes: 10 } } },
    fluency: { 0.25: { captures: 40, values: { yes: 9, no: 1 } } },
  },
};

export interface Situation {
  /** What an hour has counted, by hours before now; 0 is the present one. Default: `GOOD` of `blue`. */
  hour?(ago: number): Record<string, QualityCell | undefined>;
  /** Hours that have counts. */
  hours?: number;
  ran?: readonly Ran[];
  answers?: Answers;
  storage?: MemoryStorage;
}

/** What SageMaker and CloudWatch know of the endpoint. */
export interface Called {
  /** By variant: the calls of each hour, and the replies of 4XX and 5XX among them. */
  hourly?: Record<string, readonly [invocations: number, clientErrors?: number, serverErrors?: number]>;
  /** Data Capture's sampling percentage; 0 if it is off. */
  percent?: number;
  /** When the configuration came into force, hours ago. */
  since?: number;
}

const METRICS = ['Invocations', 'Invocation4XXErrors', 'Invocation5XXErrors'];

export function called({ hourly = { blue: [0] }, percent = 100, since = 720 }: Called): Answers {
  const endpoint = {
    EndpointConfigName: 'blue-7',
    LastModifiedTime: (NOW_MS - since * HOUR_MS) / 1000,
    DataCaptureConfig: {
      EnableCapture: percent > 0,
      CaptureStatus: percent > 0 ? 'Started' : 'Stopped',
      CurrentSamplingPercentage: percent,
    },
    ProductionVariants: Object.keys(hourly).map((VariantName) => ({ VariantName })),
  };
  const metrics = (body: string) => {
    const { StartTime, EndTime, MetricDataQueries } = JSON.parse(body) as {
      StartTime: number;
      EndTime: number;
      MetricDataQueries: {
        Id: string;
        MetricStat: { Metric: { MetricName: string; Dimensions: { Value: string }[] } };
      }[];
    };
    return MetricDataQueries.map(({ Id, MetricStat: { Metric } }) => {
      const count = hourly[Metric.Dimensions[1]?.Value ?? '']?.[METRICS.indexOf(Metric.MetricName)] ?? 0;
      const Timestamps = Array.from(
        { length: Math.ceil((EndTime - StartTime) / 3600) },
        (_, n) => StartTime + n * 3600,
      );
      return { Id, Timestamps, Values: Timestamps.map(() => count) };
    });
  };
  return {
    DescribeEndpoint: [200, endpoint],
    GetMetricData: (_, body) => [200, { MetricDataResults: metrics(body) }],
  };
}

/** AWS's list of metrics of detailed observability (SageMaker AI's "OpenTelemetry metrics reference") that are asked for. */
const SERVED = {
  histogram: ['vllm:time_to_first_token_seconds', 'sglang:time_to_first_token_seconds'],
  counter: ['vllm:generation_tokens_total', 'sglang:generation_tokens_total'],
  gauge: ['vllm:num_requests_waiting', 'sglang:num_queue_reqs'],
};
/** How CloudWatch's manual asks for each type: a histogram has no `_bucket`, and its growth is a rate. */
const BY = 'by ("aws.sagemaker.variant.name")';
const FORMS = {
  histogram: `1000 * histogram_quantile(0.95, sum ${BY} (rate(SERIES)))`,
  counter: `sum ${BY} (rate(SERIES))`,
  gauge: `max ${BY} (max_over_time(SERIES))`,
};

/** CloudWatch's PromQL API. @param values by type of metric, and by variant */
export const served =
  (values: Partial<Record<keyof typeof SERVED, Record<string, string>>>): Answers[string] =>
  ({ headers }, body) => {
    const asked = new URLSearchParams(body);
    const query = asked.get('query')?.replaceAll('(0.5,', '(0.95,') ?? '';
    const type = (Object.keys(SERVED) as (keyof typeof SERVED)[]).find((one) => query.includes(SERVED[one][0] ?? '-'));
    const range = Math.round(Number(/\[(\d+)s\]/.exec(query)?.[1]));
    const series = (name: string) =>
      `{"${name}","aws.sagemaker.endpoint.name"="${environment.SAGEMAKER_ENDPOINT_NAME}"}[${range}s]`;
    const expected = type && SERVED[type].map((name) => FORMS[type].replace('SERIES', series(name))).join(' or ');
    const isSigned = headers.authorization?.includes('/monitoring/aws4_request');
    if (query !== expected || range > 7 * 86_400 || Number(asked.get('time')) > NOW_MS / 1000 || !isSigned)
      return [422, { status: 'error', errorType: 'execution', error: `not as AWS publishes it: ${query}` }];
    const result = Object.entries(values[type ?? 'gauge'] ?? {}).map(([variant, value]) => ({
      metric: variant === '' ? {} : { 'aws.sagemaker.variant.name': variant },
      value: [NOW_MS / 1000, value],
    }));
    return [200, { status: 'success', data: { resultType: 'vector', result } }];
  };

/** @returns the stack, whose present is `NOW_MS` */
export async function askedStackIn({
  hour = () => ({ blue: GOOD }),
  hours = 45 * 24,
  ran = [{ name: 'files-1', status: 'SUCCEEDED', ago: 0.1 }],
  answers = {},
  storage = new MemoryStorage(),
}: Situation): Promise<AskedStack> {
  const counts: QualityCounts = {};
  for (let ago = 0; ago < hours; ago += 1)
    counts[hourOf(NOW_MS - ago * HOUR_MS)] = hour(ago) as Record<string, QualityCell>;
  await writeCounts(storage.work, counts);
  const listed = (body: string) => {
    const { statusFilter } = JSON.parse(body) as { statusFilter?: string };
    const found = ran.filter(({ status }) => statusFilter === undefined || status === statusFilter);
    return found.map(({ name, ago, endedAgo = ago }) => {
      const [startDate, stopDate] = [ago, endedAgo].map((hours) => (NOW_MS - hours * HOUR_MS) / 1000);
      return { name, executionArn: name, startDate, stopDate };
    });
  };
  const described = (body: string) => {
    const { executionArn } = JSON.parse(body) as { executionArn: string };
    const { status, input = {}, ago = 0 } = ran.find(({ name }) => name === executionArn) ?? {};
    const stopDate = (NOW_MS - ago * HOUR_MS) / 1000 + 60;
    return { status, stopDate, error: status === 'FAILED' ? 'RunIncomplete' : undefined, input: JSON.stringify(input) };
  };
  aws.answers = {
    ListExecutions: (_, body) => [200, { executions: listed(body) }],
    DescribeExecution: (_, body) => [200, described(body)],
    DescribeAlarms: [200, { MetricAlarms: [] }],
    ...called({}),
    'POST /api/v1/query': served({}),
    GetItem: [200, { Item: { committed: { N: '1500000000' } } }],
    ...answers,
  };
  const noObjectives = { ...environment, QUALITY_OBJECTIVES: [] };
  return { storage: storage.storage, sfn, stateMachineArn: MACHINE, environment: noObjectives };
}

/** An objective of at least 0.9 that is met, as `status` knows it. */
export const metObjective = (measure: string, n: number) => ({
  ...{ objective: measure, measure, bound: { atLeast: 0.9 }, n, captures: n },
  ...{ value: 1, low: null, high: null, missed: false, since: null },
});

const toMs = Math.ceil(NOW_MS / HOUR_MS) * HOUR_MS;
/** The window of `status`. */
export const DAY = { fromMs: toMs - 24 * HOUR_MS, toMs };

export const factsOf = async (situation: Situation): Promise<HealthFacts> =>
  readFacts(await askedStackIn(situation), { window: DAY, nowMs: NOW_MS });
export const statusOf = async (situation: Situation): Promise<Health> => healthOf(await factsOf(situation));
