/** The target that an execution's input names, reached with what the function has permission for. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import type { ReplayInput } from '../../contract/replay.ts';
import type { ReplayEnvironment } from '../../settings/replay-environment.ts';
import { secretHeaders } from '../targets/headers.ts';
import { SageMakerTarget } from '../targets/sagemaker-target.ts';
import type { Target } from '../targets/target.ts';
import { UrlTarget } from '../targets/url-target.ts';

/** @throws PermanentError `InvalidTarget`, `InvalidHeader`, `HeadersUnavailable` */
export async function cloudTarget(target: ReplayInput['target'], environment: ReplayEnvironment): Promise<Target> {
  if ('url' in target) {
    const { url, headersSecretArn: secret } = target;
    return new UrlTarget(url, secret === undefined ? {} : await secretHeaders(secret));
  }
  const { endpoint, variant, inferenceComponent } = target;
  return SageMakerTarget.create({
    endpoint,
    region: environment.AWS_REGION,
    credentials: defaultProvider(),
    variant,
    inferenceComponent,
    url: environment.AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME ?? environment.AWS_ENDPOINT_URL,
  });
}
