/** Creates the target from the options of the command line. */
import { PermanentError } from '../../src/core/errors/errors.ts';
import { readText } from '../../src/core/errors/read-text.ts';
import type { Target } from '../../src/replay/request/target.ts';
import { CHATS, parseHeaders, secretHeaders, urlTarget } from '../../src/replay/targets/url-target.ts';
import type { TargetFlags } from './replay-options.ts';

/**
 * @param mark the registration of the replay
 * @throws PermanentError `InvalidTarget`, `InvalidHeader`
 */
export async function targetOf(flags: TargetFlags, mark: { id?: string }): Promise<Target> {
  if ((flags.url === undefined) === (flags.endpoint === undefined)) {
    const got = flags.url === undefined ? 'neither' : 'both --url and --endpoint';
    const facts = { got, expected: '--url or --endpoint' };
    throw new PermanentError('InvalidTarget', 'A replay needs exactly one target', facts);
  }
  if (flags.url !== undefined) return urlTarget(urlOf(flags.url, flags.endpointType), await headersOf(flags));
  const { sageMakerTarget } = await import('../../src/replay/targets/sagemaker-target.ts');
  const { SageMakerRuntimeClient } = await import('@aws-sdk/client-sagemaker-runtime');
  const { config } = new SageMakerRuntimeClient(flags.region ? { region: flags.region } : {});
  return sageMakerTarget({
    endpoint: flags.endpoint ?? '',
    mark,
    region: await config.region(),
    credentials: config.credentials,
    variant: flags.variant,
    inferenceComponent: flags.inferenceComponent,
    url: process.env.AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME ?? process.env.AWS_ENDPOINT_URL,
  });
}

/** The URL as AIPerf understands it: without a scheme it is http. */
function urlOf(given: string, type: TargetFlags['endpointType']): string {
  const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(given) ? given : `http://${given}`;
  if (type === undefined || !URL.canParse(url)) return url;
  const parsed = new URL(url);
  if (parsed.pathname === '/') parsed.pathname = CHATS;
  return parsed.href;
}

/** Merges the headers of the file, the secret and the command line. A later header replaces an earlier one of the same name. */
async function headersOf(flags: TargetFlags): Promise<Record<string, string>> {
  const headers = new Map<string, [name: string, value: string]>();
  const add = (more: Record<string, string>): void => {
    // Header names are case-insensitive.
    for (const [name, value] of Object.entries(more)) headers.set(name.toLowerCase(), [name, value]);
  };
  const { headersFile: file } = flags;
  if (file !== undefined) add(parseHeaders(readText(file, 'The headers file'), file));
  if (flags.headersSecret !== undefined) add(await secretHeaders(flags.headersSecret));
  add(parseHeaders(flags.header.join('\n'), '--header'));
  return Object.fromEntries(headers.values());
}
