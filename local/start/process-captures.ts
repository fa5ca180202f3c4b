/**
 * The captures of `npm start`: says what they may cost before anything starts, processes them and the labels of a deployed stack, and
 * prints what the commands print about them.
 */

import { createReadStream, existsSync } from 'node:fs';
import { join } from 'node:path';
import { healthBy, reportOf } from '../../bin/cli/follow-and-report.ts';
import { runDisplay } from '../../bin/cli/follow-display.ts';
import { print } from '../../bin/cli/output.ts';
import { commandText, nextSteps, runsPage } from '../../bin/cli/run-text.ts';
import type { DeployedStack } from '../../bin/cli/stack.ts';
import { printTruth, startJoin } from '../../bin/commands/ground-truth.ts';
import { worstPage } from '../../bin/commands/worst.ts';
import type { CaptureFile } from '../../bin/operate/capture-files.ts';
import { startNamed } from '../../bin/operate/executions.ts';
import { labelFilesIn } from '../../bin/operate/place-labels.ts';
import { followRuns, runWatcher } from '../../bin/operate/run-progress.ts';
import type { RunReport } from '../../bin/operate/run-report.ts';
import { readTruthReport, truthWatcher } from '../../bin/operate/truth-run.ts';
import { readWorst, type WorstTrace } from '../../bin/operate/worst.ts';
import { functionEnvironment } from '../../lib/settings/function-environment.ts';
import { LABELS_FOLDER } from '../../src/captures/files/capture-path.ts';
import { scanChunks } from '../../src/captures/lines/chunks.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { section } from '../../src/core/text/page.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { estimateFromSizes } from '../../src/judge/pricing/estimate.ts';
import { createMlflowClient } from '../../src/mlflow/client.ts';
import { tracesUrl } from '../../src/mlflow/trace-url.ts';
import { CHUNK_BOUNDS } from '../../src/monitoring/chunk/chunk-bounds.ts';

// -------------------------------------------------------------------------------------------------------- forecast

/** Counts the lines of the files that are not blank, in the same way as a run's planning. */
export async function measureFiles(files: readonly Pick<CaptureFile, 'path' | 'bytes'>[]) {
  const sizes = { files: files.length, lines: 0, bytes: 0 };
  for (const { path, bytes } of files) {
    for await (const chunk of scanChunks(createReadStream(path), CHUNK_BOUNDS)) sizes.lines += chunk.lines;
    sizes.bytes += bytes;
  }
  return sizes;
}

/** Returns the lines to print. @param isReal whether the real judge is used, which costs money */
export function forecastLines(sizes: Awaited<ReturnType<typeof measureFiles>>, settings: Settings, isReal: boolean) {
  const lines = [`captures: ${many(sizes.files, 'file')}, ${many(sizes.lines, 'line')}, ${whole(sizes.bytes)} bytes`];
  if (!isReal || sizes.lines === 0) return lines;
  const environment = readEnvironment(functionEnvironment(settings, 'work', 'budget'));
  const { judgeCalls, usd, model } = estimateFromSizes(
    environment,
    activeScorers(environment),
    { judge: 'converse', sampleRate: environment.EVALUATION_SAMPLE_RATE },
    { captures: sizes.lines, bytes: sizes.bytes },
  );
  const { EVALUATION_BUDGET_USD: budget } = environment;
  const most = budget === 0 ? 'with no limit' : `and no more than ${budget} dollars`;
  lines.push(
    `--bedrock costs money: about ${many(judgeCalls, 'call')} of ${model}, an estimated ${usd === null ? 'unknown number of' : usd.toFixed(2)} dollars from the sizes of the lines, ${most} (EVALUATION_BUDGET_USD). Ctrl-C stops it`,
  );
  return lines;
}

// ------------------------------------------------------------------------------------------------------ processing

interface Asked {
  settings: Settings;
  mlflowUrl: string;
  /** Whether the servers stop when this is printed, so that no address and no command is of use. */
  exit: boolean;
  signal: AbortSignal;
}

/**
 * Runs one execution over all captures of an endpoint, which are in the bucket, and prints its result.
 *
 * @returns `hasFailed`
 */
export async function processCaptures(stack: DeployedStack, asked: Asked): Promise<boolean> {
  const { clients, outputs, work, flag, about } = stack;
  const { exit, mlflowUrl, signal } = asked;
  const input = { bucket: outputs.captureBucket, prefix: `${outputs.endpoint}/` };
  const run = await startNamed(clients.sfn, outputs.stateMachineArn, input);
  await followRuns([runWatcher(clients.sfn, work, run)], runDisplay(), signal);
  const report = await reportOf(stack, run.arn);
  const { experimentId = '' } = report;
  const links = { traces: tracesUrl(mlflowUrl, experimentId) ?? '' };
  const page = { report, next: exit ? [] : nextSteps(report, flag), links: exit ? {} : links };
  const worst = experimentId && (await worstPart(experimentId, stack.flag, asked));
  print({}, false, [...runsPage([page], await healthBy(stack, [report])), worst], about);
  return hasFailed(report);
}

/** Whether a run failed, or captures were there and none of them was traced. */
export function hasFailed({ status, summary }: Pick<RunReport, 'status' | 'summary'>): boolean {
  const { planned = 0, traced = 0 } = summary?.lines ?? {};
  return status !== 'succeeded' || (planned > 0 && traced === 0);
}

/** Traces at the end of the result. */
const WORST_SHOWN = 5;

/** The traces with the worst verdicts, without traces of shadow variants. */
async function worstPart(experimentId: string, stack: string | undefined, { settings, mlflowUrl, exit }: Asked) {
  const mlflow = createMlflowClient({ trackingUri: mlflowUrl });
  const scorers = activeScorers(settings);
  const query = { experimentId, scorers, shadow: settings.SHADOW_VARIANTS, limit: WORST_SHOWN, server: mlflowUrl };
  const { worst } = await readWorst(mlflow.rest, query);
  const linkOf = ({ url, traceId }: WorstTrace): string => (exit ? traceId : (url ?? traceId));
  const [first = ''] = worst.map(({ time }) => time.slice(0, '2026-11-20'.length)).sort();
  const more = exit ? '' : ` (more: ${commandText(['worst', '--from', first], stack)})`;
  return section(`Worst verdicts${more}`, ...worstPage(worst, linkOf));
}

/**
 * Returns the folder `labels` of the captures, if there are label files in it.
 *
 * @throws Error if the captures belong to several endpoints
 */
export async function findLabels(captures: string, endpoints: readonly { endpoint: string }[]) {
  const folder = join(captures, LABELS_FOLDER);
  const files = existsSync(folder) ? await labelFilesIn(folder) : [];
  if (files.length === 0) return undefined;
  if (endpoints.length === 1) return folder;
  const names = endpoints.map(({ endpoint }) => endpoint).join(', ');
  throw new Error(
    `Labels are of one endpoint; got: ${folder}, and captures of ${names}; expected: the folder of one endpoint, or one name for all with --endpoint`,
  );
}

/** Joins the labels of a folder to the predictions, and prints how good these were. @throws PermanentError `LabelsMissing` */
export async function joinLabels(stack: DeployedStack, folder: string, signal: AbortSignal): Promise<void> {
  const { clients, work } = stack;
  const run = await startJoin(stack, folder);
  await followRuns([truthWatcher(clients.sfn, work, run)], () => {}, signal);
  const report = await readTruthReport(clients.sfn, work, run.arn);
  await printTruth(stack, report, { by: 'variant' }, {});
}
