/** The target that an execution's input names, reached with what the function has permission for. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import type { ReplayInput } from '../../replay-contract.ts';
import { secretHeaders } from '../target/headers.ts';
import { SageMakerTarget } from '../target/sagemaker-target.ts';
import type { Target } from '../target/target.ts';
import { UrlTarget } from '../target/url-target.ts';
import type { ReplayEnvironment } from './environment.ts';

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
