/**
 * Asks CloudWatch's Prometheus-compatible API about metrics in the form of OpenTelemetry, which `GetMetricData` does not
 * have. It needs `cloudwatch:GetMetricData` and `cloudwatch:ListMetrics`.
 */
import { jsonIn } from '../values/json-in.ts';
import { type AwsClient, awsError, postToAws } from './aws-post.ts';

interface Reply extends Partial<Record<'status' | '__type' | 'errorType', string>> {
  data?: { result?: { metric?: Record<string, string>; value?: [number, string] }[] };
}

/**
 * Returns the value of each series at a time, by the value of a label. Values that are no finite number are left out.
 *
 * @param query an expression that returns one series for each value of the label
 * @param atMs epoch milliseconds
 * @throws Error with the service's error type as its name, or `StrangeReply`
 */
export async function promQuery(client: AwsClient, query: string, atMs: number, label: string) {
  const { status, body } = await postToAws(client, 'monitoring', 'Query', {
    path: '/api/v1/query',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ query, time: String(atMs / 1000) }).toString(),
  });
  const { data, ...reply } = (jsonIn(body) ?? {}) as Reply;
  if (reply.status !== 'success') {
    const name = reply.__type?.split('#').at(-1) ?? reply.errorType ?? 'StrangeReply';
    throw awsError(name, `monitoring query: ${status}`);
  }
  const values = (data?.result ?? []).map(({ metric, value }) => [metric?.[label] ?? '', Number(value?.[1])] as const);
  return new Map(values.filter(([, value]) => Number.isFinite(value)));
}
