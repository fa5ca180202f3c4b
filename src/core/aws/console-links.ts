/**
 * Addresses of the AWS console’s pages, by partition and region. Addresses of MLflow’s pages: src/mlflow/trace-url.ts.
 */

/** Hosts of the console by the beginning of the region, most specific first. */
const CONSOLES: readonly [region: string, domain: string][] = [
  ['cn-', 'console.amazonaws.cn'],
  ['us-gov-', 'console.amazonaws-us-gov.com'],
  ['', 'console.aws.amazon.com'],
];

/** Pages of the AWS console in a region. */
export type ConsoleLinks = NonNullable<ReturnType<typeof consoleLinks>>;

/** @returns `undefined` where there is no console: with an emulator at `AWS_ENDPOINT_URL` */
export function consoleLinks(region: string, env: NodeJS.ProcessEnv = process.env) {
  if (env.AWS_ENDPOINT_URL) return undefined;
  const [, domain] = CONSOLES.find(([start]) => region.startsWith(start)) ?? CONSOLES[2] ?? [];
  const page = (path: string, query: Record<string, string> = {}): string =>
    `https://${region}.${domain}/${path}?${new URLSearchParams({ region, ...query })}`;
  return {
    execution: (arn: string) => `${page('states/home')}#/v2/executions/details/${arn}`,
    logGroup: (name: string) => `${page('cloudwatch/home')}#logsV2:log-groups/log-group/${twice(name)}`,
    dashboard: (name: string) => `${page('cloudwatch/home')}#dashboards/dashboard/${encodeURIComponent(name)}`,
    /** A page of an object, or of a prefix that ends with `/`. */
    s3: (bucket: string, key: string) =>
      page(`s3/${key.endsWith('/') ? 'buckets' : 'object'}/${bucket}`, { prefix: key }),
  };
}

/** CloudWatch’s page decodes the part of its address after `#` twice, and takes `$` for `%`. */
const twice = (text: string): string => encodeURIComponent(encodeURIComponent(text)).replaceAll('%', '$');
