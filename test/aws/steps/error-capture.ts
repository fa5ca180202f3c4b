/** How SageMaker captures the reply of a container that refuses a request. Data Capture records no status. */
import { InvokeEndpointCommand, SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
import type { Canary } from '../canary.ts';
import { newestLines } from '../captures.ts';

/** Data Capture writes a file every few minutes. */
const CAPTURE_LIMIT_MS = 600_000;

interface Line {
  captureData: { endpointOutput?: { observedContentType?: string | null } };
}

/** Sends the endpoint a body that no container reads, and looks for the content type in the capture of its error. */
export async function checkErrorCapture(canary: Canary): Promise<void> {
  const { endpoint, prefix } = canary.state;
  if (canary.cannotSee('error-without-type')) return;
  if (!endpoint) return canary.skip('error-without-type', 'a container of SageMaker is needed: --endpoint');
  const client = new SageMakerRuntimeClient({});
  const InferenceId = `${prefix}-error-${Date.now()}`;
  const request = { EndpointName: endpoint, ContentType: 'application/x-canary', Body: 'canary', InferenceId };
  const answer: { OriginalStatusCode?: number } = await client
    .send(new InvokeEndpointCommand(request))
    .then(() => ({}))
    .catch((error: object) => error);
  client.destroy();
  const { OriginalStatusCode: status } = answer;
  if (status === undefined) return canary.skip('error-without-type', 'the container did not answer with an error');
  const find = async () => {
    for await (const line of newestLines(canary, endpoint)) if (line.includes(InferenceId)) return line;
    return undefined;
  };
  const line = await canary.until('the capture of the error', CAPTURE_LIMIT_MS, find).catch(() => undefined);
  if (line === undefined) return canary.skip('error-without-type', `the answer ${status} was not captured`);
  const type = (JSON.parse(line) as Line).captureData.endpointOutput?.observedContentType ?? '';
  canary.note('error-without-type', type === '', `${status}, captured with the content type “${type}”`);
}
