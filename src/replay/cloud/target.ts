/** The target that the input of a cloud replay names. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import type { ReplayInput } from '../../core/contract/replay.ts';
import { PermanentError, type PermanentErrorName } from '../../core/errors/errors.ts';
import type { ReplayEnvironment } from '../../core/settings/environment.ts';
import { secretHeaders } from '../targets/headers.ts';
import { isOwnAddress } from '../targets/own-address.ts';
import { SageMakerTarget } from '../targets/sagemaker-target.ts';
import { shownUrl, type Target } from '../targets/target.ts';
import { UrlTarget } from '../targets/url-target.ts';

/**
 * Creates the target with the function's own permissions.
 *
 * @param mark the registration of the replay
 * @throws PermanentError `InvalidTarget`, `InvalidHeader`, `HeadersUnavailable`, and those of `assertAllowed`
 */
export async function cloudTarget(
  target: ReplayInput['target'],
  environment: ReplayEnvironment,
  mark?: string,
): Promise<Target> {
  assertAllowed(target, environment);
  if ('url' in target) {
    const { url, headersSecretArn: secret } = target;
    const refuses = isEmulated(environment) ? undefined : isOwnAddress;
    return new UrlTarget(url, secret === undefined ? {} : await secretHeaders(secret), refuses);
  }
  return SageMakerTarget.create({
    ...target,
    mark: { id: mark },
    region: environment.AWS_REGION,
    credentials: defaultProvider(),
    url: environment.AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME ?? environment.AWS_ENDPOINT_URL,
  });
}

/** Describes the target as the command line does, without secrets. */
export const targetFacts = (target: ReplayInput['target']): Record<string, string> =>
  'url' in target ? { kind: 'url', url: shownUrl(target.url) } : { kind: 'sagemaker', ...target };

/** Whether AWS itself is on this machine, where targets are too. */
function isEmulated({ AWS_ENDPOINT_URL: aws }: ReplayEnvironment): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(URL.parse(aws ?? '')?.hostname ?? '');
}

/**
 * Checks that the settings name the target: who may start a replay may not thereby send the captures anywhere.
 *
 * @throws PermanentError `EndpointNotAllowed`, `InferenceComponentNotAllowed`, `UrlNotAllowed`, `SecretNotAllowed`
 */
export function assertAllowed(target: ReplayInput['target'], environment: ReplayEnvironment): void {
  type Name = PermanentErrorName;
  const refuse = (name: Name, what: string, got: string, setting: string, allowed: readonly string[]): never => {
    throw new PermanentError(name, `This stack's replays may not ${what}`, {
      got,
      expected: allowed.length > 0 ? allowed.join(', ') : `one that the setting ${setting} names; it is empty`,
      where: setting,
    });
  };
  if ('endpoint' in target) {
    const { endpoint, inferenceComponent } = target;
    const { REPLAY_ENDPOINT_NAMES: endpoints, REPLAY_INFERENCE_COMPONENT_NAMES: components } = environment;
    if (!endpoints.includes(endpoint)) {
      refuse('EndpointNotAllowed', 'invoke that endpoint', endpoint, 'REPLAY_ENDPOINT_NAMES', endpoints);
    }
    if (inferenceComponent !== undefined && !components.includes(inferenceComponent)) {
      const setting = 'REPLAY_INFERENCE_COMPONENT_NAMES';
      const what = 'invoke that inference component';
      refuse('InferenceComponentNotAllowed', what, inferenceComponent, setting, components);
    }
    return;
  }
  const { REPLAY_URLS: urls, REPLAY_HEADERS_SECRET_ARN: secret } = environment;
  const { origin } = new URL(target.url);
  if (!urls.includes(origin)) refuse('UrlNotAllowed', 'send to that URL', origin, 'REPLAY_URLS', urls);
  if (target.headersSecretArn !== undefined && target.headersSecretArn !== secret) {
    const allowed = secret === undefined ? [] : [secret];
    refuse('SecretNotAllowed', 'read that secret', target.headersSecretArn, 'REPLAY_HEADERS_SECRET_ARN', allowed);
  }
}
