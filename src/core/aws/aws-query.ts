/** Calls AWS services that answer in XML, and for which the project has no client: the caller's identity, networks, topics. */
import { type AwsClient, awsError, postToAws, strangeReply } from './aws-post.ts';

/** Versions as in botocore's models. */
const VERSIONS = { sts: '2011-06-15', ec2: '2016-11-15', sns: '2010-03-31' } as const;

/** The texts of all elements of a name. Ids, ARNs and messages of AWS have no entities that matter here. */
const elements = (xml: string, name: string): string[] =>
  xml
    .split(`<${name}>`)
    .slice(1)
    .map((rest) => rest.slice(0, rest.indexOf('</')));

/**
 * Calls an operation with the region, the credentials and the endpoint of a client of another service.
 *
 * @returns a reader of the reply: the texts of all elements of a name
 * @throws Error with the service's error code as its name
 */
export async function queryAws(
  client: AwsClient,
  service: keyof typeof VERSIONS,
  operation: string,
  input: Record<string, string> = {},
): Promise<(element: string) => string[]> {
  const { status, body } = await postToAws(client, service, operation, {
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ Action: operation, Version: VERSIONS[service], ...input }).toString(),
  });
  if (status < 300 && !body.includes(`<${operation}Response`))
    throw strangeReply(`${service} ${operation}`, status, body);
  if (status < 300) return (name) => elements(body, name);
  const message = `${service} ${operation}: ${status} ${elements(body, 'Message')[0] ?? ''}`;
  throw awsError(elements(body, 'Code')[0] ?? `Http${status}`, message);
}
