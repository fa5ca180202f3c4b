/** `inference-monitor capture`: shows an endpoint's Data Capture, or switches it on or off at the running endpoint. */
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { PermanentError } from '../../src/core/errors/errors.ts';
import * as places from '../capture/place.ts';
import * as switching from '../capture/switch.ts';
import { confirmed } from '../cli/confirm.ts';
import { type Interruption, unlessInterrupted } from '../cli/interruption.ts';
import { argument, command, type FlagsOf, numbers, option, options } from '../cli/options.ts';
import { notice, Page, print, type TextOptions } from '../cli/output.ts';
import { startProgress } from '../cli/progress.ts';
import { openStack, stackOptions } from '../cli/stack.ts';
import { contentTypes } from '../doctor/endpoint.ts';
import { type CaptureConfig, captureLocation, isBelow, tagsOf } from '../operate/aws-calls.ts';
import { destroyClients, environmentClients } from '../operate/aws-clients.ts';
import { commandSettings } from './settings.ts';

const OPTIONS = options(
  argument('<action>', 'what to do').choices(['status', 'on', 'off']),
  argument('<endpoint>', 'name of the endpoint'),
  option('--sampling <percent>', 'with on: the share of the requests to capture (default: 100)', numbers.from(1, 100)),
  option('--dry-run', 'with on and off: print the requests to SageMaker, and make none'),
  option('--force', 'also if CloudFormation made the endpoint, or it has shadow variants'),
  option('--yes', 'do not ask before the update'),
  ...stackOptions(),
);

const HELP = `
status shows the Data Capture of an endpoint as configured and as running, whether the stack reads what it captures, the line of code
with which an application captures streams, and the policy that its role needs.

on and off copy the endpoint's configuration, with the present counts and weights, and update the endpoint to the copy. SageMaker
replaces the fleet; the endpoint serves meanwhile. They wait, read the endpoint again, and fail if it does not capture as asked for.

Examples:
  inference-monitor capture status my-endpoint
  inference-monitor capture on my-endpoint --dry-run
  inference-monitor capture on my-endpoint --sampling 20 --yes
  inference-monitor capture off my-endpoint`;

type Flags = FlagsOf<typeof OPTIONS>;

/** What `--json` prints. */
export type CaptureOutput = ReturnType<typeof statusOf> | Switched;

export default command('capture', OPTIONS, HELP, async (flags) => {
  const { action } = flags;
  if (flags.sampling !== undefined && action !== 'on') {
    const facts = { got: `--sampling with ${action}`, expected: '--sampling with on' };
    throw new PermanentError('OptionsContradict', '--sampling has no effect', facts);
  }
  const clients = environmentClients();
  try {
    const found = await switching.findEndpoint(clients.lambda, flags.endpoint);
    // A stack that is gone leaves an endpoint that captures.
    if (action === 'off') return await change(clients.lambda, found, undefined, flags);
    const { outputs } = await openStack(flags, clients);
    const place = places.watchedPlace(outputs, flags.endpoint, commandSettings().DATA_CAPTURE_KMS_KEY_ARN);
    if (action === 'on') return await change(clients.lambda, found, place, flags);
    const status = statusOf(found, place, outputs.capturePrefix);
    print('capture', status, flags.json, (out) => statusText(status, out));
  } finally {
    destroyClients(clients);
  }
});

// ---------------------------------------------------------------------------------------------------------- status

const isServerless = ({ config }: switching.Found): boolean =>
  switching.variantsOf(config).some(({ ServerlessConfig }) => ServerlessConfig !== undefined);

function statusOf(found: switching.Found, place: places.CapturePlace, watched: string) {
  const { endpoint, config } = found;
  const { DestinationS3Uri: to = endpoint.DataCaptureConfig?.DestinationS3Uri ?? '' } = config.DataCaptureConfig ?? {};
  const goesTo = captureLocation(to, endpoint.EndpointName);
  return {
    endpoint: endpoint.EndpointName,
    status: endpoint.EndpointStatus,
    configuration: endpoint.EndpointConfigName ?? null,
    /** SageMaker captures nothing of a serverless variant. */
    serverless: isServerless(found),
    configured: config.DataCaptureConfig ?? null,
    running: endpoint.DataCaptureConfig ?? null,
    /** Whether the stack reads what SageMaker captures; `null` if it captures to no place. */
    watched: goesTo ? goesTo.bucket === place.bucket && isBelow(goesTo.prefix, watched) : null,
    /** Captures of SageMaker and of the application go below it, to the folder of the endpoint. */
    place: places.placeUri(place),
    client: places.clientLines(place, isServerless(found)),
    policy: places.policyFor(place, endpoint),
  };
}

function statusText({ configured, running, watched, ...found }: ReturnType<typeof statusOf>, out: TextOptions): string {
  const page = new Page(out);
  const about = (share = 0, { DestinationS3Uri: to, KmsKeyId: key }: CaptureConfig) =>
    `${share}% of the requests to ${to}, ${key || 'no'} KMS key`;
  page.add(`${found.endpoint} is ${found.status}, with the configuration ${found.configuration}.`);
  if (found.serverless) page.add('It has a serverless variant, of which SageMaker captures nothing.');
  if (configured === null || configured.EnableCapture === false) page.add('Configured: no Data Capture.');
  else {
    const sides = configured.CaptureOptions?.map(({ CaptureMode }) => CaptureMode).join(' and ');
    const share = configured.InitialSamplingPercentage;
    page.add(`Configured: ${about(share, configured)}, ${sides}, ${contentTypes(configured)}.`);
  }
  if (!running?.EnableCapture) page.add('Running: no Data Capture.');
  else page.add(`Running: ${running.CaptureStatus}, ${about(running.CurrentSamplingPercentage, running)}.`);
  if (watched !== null) page.add(`The stack ${watched ? 'reads' : 'does not read'} what goes there.`);
  page.add(`Captures for the stack go to ${found.place}.`);
  const calls = found.serverless ? 'All calls' : 'Streams';
  page.list(`${calls} of an application in Node`, found.client.node.split('\n'));
  page.list(`${calls} of an application in Python`, found.client.python.split('\n'));
  page.list("The policy of the application's role", JSON.stringify(found.policy, null, 2).split('\n'));
  return page.text();
}

