/** Checks the endpoint whose captures are processed: whether it serves, what it captures, and the destination. */

import type { Endpoint } from '../../src/core/aws/endpoint.ts';
import { nearest } from '../../src/core/errors/nearest.ts';
import {
  type CaptureConfig,
  captureLocation,
  describeEndpoint,
  describeEndpointConfig,
  describeKey,
  listEndpoints,
  shadowVariantsOf,
} from '../operate/aws-calls.ts';
import { broken, type CheckContext, type Found, ok, under, warning } from './finding.ts';

const BROKEN = new Set(['OutOfService', 'Failed', 'Deleting', 'UpdateRollbackFailed']);

const enable = (name: string): string => `inference-monitor capture on ${name}, once the stack is deployed`;

/** The finding about an endpoint that a setting names, and the endpoint if it exists. */
export async function checkServing({ lambda, region }: CheckContext, name: string, setting: string) {
  const endpoint = await describeEndpoint(lambda, name);
  if (endpoint === undefined) {
    const known = (await listEndpoints(lambda).catch(() => [])).map(({ EndpointName }) => EndpointName);
    const near = nearest(name, known);
    const repair =
      near === undefined ? `correct ${setting}, or the region` : `did you mean ${near}? Correct ${setting}`;
    return { found: broken(`There is no endpoint ${name} in ${region}.`, repair) };
  }
  const { EndpointStatus: status, FailureReason: reason } = endpoint;
  const message = `The endpoint ${name} is ${status}${reason ? ` (${reason})` : ''}.`;
  if (status === 'InService') return { endpoint, found: ok(message) };
  if (BROKEN.has(status)) return { endpoint, found: broken(message, 'update or recreate it') };
  return { endpoint, found: warning(message, 'wait until it is InService') };
}

export async function checkEndpoint(context: CheckContext, name: string): Promise<Found> {
  const { ENDPOINT_VARIANTS: counted = [] } = context.settings;
  const { endpoint, found } = await checkServing(context, name, 'SAGEMAKER_ENDPOINT_NAME');
  if (endpoint === undefined) return found;
  const variants = (endpoint.ProductionVariants ?? []).map(({ VariantName }) => VariantName);
  const missed = variants.filter((variant) => !counted.includes(variant));
  const uncounted = `The endpoint has the variants ${variants.join(', ')}, and ENDPOINT_VARIANTS is ${counted.join(', ')}: the alarm about missing captures does not count the others.`;
  return [
    found,
    missed.length > 0 && warning(uncounted, `set ENDPOINT_VARIANTS=${variants.join(',')}`),
    await checkShadow(context, endpoint),
    under('capture', await checkCapture(context, endpoint)),
  ];
}

/** Compares the shadow variants in the settings with the endpoint's current shadow variants. */
async function checkShadow({ lambda, settings }: CheckContext, endpoint: Endpoint): Promise<Found> {
  const { SHADOW_VARIANTS: named = [] } = settings;
  const there = await shadowVariantsOf(lambda, endpoint);
  const unnamed = there.filter((variant) => !named.includes(variant));
  const ended = named.filter((variant) => !there.includes(variant));
  const set = `set SHADOW_VARIANTS=${there.join(',')}, and deploy`;
  const counted = `The endpoint has the shadow variants ${there.join(', ')}, and SHADOW_VARIANTS does not name ${unnamed.join(', ')}: replies that no user sees count in the endpoint's rates, objectives and alarms.`;
  const left = `SHADOW_VARIANTS names ${ended.join(', ')}, no shadow variant of the endpoint now: its replies are left out of the endpoint's rates, objectives and alarms.`;
  const keep = `${set}; if it no longer serves, keep the name while you look at its captures`;
  return [unnamed.length > 0 && warning(counted, set), ended.length > 0 && warning(left, keep)];
}

