/** `inference-monitor capture`: shows an endpoint's Data Capture, or switches it on or off at the running endpoint. */
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { type Page, section } from '../../src/core/text/page.ts';
import * as switching from '../capture/switch.ts';
import { confirmed } from '../cli/confirm.ts';
import { argument, command, type FlagsOf, numbers, option, options } from '../cli/options.ts';
import { notice, print } from '../cli/output.ts';
import { openStack, stackOptions, stackSettings } from '../cli/stack.ts';
import { tagsOf } from '../operate/aws-calls.ts';
import { environmentClients } from '../operate/aws-clients.ts';

const OPTIONS = options(
  argument('<action>', 'what to do').choices(['status', 'on', 'off']),
  argument('<endpoint>', 'name of the endpoint'),
  option('--sampling <percent>', 'with on: the share of the requests to capture (default: 100)', numbers.from(1, 100)),
  option('--dry-run', 'with on and off: print the requests to SageMaker, and make none'),
  option('--force', 'also if CloudFormation made the endpoint, or it has shadow variants'),
  option('--yes', 'do not ask before the update'),
  ...stackOptions(),
);

type Flags = FlagsOf<typeof OPTIONS>;
type Inputs = Record<string, unknown>;

/** `on` and `off` describe the update. */
export type Output = ReturnType<typeof statusOf> | Awaited<ReturnType<typeof change>>;

export default command('capture', OPTIONS, async (flags) => {
  const { action, endpoint, sampling } = flags;
  if (sampling !== undefined && action !== 'on')
    throw new PermanentError('OptionsContradict', '--sampling has no effect', { got: action, expected: 'on' });
  const clients = environmentClients();
  const found = await switching.findEndpoint(clients.lambda, endpoint);
  // A stack that is gone leaves an endpoint that captures.
  const stack = action === 'off' ? undefined : await openStack(flags, clients);
  const { DATA_CAPTURE_KMS_KEY_ARN: key } = stack ? await stackSettings(stack) : {};
  const on = stack && switching.watchedCapture(stack.outputs, endpoint, key, sampling);
  const made = on && action === 'status' ? statusOf(found, on) : await change(clients.lambda, found, flags, on);
  print<Output>(made, flags.json, pageOf(made));
});

const statusOf = (found: switching.Found, watched: switching.WatchedCapture) => ({
  endpoint: found.endpoint.EndpointName,
  status: found.endpoint.EndpointStatus,
  configuration: found.endpoint.EndpointConfigName ?? null,
  /** Captures of SageMaker and of the application go below it, to the folder of the endpoint. */
  place: watched.DestinationS3Uri,
  /** SageMaker captures nothing for a serverless variant. */
  serverless: switching.isServerless(found),
  // Lines of code for the application, by language.
  ...switching.clientLines(watched, switching.isServerless(found)),
  configured: (found.config.DataCaptureConfig ?? null) as Inputs | null,
  running: found.endpoint.DataCaptureConfig ?? null,
  /** Policy for the application's role. */
  policy: switching.policyFor(watched, found.endpoint),
});

/** Returns each fact below its name, or next to it. */
const pageOf = (output: Output): Page =>
  Object.entries(output).map(([name, value]) =>
    typeof value !== 'object' || value === null
      ? `${name}: ${value ?? 'none'}`
      : section(name, ...JSON.stringify(value, null, 2).split('\n')),
  );

/**
 * @param wanted `undefined`: off
 * @throws PermanentError `EndpointNotSwitchable`, `NotConfirmed`, `CaptureRefused`, `CaptureNotSwitched`
 */
async function change(lambda: LambdaClient, found: switching.Found, flags: Flags, wanted?: switching.WatchedCapture) {
  const { EndpointName: endpoint, EndpointArn } = found.endpoint;
  if (switching.isAsWanted(found, wanted)) return { endpoint, switched: 'unchanged' };
  const stack = (await tagsOf(lambda, EndpointArn)).find(({ Key }) => Key === 'aws:cloudformation:stack-name')?.Value;
  switching.refuseSwitch(found, stack, wanted, flags.force);
  const requests = switching.switchRequests(found, await tagsOf(lambda, found.config.EndpointConfigArn), wanted);
  const fleet = switching.fleetOf(requests.CreateEndpointConfig);
  notice(`SageMaker replaces the fleet: ${fleet}. Until the new one serves, you pay for both.`);
  if (wanted) {
    const roles = (await switching.rolesOf(lambda, found.config)).join(', ') || 'The role of the inference components';
    const needed = JSON.stringify(switching.policyFor(wanted, found.endpoint).Statement);
    notice(`Captures go to ${wanted.DestinationS3Uri}. ${roles} writes them, and needs: ${needed}`);
    notice('Not captured: latencies, replies of streams, and what comes while an instance has a disk over 75% full.');
  }
  if (flags.dryRun) return { endpoint, switched: 'planned', requests: requests as Record<string, Inputs> };
  if (!(await confirmed(`Switch Data Capture of ${endpoint} ${flags.action}?`, flags.yes)))
    throw new PermanentError('NotConfirmed', 'Nothing was changed', { got: 'no', expected: 'y' });
  notice(`Updating to ${requests.UpdateEndpoint.EndpointConfigName} takes minutes. Ctrl-C ends only the wait.`);
  notice(`The way back: ${switching.wayBack(found.endpoint)}`);
  await switching.startUpdate(lambda, requests);
  const differences = await switching.updated(lambda, found.endpoint, requests);
  return { endpoint, switched: flags.action, /** Of counts and weights. */ differences };
}
