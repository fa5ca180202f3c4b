/** The target that the command line names. */
import { readFile } from 'node:fs/promises';
import { parseHeaders, secretHeaders } from '../../src/replay/targets/headers.ts';
import type { Target } from '../../src/replay/targets/target.ts';
import { PermanentError } from '../../src/shared/errors.ts';

export interface TargetFlags {
  url?: string;
  endpoint?: string;
  variant?: string;
  inferenceComponent?: string;
  region?: string;
  header: string[];
  headersFile?: string;
  headersSecret?: string;
}

/** @throws PermanentError `InvalidTarget`, `InvalidHeader` */
export async function targetOf(flags: TargetFlags): Promise<Target> {
  if ((flags.url === undefined) === (flags.endpoint === undefined)) {
    const got = flags.url === undefined ? 'none' : 'both --url and --endpoint';
    throw new PermanentError('InvalidTarget', 'A replay has one target', { got, expected: '--url or --endpoint' });
  }
  refuseUseless(flags);
  if (flags.url !== undefined) {
    const { UrlTarget } = await import('../../src/replay/targets/url-target.ts');
    return new UrlTarget(flags.url, await headersOf(flags));
  }
  const { SageMakerTarget } = await import('../../src/replay/targets/sagemaker-target.ts');
  const { defaultProvider } = await import('@aws-sdk/credential-provider-node');
  const region = flags.region ?? process.env.AWS_REGION ?? process.env.AWS_DEFAULT_REGION;
  if (region === undefined) {
    const expected = '--region, or AWS_REGION';
    throw new PermanentError('InvalidTarget', 'The endpoint’s region is not known', { got: flags.endpoint, expected });
  }
  return SageMakerTarget.create({
    endpoint: flags.endpoint ?? '',
    region,
    credentials: defaultProvider(),
    variant: flags.variant,
    inferenceComponent: flags.inferenceComponent,
    url: process.env.AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME ?? process.env.AWS_ENDPOINT_URL,
  });
}

/** An option that the target has no use for is a mistake, and would be missed. */
function refuseUseless(flags: TargetFlags): void {
  const { header, headersFile, headersSecret, variant, inferenceComponent } = flags;
  const useless: [string, boolean][] =
    flags.url === undefined
      ? [
          ['--header', header.length > 0],
          ['--headers-file', headersFile !== undefined],
          ['--headers-secret', headersSecret !== undefined],
        ]
      : [
          ['--variant', variant !== undefined],
          ['--inference-component', inferenceComponent !== undefined],
        ];
  const found = useless.filter(([, given]) => given).map(([name]) => name);
  if (found.length === 0) return;
  const message =
    flags.url === undefined
      ? 'SageMaker passes no headers on to the endpoint'
      : 'Variants and inference components are those of a SageMaker endpoint';
  const expected = flags.url === undefined ? '--url' : '--endpoint';
  throw new PermanentError('InvalidTarget', message, {
    got: found.join(', '),
    expected: `${expected}, or none of them`,
  });
}

/** Headers of the file, then of the secret, then of the command line; a later one of the same name wins. */
async function headersOf(flags: TargetFlags): Promise<Record<string, string>> {
  const headers = new Map<string, [name: string, value: string]>();
  const add = (more: Record<string, string>): void => {
    // Names are the same whatever their case.
    for (const [name, value] of Object.entries(more)) headers.set(name.toLowerCase(), [name, value]);
  };
  if (flags.headersFile !== undefined) {
    add(parseHeaders(await readHeadersFile(flags.headersFile), flags.headersFile));
  }
  if (flags.headersSecret !== undefined) add(await secretHeaders(flags.headersSecret));
  add(parseHeaders(flags.header.join('\n'), '--header'));
  return Object.fromEntries(headers.values());
}

async function readHeadersFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const facts = { got: (error as Error).message, expected: 'a file with headers (--headers-file)' };
    throw new PermanentError('InvalidHeader', 'The headers cannot be read', facts, error);
  }
}
