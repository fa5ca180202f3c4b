/** `inference-monitor replay`: sends captured requests to another endpoint and measures the replies. */
import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { command, refuseUseless } from '../cli/options.ts';
import { describeEndpoint } from '../operate/aws-calls.ts';
import { environmentClients } from '../operate/aws-clients.ts';
import { type DryRunOutput, performReplay } from './perform-replay.ts';
import { AIPERF_OPTIONS, REPLAY_OPTIONS, type ReplayFlags } from './replay-options.ts';
import type { ReplayOutput } from './replay-text.ts';

/** With `--dry-run` the requests that it would send. */
export type Output = ReplayOutput | DryRunOutput;

/** @throws PermanentError `InvalidReplayOptions` unless exactly one is given */
function sourceOf({ captures, inputFile }: ReplayFlags): string {
  const source = captures ?? inputFile;
  if (source !== undefined && (captures === undefined || inputFile === undefined)) return source;
  const facts = { got: source === undefined ? 'neither' : 'both', expected: 'the argument, or --input-file' };
  throw new PermanentError('InvalidReplayOptions', 'A replay needs the captures once', facts);
}

/** Options, each with the options that it requires. SageMaker forwards no headers. */
const NEEDS = {
  experiment: ['mlflow'],
  trackingUri: ['mlflow'],
  judgeModel: ['judge'],
  endpointType: ['url'],
  header: ['url'],
  headersFile: ['url'],
  headersSecret: ['url'],
  variant: ['endpoint'],
  inferenceComponent: ['endpoint'],
} as const;

/**
 * Checks that the endpoint has the variant, because SageMaker refuses each request to another one. If the endpoint
 * cannot be described, the requests will show it.
 */
async function checkVariant({ endpoint, variant, region }: ReplayFlags): Promise<void> {
  if (endpoint === undefined || variant === undefined) return;
  const { lambda } = environmentClients(region ? { region } : {});
  const found = await describeEndpoint(lambda, endpoint).catch(() => undefined);
  const known = found?.ProductionVariants?.map(({ VariantName }) => VariantName);
  if (known) checkNames('variant', [variant], known);
}

export default command('replay', [...REPLAY_OPTIONS, ...AIPERF_OPTIONS], async (flags) => {
  refuseUseless(flags, NEEDS);
  if (flags.fixedSchedule && (flags.concurrency ?? flags.requestRate) !== undefined) {
    const expected = '--fixed-schedule alone, or with --max-concurrency';
    throw new PermanentError('InvalidReplayOptions', 'There are two kinds of timing', { got: 'both', expected });
  }
  await checkVariant(flags);
  await performReplay(sourceOf(flags), flags);
});
