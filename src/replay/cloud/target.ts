/** The target that the input of a cloud replay names. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import type { ReplayInput } from '../../contract/replay.ts';
import type { ReplayEnvironment } from '../../settings/environment.ts';
import { secretHeaders } from '../targets/headers.ts';
import { SageMakerTarget } from '../targets/sagemaker-target.ts';
import { shownUrl, type Target } from '../targets/target.ts';
import { UrlTarget } from '../targets/url-target.ts';

/**
 * Creates the target with the function's own permissions.
 *
 * @throws PermanentError `InvalidTarget`, `InvalidHeader`, `HeadersUnavailable`
 */
export async function cloudTarget(target: ReplayInput['target'], environment: ReplayEnvironment): Promise<Target> {
  if ('url' in target) {
    const { url, headersSecretArn: secret } = target;
    return new UrlTarget(url, secret === undefined ? {} : await secretHeaders(secret));
  }
  return SageMakerTarget.create({
    ...target,
    region: environment.AWS_REGION,
    credentials: defaultProvider(),
    url: environment.AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME ?? environment.AWS_ENDPOINT_URL,
  });
}

/** Describes the target as the command line does, without secrets. */
export const targetFacts = (target: ReplayInput['target']): Record<string, string> =>
  'url' in target ? { kind: 'url', url: shownUrl(target.url) } : { kind: 'sagemaker', ...target };
