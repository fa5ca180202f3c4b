/** Authenticates requests to MLflow: by user and password, by token, or by signatures (SigV4). */

import { SignatureV4 } from '@smithy/signature-v4';
import type { AwsCredentialIdentityProvider } from '@smithy/types';
import { SHA256 } from '../core/aws/signing.ts';
import { PermanentError } from '../core/errors/errors.ts';
import type { ManagedMlflowTarget } from './tracking-uri.ts';
import type { HttpRequest } from './transport.ts';

type SignableRequest = Pick<HttpRequest, 'method' | 'url' | 'headers' | 'body'>;

export interface RefusedReply {
  status: number;
  text: string;
  errorType: string;
  sent: Record<string, string>;
}

export interface Authorizer {
  /** Returns all headers of the request, including headers for authentication. */
  authorize(request: SignableRequest): Promise<Record<string, string>>;
  /**
   * Called when the server rejected the headers.
   *
   * @param reply.sent the rejected headers; another call may have renewed them since
   * @returns whether the request is worth sending again, with other headers
   */
  renew(reply: RefusedReply): Promise<boolean>;
  /** Explains to a person what to check if access is denied. */
  readonly hint: string;
}

/** The credentials of a plain URL. */
export type MlflowSecret = { username: string; password: string } | { token: string };
export type MlflowSecretSource = MlflowSecret | (() => Promise<MlflowSecret>);

export const anonymous: Authorizer = {
  authorize: async ({ headers }) => headers,
  renew: async () => false,
  hint: 'the server asks for credentials: set MLFLOW_SECRET_ARN',
};

/** Authenticates by user and password, or by token. A loaded secret is loaded again when the server rejects it (rotation). */
export function secretAuthorizer(source: MlflowSecretSource): Authorizer {
  let header: Promise<string> | undefined;
  const load = async () => {
    const secret = typeof source === 'function' ? await source() : source;
    if ('token' in secret) return `Bearer ${secret.token}`;
    return `Basic ${Buffer.from(`${secret.username}:${secret.password}`).toString('base64')}`;
  };
  const current = (): Promise<string> => {
    header ??= load().catch((error) => {
      header = undefined;
      throw error;
    });
    return header;
  };
  return {
    authorize: async ({ headers }) => ({ ...headers, authorization: await current() }),
    renew: async ({ status, sent }) => {
      if (status !== 401 || typeof source !== 'function') return false;
      // Of several requests in flight, the first rejected request loads the secret for all.
      if ((await current()) === sent.authorization) header = undefined;
      return (await current()) !== sent.authorization;
    },
    hint: 'check the user and password, or the token, in the secret MLFLOW_SECRET_ARN',
  };
}

// ----------------------------------------------------------------------------------------------------------- SigV4
// For SageMaker-managed MLflow, in the same way as AWS's Python client.

const EXPIRED = /ExpiredToken|RequestExpired|token\b.{0,80}\bexpired|Signature expired/i;

/** Whether a reply reports that the credentials or the signature have expired. */
export const saysExpired = (reply: { text: string; errorType: string }): boolean =>
  EXPIRED.test(reply.errorType) || EXPIRED.test(reply.text);

/**
 * Signs requests to SageMaker-managed MLflow in the same way as AWS's Python client: with the service name and the ARN
 * header of the target's kind. `X-Amz-Content-SHA256` is signed. `Connection` is not, because it is added later. Spaces
 * in queries are encoded as `%20`.
 *
 * @param now the clock, for tests with known signatures
 */
export function sigV4Authorizer(
  target: ManagedMlflowTarget,
  credentials: AwsCredentialIdentityProvider,
  now: () => Date = () => new Date(),
): Authorizer {
  let forceRefresh = false;
  const provider: AwsCredentialIdentityProvider = async (options) => {
    try {
      const given = await credentials(forceRefresh ? { ...options, forceRefresh: true } : options);
      forceRefresh = false;
      return given;
    } catch (error) {
      throw new PermanentError(
        'MlflowCredentialsMissing',
        'No AWS credentials were found to sign the request',
        { expected: 'credentials of a role or user with access to SageMaker MLflow', where: target.arn },
        error,
      );
    }
  };
  const signer = new SignatureV4({
    credentials: provider,
    region: target.region,
    service: 'sagemaker',
    sha256: SHA256,
    applyChecksum: true,
  });
  return {
    authorize: async ({ method, url, headers, body }) => {
      const signed = await signer.sign(
        {
          method,
          protocol: url.protocol,
          hostname: url.hostname,
          path: url.pathname,
          query: Object.fromEntries(url.searchParams),
          headers: { ...headers, host: url.host, 'x-sm-mlflow-app-arn': target.arn },
          body,
        },
        { signingDate: now() },
      );
      return signed.headers;
    },
    renew: async (reply) => {
      if (!saysExpired(reply)) return false;
      forceRefresh = true;
      return true;
    },
    hint: `the role needs sagemaker:CallMlflowAppApi on ${target.arn}`,
  };
}
