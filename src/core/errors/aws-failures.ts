/**
 * Suggests remedies for failures of AWS or of the connection to it: credentials, region, permission, clock, network.
 */
import type { InitializeMiddleware, MiddlewareStack } from '@smithy/types';
import CREDENTIAL_ERRORS from './credential-errors.json' with { type: 'json' };

/** An error of the AWS SDK, or of the network below it. */
export interface SdkError extends Error {
  code?: string;
  hostname?: string;
  address?: string;
  port?: number;
  /** Present in all errors that a client of the SDK throws. */
  $metadata?: { httpStatusCode?: number };
  /** The operation that failed, such as `s3:HeadObject`. See `nameOperations`. */
  operation?: string;
}

interface Kind {
  name: string;
  test(error: SdkError): boolean;
  what: string;
  expected(error: SdkError): string;
}

const NEW_CREDENTIALS =
  'fresh credentials: aws sso login, or new values of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN';

/** IAM's reasons: `User: … is not authorized to perform: states:StartExecution on resource: arn:… because …`. */
const NOT_AUTHORIZED = /not authorized to perform: (\S+?)(?: on resource: (\S+?))?[.,;]?(?:\s|$)/;

/** Operations of S3 whose action has another name. */
const S3_ACTIONS: Record<string, string> = {
  's3:HeadObject': 's3:GetObject',
  's3:HeadBucket': 's3:ListBucket',
  's3:ListObjectsV2': 's3:ListBucket',
};

const isNamed = (...names: string[]) => {
  const all = new Set(names);
  return ({ name }: SdkError): boolean => all.has(name);
};

const NETWORK = /^(?:E(?:NOTFOUND|AI_AGAIN|CONN(?:REFUSED|RESET|ABORTED)|TIMEDOUT|HOSTUNREACH|NETUNREACH|PIPE))$/;
const CERTIFICATE = /CERT|^UNABLE_TO_(?:VERIFY|GET_ISSUER)|^ERR_TLS/;

function reach(): string {
  const { AWS_ENDPOINT_URL: custom, AWS_REGION: region = process.env.AWS_DEFAULT_REGION } = process.env;
  if (custom) return `a service at AWS_ENDPOINT_URL, which is ${custom}`;
  return `the network, and a region that exists${region ? `: AWS_REGION is ${region}` : ''}`;
}

/**
 * The first matching kind counts. The names come from S3, from services that use JSON, and from services that use XML.
 */
