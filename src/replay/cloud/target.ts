/** Creates the target that the input of a cloud replay names, if the settings allow it. */
import { BlockList, isIPv6 } from 'node:net';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import type { ReplayInput } from '../../core/contract/replay.ts';
import { PermanentError, type PermanentErrorName } from '../../core/errors/errors.ts';
import type { ReplayEnvironment } from '../../core/settings/environment.ts';
import { shownUrl, type Target } from '../request/target.ts';
import { sageMakerTarget } from '../targets/sagemaker-target.ts';
import { secretHeaders, urlTarget } from '../targets/url-target.ts';

/**
 * Creates the target with the function's own permissions.
 *
 * @param mark the registration of the replay
 * @throws PermanentError `InvalidTarget`, `InvalidHeader`, `HeadersUnavailable`, and the errors of `assertAllowed`
 */
export async function cloudTarget(
  target: ReplayInput['target'],
  environment: ReplayEnvironment,
  mark?: string,
): Promise<Target> {
  assertAllowed(target, environment);
  if ('url' in target) {
    const { url, headersSecretArn: secret } = target;
    const refuses = isEmulated(environment) ? undefined : isOwnAddress;
    return urlTarget(url, secret === undefined ? {} : await secretHeaders(secret), refuses);
  }
  return sageMakerTarget({
    ...target,
    mark: { id: mark },
    region: environment.AWS_REGION,
    credentials: defaultProvider(),
    url: environment.AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME ?? environment.AWS_ENDPOINT_URL,
  });
}

/** Describes the target as the command line does, without secrets. */
export const targetFacts = (target: ReplayInput['target']): Record<string, string> =>
  'url' in target ? { kind: 'url', url: shownUrl(target.url) } : { kind: 'sagemaker', ...target };

/** Whether AWS is emulated on this machine, where the targets are too. */
function isEmulated({ AWS_ENDPOINT_URL: aws }: ReplayEnvironment): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(URL.parse(aws ?? '')?.hostname ?? '');
}

/**
 * Checks that the settings name the target: permission to start a replay does not include permission to send the captures anywhere.
 *
 * @throws PermanentError `EndpointNotAllowed`, `InferenceComponentNotAllowed`, `UrlNotAllowed`, `SecretNotAllowed`
 */
export function assertAllowed(target: ReplayInput['target'], environment: ReplayEnvironment): void {
  type Door = keyof ReplayEnvironment & `REPLAY_${string}`;
  const check = (name: PermanentErrorName, what: string, got: string | undefined, where: Door): void => {
    const allowed = [environment[where] ?? []].flat();
    if (got === undefined || allowed.includes(got)) return;
    const expected = allowed.length > 0 ? allowed.join(', ') : `one that the setting ${where} names; it is empty`;
    throw new PermanentError(name, `This stack's replays may not ${what}`, { got, expected, where });
  };
  if ('endpoint' in target) {
    const { endpoint, inferenceComponent: component } = target;
    check('EndpointNotAllowed', 'invoke that endpoint', endpoint, 'REPLAY_ENDPOINT_NAMES');
    const what = 'invoke that inference component';
    check('InferenceComponentNotAllowed', what, component, 'REPLAY_INFERENCE_COMPONENT_NAMES');
  } else {
    check('UrlNotAllowed', 'send to that URL', new URL(target.url).origin, 'REPLAY_URLS');
    check('SecretNotAllowed', 'read that secret', target.headersSecretArn, 'REPLAY_HEADERS_SECRET_ARN');
  }
}

/** Unspecified (connects to loopback), loopback, link-local: Lambda's runtime API and the credentials of instances are there. */
const OWN_V4 = ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16'];
/** Prefixes of 96 bits before an IPv4 address: compatible, NAT64, translated. The mapped form is checked by `BlockList` itself. */
const BEFORE_V4 = ['::', '64:ff9b::', '::ffff:0:'];

const own = new BlockList();
for (const block of OWN_V4) {
  const [address = '', length] = block.split('/');
  const bits = Number(length);
  own.addSubnet(address, bits, 'ipv4');
  for (const prefix of BEFORE_V4) own.addSubnet(`${prefix}${address}`, 96 + bits, 'ipv6');
  const hex = Buffer.from(address.split('.').map(Number)).toString('hex');
  // 6to4.
  own.addSubnet(`2002:${hex.slice(0, 4)}:${hex.slice(4)}::`, 16 + bits, 'ipv6');
}
own.addSubnet('fe80::', 10, 'ipv6');
// A network's own NAT64 prefix, which may hold the IPv4 address in several places, and the link-local services of AWS.
own.addSubnet('64:ff9b:1::', 48, 'ipv6');
own.addSubnet('fd00:ec2::', 32, 'ipv6');

/**
 * Whether an IP address belongs to the machine or its link (loopback, link-local, unspecified), in every form that a
 * socket accepts, including IPv6 addresses that contain an IPv4 address.
 */
export const isOwnAddress = (address: string): boolean => own.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