/** Checks DataCaptureConfig. Its options are in the endpoint's configuration alone. */
async function checkCapture(context: CheckContext, endpoint: Endpoint): Promise<Found> {
  const { EndpointName: name, DataCaptureConfig: summary } = endpoint;
  if (!summary?.EnableCapture) {
    return broken(`Data Capture is off: the endpoint ${name} captures nothing.`, enable(name));
  }
  const { CaptureStatus: status, CurrentSamplingPercentage: share, DestinationS3Uri: to } = summary;
  if (status === 'Stopped') {
    return broken(`Data Capture of the endpoint ${name} is stopped.`, `start it again: ${enable(name)}`);
  }
  const { DataCaptureConfig: config } = await describeEndpointConfig(context.lambda, endpoint);
  const faults = [
    share > 0 ? undefined : broken('Data Capture samples 0% of the requests.', 'raise its sampling percentage'),
    sideFault(config),
    placeFault(context, to, name),
    await keyFault(context, summary.KmsKeyId),
  ];
  if (faults.some(Boolean)) return faults;
  return ok(`${share}% of the requests are captured to ${to}, ${contentTypes(config)}.`);
}

function sideFault(config: CaptureConfig | undefined): Found {
  const modes = (config?.CaptureOptions ?? []).map(({ CaptureMode }) => CaptureMode);
  const has = (side: 'Input' | 'Output'): boolean => modes.includes(side) || modes.includes('InputAndOutput');
  if (modes.length === 0 || (has('Input') && has('Output'))) return undefined;
  const [only, lost] = has('Input')
    ? ['requests', 'no reply can be judged, and replays have nothing to compare with']
    : ['replies', 'the judge does not see what was asked, and nothing can be replayed'];
  return warning(`Only ${only} are captured: ${lost}.`, 'capture Input and Output');
}

function placeFault({ settings, capturePrefix = '' }: CheckContext, to: string, name: string): Found {
  const place = captureLocation(to, name);
  const bucket = settings.DATA_CAPTURE_S3_BUCKET;
  if (place === undefined || bucket === undefined) return undefined;
  // A setting that is longer selects a variant, a shorter one several endpoints.
  const fits = place.prefix.startsWith(capturePrefix) || capturePrefix.startsWith(place.prefix);
  if (place.bucket === bucket && fits) return undefined;
  const message = `The captures go to s3://${place.bucket}/${place.prefix}, and the settings say s3://${bucket}/${capturePrefix}: no capture would be processed.`;
  const prefix = place.prefix === `${name}/` ? '' : ` and DATA_CAPTURE_S3_PREFIX=${place.prefix}`;
  return broken(message, `set DATA_CAPTURE_S3_BUCKET=${place.bucket}${prefix}`);
}

async function keyFault({ lambda, settings }: CheckContext, key: string | undefined): Promise<Found> {
  if (!key) return undefined;
  const own = settings.DATA_CAPTURE_KMS_KEY_ARN;
  const idOf = (arn: string): string => arn.split('/').at(-1) ?? '';
  // The value may be the id or the ARN of a key or of an alias.
  const { Arn: arn = key } = key.includes('alias/') ? await describeKey(lambda, key) : {};
  if (own !== undefined && idOf(own) === idOf(arn)) return undefined;
  const message = `The captures are encrypted with the KMS key ${arn}, and DATA_CAPTURE_KMS_KEY_ARN is ${own ?? 'not set'}: the functions could not read them.`;
  return broken(message, "set DATA_CAPTURE_KMS_KEY_ARN to that key's ARN");
}

function contentTypes(config: CaptureConfig | undefined): string {
  const { JsonContentTypes = [], CsvContentTypes = [] } = config?.CaptureContentTypeHeader ?? {};
  const asText = [...JsonContentTypes, ...CsvContentTypes];
  const which = asText.length === 0 ? 'all bodies' : `${asText.join(', ')} as text, other bodies`;
  return `${which} as base64, which the stack decodes`;
}
