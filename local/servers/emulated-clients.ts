/** The AWS clients of an emulated AWS. */
import { Agent } from 'node:https';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { type AwsClients, environmentClients } from '../../bin/operate/aws-clients.ts';
import type { MiniStack } from './ministack.ts';

/**
 * Creates clients of the emulated AWS. Their configuration is complete, so they do not use the caller's shell or
 * profile.
 */
export function emulatedClients(aws: Pick<MiniStack, 'url' | 'region' | 'ca' | 'env'>): AwsClients {
  return environmentClients({
    endpoint: aws.url,
    region: aws.region,
    credentials: {
      accessKeyId: aws.env.AWS_ACCESS_KEY_ID ?? '',
      secretAccessKey: aws.env.AWS_SECRET_ACCESS_KEY ?? '',
    },
    // If the shell switches these on, the SDK refuses every custom endpoint.
    useFipsEndpoint: false,
    useDualstackEndpoint: false,
    requestHandler: new NodeHttpHandler(aws.ca ? { httpsAgent: new Agent({ ca: aws.ca }) } : {}),
  });
}