const KINDS: readonly Kind[] = [
  {
    name: 'AwsRegionMissing',
    test: ({ message }) => /^Region is missing/.test(message),
    what: 'The AWS region is missing',
    expected: () => 'AWS_REGION, or a profile with a region',
  },
  {
    name: 'AwsCredentialsExpired',
    test: (error) =>
      isNamed('ExpiredToken', 'ExpiredTokenException', 'RequestExpired', 'TokenRefreshRequired')(error) ||
      (isNamed('CredentialsProviderError', 'TokenProviderError')(error) &&
        /expired|aws sso login/i.test(error.message)),
    what: 'The AWS credentials have expired',
    expected: () => NEW_CREDENTIALS,
  },
  {
    name: 'AwsCredentialsMissing',
    test: (error) =>
      isNamed('CredentialsProviderError', 'TokenProviderError')(error) ||
      /^Could not load credentials/.test(error.message),
    what: 'AWS credentials are missing',
    expected: () =>
      process.env.AWS_PROFILE
        ? `a profile that exists and has credentials, or aws sso login; AWS_PROFILE is ${process.env.AWS_PROFILE}`
        : 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or aws sso login. While npm start runs: source .local/env',
  },
  {
    name: 'ClockSkewed',
    test: ({ name, message }) =>
      name === 'RequestTimeTooSkewed' || /^Signature (?:expired|not yet current)/.test(message),
    what: "This machine's clock differs too much from that of AWS",
    expected: () => 'the right time; it is compared in UTC',
  },
  {
    name: 'AwsCredentialsInvalid',
    test: isNamed(...CREDENTIAL_ERRORS),
    what: 'AWS does not accept the credentials',
    expected: () =>
      'credentials that are valid in this account, with AWS_SESSION_TOKEN if they are temporary, and a region that is enabled for it',
  },
  {
    name: 'AccessDenied',
    test: ({ name, message, $metadata }) =>
      /AccessDenied|^Unauthorized(?:Operation|Access)|^NotAuthorized|^Forbidden$/.test(name) ||
      NOT_AUTHORIZED.test(message) ||
      $metadata?.httpStatusCode === 403,
    what: 'AWS denies access',
    expected: ({ message, operation }) => {
      const [, action = operation && (S3_ACTIONS[operation] ?? operation), resource] =
        NOT_AUTHORIZED.exec(message) ?? [];
      return action
        ? `a policy that allows you ${action}${resource ? ` on ${resource}` : ''}`
        : 'a policy that allows it';
    },
  },
  {
    name: 'Throttled',
    test: ({ name }) =>
      /Throttl|^TooManyRequests|^SlowDown$|^RequestLimitExceeded$|^BandwidthLimitExceeded$/.test(name),
    what: 'AWS accepts no more requests for now',
    expected: () => 'fewer requests at a time: try again in a minute',
  },
  {
    name: 'CertificateRefused',
    test: ({ code = '' }) => CERTIFICATE.test(code),
    what: 'The certificate of the service is not trusted',
    expected: () => 'a proxy or service whose authority is in NODE_EXTRA_CA_CERTS',
  },
  {
    name: 'AwsUnreachable',
    test: ({ code = '', name }) => NETWORK.test(code) || name === 'TimeoutError',
    what: 'AWS cannot be reached',
    expected: reach,
  },
];

function gotOf({ name, message, code, hostname, address, port, operation }: SdkError): string {
  const place = hostname ?? (address && (port ? `${address}:${port}` : address));
  // If several addresses refuse, Node names no address.
  const text = message || [code, place].filter(Boolean).join(' ');
  const plain = name === 'Error' || name === 'AggregateError' || text.startsWith(name);
  return `${operation ? `${operation}: ` : ''}${plain ? '' : `${name}: `}${text}`;
}

/** The longest chain of causes that is looked at. */
const MAX_CAUSES = 5;

/**
 * Describes a failure of AWS, or of the connection to it. Returns `undefined` for any other error. An error caused by
 * such a failure counts too: a person can repair the cause.
 */
export function awsFailure(error: unknown, depth = 0): { name: string; message: string } | undefined {
  if (!(error instanceof Error) || depth > MAX_CAUSES) return undefined;
  const failed: SdkError = error;
  // Services of other programs fail with the same network codes, and their errors name the service.
  const isOfAws =
    depth === 0 ||
    '$metadata' in failed ||
    /^(?:Credentials|Token)ProviderError$/.test(failed.name) ||
    failed.message === 'Region is missing';
  const kind = isOfAws ? KINDS.find(({ test }) => test(failed)) : undefined;
  if (kind === undefined) return awsFailure(error.cause, depth + 1);
  return { name: kind.name, message: `${kind.what}; got: ${gotOf(failed)}; expected: ${kind.expected(failed)}` };
}

const nameOperation: InitializeMiddleware<object, object> =
  (next, { clientName = '', commandName = '' }) =>
  async (args) => {
    try {
      return await next(args);
    } catch (error) {
      const operation = `${clientName.replace(/Client$/, '').toLowerCase()}:${commandName.replace(/Command$/, '')}`;
      if (error instanceof Error) Object.assign(error, { operation });
      throw error;
    }
  };

/** Adds the failed operation to a client's errors, because a denied HEAD request has no message. Returns the client. */
export function nameOperations<C>(client: C): C {
  const { middlewareStack } = client as { middlewareStack: MiddlewareStack<object, object> };
  middlewareStack.add(nameOperation, { step: 'initialize', name: 'nameOperations' });
  return client;
}
