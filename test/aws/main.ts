/** `npm run canary`: proves in an AWS account what no emulator can, and leaves nothing behind. */

import { existsSync } from 'node:fs';
import { startProgress } from '../../bin/cli/progress.ts';
import { INTERRUPTED, stopOnSignals } from '../../bin/cli/stop-signals.ts';
import { environmentClients } from '../../bin/operate/aws-clients.ts';
import { describeError } from '../../local/machine/describe-error.ts';
import { removeFolder } from '../../local/machine/own-folder.ts';
import { useDotenvRegion } from '../../src/core/settings/dotenv-file.ts';
import type { StepName } from './assertions.ts';
import { Canary } from './canary.ts';
import { canaryForecast } from './forecast.ts';
import { CANARY_HELP, type CanaryOptions, canarySettings, parseCanaryOptions } from './options.ts';
import { countsOf, tableLines, writeCanaryReport } from './report.ts';
import { canaryFolder, checkedSettings, forecastTemplate } from './stack.ts';
import { type CanaryState, loadState, removeState, statePath } from './state.ts';
import { batchStep } from './steps/batch.ts';
import { deployStep } from './steps/deploy.ts';
import { destroyStep } from './steps/destroy.ts';
import { judgeStep } from './steps/judge.ts';
import { observeStep } from './steps/observe.ts';
import { redeployStep } from './steps/redeploy.ts';
import { refusalsStep } from './steps/refusals.ts';
import { replayStep, stopStep } from './steps/replay.ts';
import { servicesStep } from './steps/services.ts';

interface Step {
  name: StepName;
  run(canary: Canary): Promise<void>;
  /** If it fails, the other steps are skipped. */
  needed?: true;
}

/** Steps of a stage run at the same time. A deployment is apart: the emulator ends the processes of a function that changes. */
const STAGES: readonly (readonly Step[])[] = [
  [{ name: 'deploy', run: deployStep, needed: true }],
  [{ name: 'judge', run: judgeStep, needed: true }],
  [
    { name: 'refusals', run: refusalsStep },
    { name: 'services', run: servicesStep },
    { name: 'replay', run: replayStep },
    { name: 'stop', run: stopStep },
  ],
  [{ name: 'redeploy', run: redeployStep }],
  [{ name: 'observe', run: observeStep }],
  [{ name: 'batch', run: batchStep }],
];
/** Whatever has failed. */
const LAST: Step = { name: 'destroy', run: destroyStep };

/** Regions whose CloudFormation has no AWS::Lambda::Url: GovCloud and China. */
const WITHOUT_FUNCTION_URLS = /^(us-gov|cn)-/;

/** Runs a step unless it is done. A step that throws fails its assertions. @returns whether it ended without an error */
async function runStep(canary: Canary, { name, run }: Step): Promise<boolean> {
  const { state, progress, signal } = canary;
  if (state.done.includes(name)) return true;
  progress.show(`${name} …`);
  try {
    await run(canary);
  } catch (error) {
    // What was interrupted is done again when the canary is resumed.
    if (signal.aborted) throw error;
    canary.rest(name, { outcome: 'failed', detail: (error as Error).message.split('\n')[0] ?? '' });
    return false;
  }
  state.done.push(name);
  canary.save();
  return true;
}

async function runStages(canary: Canary): Promise<void> {
  for (const stage of STAGES) {
    const ended = await Promise.all(stage.map((step) => runStep(canary, step)));
    const failed = stage.find(({ needed }, index) => needed && !ended[index]);
    if (failed === undefined) continue;
    const detail = `the step "${failed.name}" failed`;
    for (const { name } of STAGES.flat()) canary.rest(name, { outcome: 'skipped', detail });
    return;
  }
}

/** Makes the state of a new canary, or reads that of one that was left. */
async function openState(options: CanaryOptions): Promise<CanaryState> {
  if (options.resume || options.clean) return loadState(options.prefix);
  if (existsSync(statePath(options.prefix))) {
    throw new Error(
      `This canary was begun before; got: ${statePath(options.prefix)}; expected: --resume or --clean, or another --prefix`,
    );
  }
  const settings = canarySettings(options);
  if (!settings.MLFLOW_TRACKING_URI) {
    throw new Error(
      'The MLflow is missing; got: nothing; expected: --mlflow, or MLFLOW_TRACKING_URI in the environment or .env',
    );
  }
  if (settings.MLFLOW_TRACKING_URI.startsWith('arn:') && !settings.MLFLOW_ARTIFACT_BUCKET) {
    throw new Error(
      'The artifact bucket is missing, where a managed MLflow stores spans; got: nothing; expected: --artifact-bucket, or MLFLOW_ARTIFACT_BUCKET in the environment or .env',
    );
  }
  const region = await environmentClients().lambda.config.region();
  const { prefix, endpoint, url, batch } = options;
  if (!endpoint && !url && WITHOUT_FUNCTION_URLS.test(region)) {
    throw new Error(
      `Lambda has no function URLs here; got: region ${region}; expected: --url or --endpoint, as the target of replays`,
    );
  }
  const startedAt = new Date().toISOString();
  const state: CanaryState = {
    ...{ prefix, region, startedAt, settings, endpoint, url, batch },
    ...{ done: [], findings: {}, facts: {} },
  };
  checkedSettings(state);
  return state;
}

async function fly(options: CanaryOptions, signal: AbortSignal): Promise<number> {
  const state = await openState(options);
  const { prefix } = state;
  const progress = startProgress(process.stderr);
  if (!options.resume && !options.clean) {
    const lines = canaryForecast(state, await forecastTemplate(state));
    console.log(`npm run canary -- --prefix ${prefix} will cost, in ${state.region}:`);
    for (const line of lines) console.log(`  ${line}`);
    if (!options.yes) {
      removeFolder(canaryFolder(prefix));
      console.log('Nothing has been made. Add --yes to begin.');
      return 0;
    }
  }
  // A canary that is resumed stays where it began.
  process.env.AWS_REGION = state.region;
  const canary = new Canary(state, progress, signal);
  // Without credentials there is nothing to begin, and nothing to leave.
  await canary.clients.lambda.config.credentials();
  canary.save();
  try {
    if (!options.clean) await runStages(canary);
    await runStep(canary, LAST);
  } catch (error) {
    if (!signal.aborted) throw error;
    progress.close(
      `The canary was left, and its resources are still there. Continue: npm run canary -- --resume --prefix ${prefix}\nDelete them: npm run canary -- --clean --prefix ${prefix}`,
    );
    return INTERRUPTED;
  } finally {
    progress.end();
  }
  for (const line of tableLines(state)) console.log(line);
  const { seen, failed, skipped } = countsOf(state);
  console.log(`\n${seen} seen, ${failed} failed, ${skipped} skipped. Report: ${writeCanaryReport(state)}`);
  const isGone = state.findings['nothing-left']?.outcome === 'seen';
  if (isGone) {
    removeState(prefix);
    removeFolder(canaryFolder(prefix));
  } else console.log(`Something is left. Delete it: npm run canary -- --clean --prefix ${prefix}`);
  return failed === 0 && isGone ? 0 : 1;
}

const stopping = stopOnSignals();
try {
  useDotenvRegion();
  const options = parseCanaryOptions(process.argv.slice(2));
  if (options.help) console.log(CANARY_HELP);
  else process.exitCode = await fly(options, stopping.signal);
} catch (error) {
  console.error(describeError(error));
  process.exitCode = 1;
}
stopping.dispose();
