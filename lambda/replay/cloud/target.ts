/** The target that an execution's input names, reached with what the function has permission for. */
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import * as z from 'zod';
import { PermanentError, saidBy } from '../../common/errors.ts';
import type { ReplayInput } from '../../replay-contract.ts';
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

const headersSchema = z.record(z.string(), z.string());

async function secretHeaders(secretArn: string): Promise<Record<string, string>> {
  const client = new SecretsManagerClient({});
  let text: string | undefined;
  try {
    text = (await client.send(new GetSecretValueCommand({ SecretId: secretArn }))).SecretString;
  } catch (error) {
    const facts = { got: saidBy(error), where: secretArn };
    throw new PermanentError('HeadersUnavailable', 'The secret with the headers could not be read', facts, error);
  } finally {
    client.destroy();
  }
  return parseSecretHeaders(text ?? '', secretArn);
}

/** @throws PermanentError `InvalidHeader`; what the secret holds is not shown */
export function parseSecretHeaders(text: string, where: string): Record<string, string> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const parsed = headersSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const expected = 'a JSON object of header names and values, all of them texts';
  throw new PermanentError('InvalidHeader', 'The secret does not hold headers', { expected, where });
}
