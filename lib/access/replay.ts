/** Permission to send a replay's requests: to the endpoints that the settings name, and to nothing else. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { Settings } from '../../src/settings/schema.ts';
import { allow } from './allow.ts';

/** The streaming operation is an action of its own: with the first alone a replay fails as soon as it streams. */
const INVOKE = ['sagemaker:InvokeEndpoint', 'sagemaker:InvokeEndpointWithResponseStream'];

/** The endpoints, the inference components behind them, and the secret with the headers of a URL. */
export function grantReplayTargets(role: Role, settings: Settings): void {
  const { partition, region, account } = Stack.of(role);
  const sageMaker = `arn:${partition}:sagemaker:${region}:${account}`;
  // As IAM spells endpoints, whatever their own case.
  const endpoints = settings.REPLAY_ENDPOINT_NAMES.map((name) => `${sageMaker}:endpoint/${name.toLowerCase()}`);
  if (endpoints.length > 0) allow(role, { actions: INVOKE, resources: endpoints });
  // How IAM spells components is not documented: as they are, and as endpoints.
  const components = settings.REPLAY_INFERENCE_COMPONENT_NAMES.flatMap((name) => [name, name.toLowerCase()]).map(
    (name) => `${sageMaker}:inference-component/${name}`,
  );
  if (components.length > 0) allow(role, { actions: INVOKE, resources: [...new Set(components)] });
  const { REPLAY_HEADERS_SECRET_ARN: secret } = settings;
  if (secret !== undefined) allow(role, { actions: ['secretsmanager:GetSecretValue'], resources: [secret] });
}
