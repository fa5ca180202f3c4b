/** Posts a signed request to an AWS service for which the project has no client, as a client of another service would. */
import { addAbortSignal, type Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LambdaClient } from '@aws-sdk/client-lambda';
import type { S3Client } from '@aws-sdk/client-s3';
import type { SFNClient } from '@aws-sdk/client-sfn';
import { type RetryPolicy, waitAfter } from '../process/retry.ts';
import { singleLine } from '../text/terminal-text.ts';
import { awsUrl } from './aws-url.ts';
import { signPost } from './signing.ts';

/** A client, for its region, credentials and endpoint. */
export type AwsClient = Pick<LambdaClient | SFNClient | S3Client, 'config'>;

interface Post {
  /** Default: `/`. */
  path?: string;
  headers: Record<string, string>;
  body: string;
}

/** Names of operations that only read, so that repeating them is safe. */
const READS = /^(?:Describe|Get|List|Query)/;

type Reply = Awaited<ReturnType<typeof postOnce>>;

/** Time limit of a request, because a person waits, even if the network swallows all packets. */
const LIMIT_MS = 30_000;

/** Eight seconds on average: `doctor` reads some 30 pages of quotas at once, in an account that others use too. */
const RETRIES: RetryPolicy = { attempts: 6, baseMs: 500, capMs: 8_000, longestRetryAfterMs: 0 };

const THROTTLE_NAMES =
  /(?:Throttling|ThrottlingException|ThrottledException|RequestThrottled|TooManyRequestsException|RequestLimitExceeded)["<]/;

/**
 * Whether the service refused the request without processing it. The name of a throttling error is at the end of a JSON
 * string or an XML element.
 */
const isThrottled = ({ status, body }: Reply): boolean =>
  status === 429 || (status >= 400 && THROTTLE_NAMES.test(body));

/** The service, or a proxy on the way, may be well in a moment. */
const FAILED = [500, 502, 503, 504];

/**
 * Posts the request, and repeats it while the service throttles it, up to a limit. Requests that only read are also
 * repeated after a failure of the service.
 *
 * @throws Error as `postOnce`
 */
export async function postToAws(
  client: AwsClient,
  service: string,
  operation: string,
  post: Post,
  limitMs = LIMIT_MS,
): Promise<Reply> {
  for (let attempt = 1; ; attempt += 1) {
    const wait = waitAfter(RETRIES, attempt);
    const reply = await postOnce(client, service, post, limitMs);
    const isPassing = isThrottled(reply) || (READS.test(operation) && FAILED.includes(reply.status));
    if (wait === undefined || !isPassing) return reply;
    await sleep(wait);
  }
}

/**
 * Posts with the region, the credentials and the endpoint of a client of another service.
 *
 * @param service the first part of the service's host name
 * @throws Error `TimeoutError` if there is no whole reply in time
 */
async function postOnce({ config }: AwsClient, service: string, { path = '/', headers, body }: Post, limitMs: number) {
  const region = await config.region();
  const { AWS_ENDPOINT_URL } = process.env;
  const custom = config.isCustomEndpoint ? await config.endpoint?.() : undefined;
  const own = custom && `${custom.protocol}//${custom.hostname}${custom.port ? `:${custom.port}` : ''}`;
  const url = new URL(path, own ?? (AWS_ENDPOINT_URL || awsUrl(service, region)));
  const signing = { credentials: config.credentials, region, service: service.replace('api.', '') };
  const signed = await signPost(signing, url, headers, body);
  const abortSignal = AbortSignal.timeout(limitMs);
  try {
    const request = signed as Parameters<typeof config.requestHandler.handle>[0];
    const { response } = await config.requestHandler.handle(request, { abortSignal });
    return { status: response.statusCode, body: await text(addAbortSignal(abortSignal, response.body as Readable)) };
  } catch (error) {
    if (!abortSignal.aborted) throw error;
    throw awsError('TimeoutError', `${url.hostname} did not answer within ${limitMs / 1_000} s`);
  }
}

/** The start of a reply that an error quotes. */
const QUOTED_CHARS = 60;

/** The error for a reply that is not in the form of the service, such as the page of a proxy. */
export const strangeReply = (asked: string, status: number, body: string): Error =>
  awsError(
    'StrangeReply',
    `${asked}: the reply is not one of AWS; got: ${status} ${singleLine(body.slice(0, QUOTED_CHARS))}; expected: no proxy or sign-in page on the way`,
  );

/** An error under the name that AWS gives it. */
export const awsError = (name: string, message: string): Error => Object.assign(new Error(message), { name });
