/** Reads metrics and alarms of an endpoint and of a stack from CloudWatch. */

import { callAws } from './aws-json.ts';
import { type AwsClient, awsError } from './aws-post.ts';

const HOUR_S = 3600;

/** The calls of a variant in an hour. */
export interface HourlyCalls {
  variant: string;
  hourMs: number;
  invocations: number;
  /** Replies of 4XX and 5XX among them. */
  clientErrors: number;
  serverErrors: number;
}

const METRICS = {
  invocations: 'Invocations',
  clientErrors: 'Invocation4XXErrors',
  serverErrors: 'Invocation5XXErrors',
} as const;

/** Counts the calls of variants by hour. @param fromMs of the first hour */
export async function hourlyCalls(
  client: AwsClient,
  endpoint: string,
  variants: readonly string[],
  fromMs: number,
  toMs: number,
): Promise<HourlyCalls[]> {
  const asked = variants.flatMap((variant) =>
    Object.entries(METRICS).map(([of, MetricName]) => ({ variant, of: of as keyof typeof METRICS, MetricName })),
  );
  type Reply = { MetricDataResults?: { Id: string; Timestamps?: number[]; Values?: number[]; StatusCode?: string }[] };
  const { MetricDataResults = [] } = await callAws<Reply>(client, 'monitoring', 'GetMetricData', {
    StartTime: Math.floor(fromMs / 1000 / HOUR_S) * HOUR_S,
    EndTime: Math.ceil(toMs / 1000),
    MetricDataQueries: asked.map(({ variant, MetricName }, at) => ({
      Id: `m${at}`,
      MetricStat: {
        Metric: {
          Namespace: 'AWS/SageMaker',
          MetricName,
          Dimensions: [
            { Name: 'EndpointName', Value: endpoint },
            { Name: 'VariantName', Value: variant },
          ],
        },
        Period: HOUR_S,
        Stat: 'Sum',
      },
    })),
  });
  // CloudWatch answers 200 for a question that it could not answer, without values.
  const failed = MetricDataResults.find(({ StatusCode = '' }) => ['InternalError', 'Forbidden'].includes(StatusCode));
  if (failed) throw awsError(`CloudWatch${failed.StatusCode}`, 'GetMetricData gave no values');
  const hours = new Map<string, HourlyCalls>();
  for (const { Id, Timestamps = [], Values = [] } of MetricDataResults) {
    const { variant, of } = asked[Number(Id.slice(1))] ?? {};
    if (variant === undefined || of === undefined) continue;
    for (const [at, second] of Timestamps.entries()) {
      const key = `${second} ${variant}`;
      const nothing = { variant, hourMs: second * 1000, invocations: 0, clientErrors: 0, serverErrors: 0 };
      const hour = hours.get(key) ?? nothing;
      hour[of] += Values[at] ?? 0;
      hours.set(key, hour);
    }
  }
  return [...hours.values()];
}

/** Returns the alarms of a stack that are on. */
export async function ringingAlarms(client: AwsClient, prefix: string) {
  const AlarmNamePrefix = `sagemaker-monitoring-${prefix}-`;
  const input = { AlarmNamePrefix, StateValue: 'ALARM' };
  type Reply = { MetricAlarms?: { AlarmName: string; AlarmDescription?: string; StateUpdatedTimestamp?: number }[] };
  const reply = await callAws<Reply>(client, 'monitoring', 'DescribeAlarms', input);
  return (reply.MetricAlarms ?? []).flatMap(({ AlarmName, AlarmDescription = '', StateUpdatedTimestamp: at }) => {
    const id = AlarmName.slice(AlarmNamePrefix.length);
    const [what = ''] = AlarmDescription.split(/\. (?:What to do|Section)/);
    // The alarm may belong to a stack with a longer prefix that begins with this prefix.
    if (!/^(?:Quality-|[A-Za-z]+$)/.test(id)) return [];
    return [{ id, name: AlarmName, what, since: at === undefined ? undefined : new Date(at * 1000).toISOString() }];
  });
}
