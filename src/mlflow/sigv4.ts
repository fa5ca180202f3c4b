/** Signs requests to SageMaker-managed MLflow with SigV4, in the same way as AWS's Python client. */
import { SignatureV4 } from '@smithy/signature-v4';
import type { AwsCredentialIdentityProvider } from '@smithy/types';
import { PermanentError } from '../core/errors/errors.ts';
import { NodeSha256 } from '../core/values/sha256.ts';
import type { Authorizer } from './auth.ts';
import type { ManagedMlflowTarget } from './tracking-uri.ts';

const EXPIRED = /ExpiredToken|RequestExpired|token\b.{0,80}\bexpired|Signature expired/i;

/** Whether a reply reports that the credentials or the signature have expired. */
export const saysExpired = (reply: { text: string; errorType: string }): boolean =>
  EXPIRED.test(reply.errorType) || EXPIRED.test(reply.text);

/**
 * Signs with the service name and the ARN header of the target's kind. `X-Amz-Content-SHA256` is signed. `Connection` is
 * not, because it is added later. Spaces in queries are `%20`.
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
    service: target.signingService,
    sha256: NodeSha256,
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
          headers: { ...headers, host: url.host, [target.arnHeader]: target.arn },
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
    hint:
      target.kind === 'mlflow-app'
        ? `the role needs sagemaker:CallMlflowAppApi on ${target.arn}`
        : `the role needs sagemaker-mlflow:* actions on ${target.arn}`,
  };
}