// ------------------------------------------------------------------------------------------------------ on and off

interface Switched {
  endpoint: string;
  /** `planned`: with `--dry-run`. `unchanged`: it was so already. */
  switched: 'on' | 'off' | 'planned' | 'unchanged';
  /** Inputs by operation, with `--dry-run`. */
  requests?: Record<keyof switching.SwitchRequests, Record<string, unknown>>;
  /** Counts and weights that are not as before. */
  differences?: string[];
}

/**
 * @param place `undefined`: off
 * @throws PermanentError `EndpointNotSwitchable`, `NotConfirmed`, `CaptureRefused`, `CaptureNotSwitched`
 */
async function change(
  lambda: LambdaClient,
  found: switching.Found,
  place: places.CapturePlace | undefined,
  { sampling = 100, dryRun, force, yes, json, action }: Flags,
): Promise<void> {
  const { endpoint } = found;
  const { EndpointName: name, EndpointStatus: status, FailureReason: reason = 'no reason given' } = endpoint;
  const say = (output: Omit<Switched, 'endpoint'>, text: string) =>
    print('capture', { endpoint: name, ...output }, json, () => `${text}\n`);
  if (place && isServerless(found)) {
    const line = places.clientLines(place, true).node.split('\n')[1];
    throw switching.notSwitchable(
      'SageMaker captures nothing of serverless variants',
      name,
      `in the application: ${line}`,
    );
  }
  if (status !== 'InService') {
    const expected = 'InService: wait until its update is over; an endpoint that failed needs another one';
    throw switching.notSwitchable('The endpoint cannot be updated now', `${status} (${reason})`, expected);
  }
  const wanted = place && places.captureConfig(place, sampling);
  if (switching.isAsWanted(found, wanted)) return say({ switched: 'unchanged' }, `Capture is ${action} already.`);
  await refuseOwned(lambda, found, places.templateLines(wanted), force);
  const requests = await switching.switchRequests(lambda, found, wanted);
  notice(`SageMaker replaces the fleet: ${switching.fleetOf(found)}. Until the new one serves, you pay for both.`);
  if (place) await explainCapture(lambda, found, place);
  if (dryRun) return say({ switched: 'planned', requests }, JSON.stringify(requests, null, 2));
  if (!(await confirmed(`Switch Data Capture of ${name} ${action}?`, yes))) {
    throw new PermanentError('NotConfirmed', 'Nothing was changed', { got: 'no', expected: 'y' });
  }
  const back = [`To see it: inference-monitor capture status ${name}`, `The way back: ${switching.wayBack(endpoint)}`];
  const progress = startProgress(process.stderr);
  const update = async (interruption: Interruption) => {
    // A refusal is an error also if Ctrl-C came before it.
    interruption.started = true;
    await switching.startUpdate(lambda, requests);
    interruption.started = false;
    for (const line of back) notice(line);
    progress.show(`SageMaker updates ${name} to ${requests.UpdateEndpoint.EndpointConfigName}…`);
    return switching.updated(lambda, endpoint, requests, interruption.signal);
  };
  const stopped = ['Stopped waiting. The update continues.', ...back];
  const differences = await unlessInterrupted(update, () => stopped).finally(() => progress.end());
  if (differences === undefined) return;
  say({ switched: place ? 'on' : 'off', differences }, [`Data Capture is ${action}.`, ...differences].join('\n'));
}

/** @throws PermanentError `EndpointNotSwitchable` if others manage the endpoint, unless forced */
async function refuseOwned(
  lambda: LambdaClient,
  { endpoint, config }: switching.Found,
  lines: string[],
  force = false,
) {
  const shadow = (config.ShadowProductionVariants ?? []).map(({ VariantName }) => VariantName).join(', ');
  if (shadow && !force) {
    throw switching.notSwitchable(
      'It has shadow variants',
      shadow,
      'the end of their test, or --force to copy them too',
    );
  }
  const tags = await tagsOf(lambda, endpoint.EndpointArn);
  const stack = tags.find(({ Key }) => Key === 'aws:cloudformation:stack-name')?.Value;
  if (stack === undefined) return;
  for (const line of [`The CloudFormation stack ${stack} made the endpoint. Its template:`, ...lines]) notice(line);
  if (force) return;
  const expected = 'its deployment with the lines above, or --force, which that may undo';
  throw switching.notSwitchable('CloudFormation made the endpoint', stack, expected);
}

async function explainCapture(lambda: LambdaClient, { endpoint, config }: switching.Found, place: places.CapturePlace) {
  const roles = (await switching.rolesOf(lambda, config)).join(', ') || 'The role of the inference components';
  const needed = JSON.stringify(places.policyFor(place, endpoint).Statement);
  notice(`Captures go to ${places.placeUri(place)}. ${roles} writes them, and needs: ${needed}`);
  notice(
    'Not captured: replies of InvokeEndpointWithResponseStream (capture status has the line for the application), requests while the disk of an instance is more than 75% full, and latencies.',
  );
}
