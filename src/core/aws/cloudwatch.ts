/** What CloudWatch knows of an endpoint and of a stack. */

import { sum } from '../values/sum.ts';
import { callAws } from './aws-json.ts';
import type { AwsClient } from './aws-post.ts';

const PERIOD_S = 300;

/** Counts the invocations of all variants, whatever they are called. */
export async function invocations(client: AwsClient, endpoint: string, fromMs: number, toMs: number) {
  const metric = `MetricName="Invocations" EndpointName="${endpoint}"`;
  const search = `SEARCH('{AWS/SageMaker,EndpointName,VariantName} ${metric}', 'Sum', ${PERIOD_S})`;
  type Reply = { MetricDataResults?: { Values?: number[]; StatusCode?: string }[] };
  const { MetricDataResults = [] } = await callAws<Reply>(client, 'monitoring', 'GetMetricData', {
    StartTime: Math.ceil(fromMs / 1000 / PERIOD_S) * PERIOD_S,
    EndTime: Math.floor(toMs / 1000 / PERIOD_S) * PERIOD_S,
    MetricDataQueries: [{ Id: 'calls', Expression: search, Period: PERIOD_S }],
  });
  // CloudWatch answers 200 for a question that it could not answer, without values.
  const failed = MetricDataResults.find(({ StatusCode = '' }) => ['InternalError', 'Forbidden'].includes(StatusCode));
  if (failed) {
    const error = new Error('GetMetricData gave no values');
    error.name = `CloudWatch${failed.StatusCode}`;
    throw error;
  }
  return sum(MetricDataResults.flatMap(({ Values = [] }) => Values));
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
    // A longer prefix may begin with this one.
    if (!/^(?:Quality-|[A-Za-z]+$)/.test(id)) return [];
    return [{ id, name: AlarmName, what, since: at === undefined ? undefined : new Date(at * 1000).toISOString() }];
  });
}
