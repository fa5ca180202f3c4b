/** Permission to send a replay's requests, only to the targets that the settings name. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { Settings } from '../../src/core/settings/schema.ts';
import { allow } from './allow.ts';
import { grantSecret } from './key.ts';

/** Streaming is a separate action: with only the first, a replay fails as soon as it streams. */
const INVOKE = ['sagemaker:InvokeEndpoint', 'sagemaker:InvokeEndpointWithResponseStream'];

/** Grants the endpoints, their inference components, and the secret with the headers for a URL. */
export function grantReplayTargets(role: Role, settings: Settings): void {
  const { partition, region, account } = Stack.of(role);
  const sageMaker = `arn:${partition}:sagemaker:${region}:${account}`;
  // IAM spells endpoints in lower case.
  const endpoints = settings.REPLAY_ENDPOINT_NAMES.map((name) => `${sageMaker}:endpoint/${name.toLowerCase()}`);
  if (endpoints.length > 0) allow(role, { actions: INVOKE, resources: endpoints });
  // IAM's spelling of components is not documented, so both are allowed: unchanged and in lower case.
  const components = settings.REPLAY_INFERENCE_COMPONENT_NAMES.flatMap((name) => [name, name.toLowerCase()]).map(
    (name) => `${sageMaker}:inference-component/${name}`,
  );
  if (components.length > 0) allow(role, { actions: INVOKE, resources: [...new Set(components)] });
  grantSecret(role, settings.REPLAY_HEADERS_SECRET_ARN, settings);
}
