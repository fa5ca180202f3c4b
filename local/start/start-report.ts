/** The output of `npm start`: the plan before anything starts, and the report when the executions have ended. */

import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { quarantinePage, summaryPage, verdictTable } from '../../bin/cli/summary-page.ts';
import { labelFilesPage } from '../../bin/commands/ground-truth.ts';
import { worstPage } from '../../bin/commands/worst.ts';
import type { CaptureFile } from '../../bin/operate/capture-files.ts';
import type { Run } from '../../bin/operate/process-files.ts';
import type { ReasonWithLines } from '../../bin/operate/run-summaries.ts';
import type { WorstTrace } from '../../bin/operate/worst.ts';
import { functionEnvironment } from '../../lib/settings/function-environment.ts';
import { scanChunks } from '../../src/captures/lines/chunks.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { VERDICT_TERMS } from '../../src/core/contract/receipts.ts';
import { isClone } from '../../src/core/process/package-folder.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { block, exact, firstOf, type Page, type Part, section } from '../../src/core/text/page.ts';
import { sum } from '../../src/core/values/sum.ts';
import { truthPage } from '../../src/ground-truth/measure/figures-page.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { estimateFromSizes } from '../../src/judge/pricing/estimate.ts';
import type { Scorer } from '../../src/judge/types.ts';
import { tracesUrl } from '../../src/mlflow/trace-url.ts';
import { CHUNK_BOUNDS } from '../../src/monitoring/chunk/chunk-bounds.ts';
import { healthOfRuns } from '../../src/monitoring/run-health.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { DeployedEndpoint, LocalEnvironment } from './environment.ts';
import type { LabelsReport } from './labels.ts';
import { asShown, type StartOptions } from './start-options.ts';

export interface Report {
  environment: LocalEnvironment;
  deployed: readonly (DeployedEndpoint & { summaries: readonly RunSummary[] })[];
  runs: readonly Run[];
  summaries: ReadonlyMap<string, RunSummary>;
  /** The scorers of the settings. */
  active: readonly Scorer[];
  /** Their replies count only where variants are compared. */
  SHADOW_VARIANTS: readonly string[];
  /** The judge's model, if it was the real one. */
  realJudge?: string;
  experiments: readonly { name: string; id: string }[];
  seconds: number;
  quarantine: readonly ReasonWithLines[];
  /** The traces with the worst verdicts. */
  worst: readonly WorstTrace[];
  /** The outcomes of the labels next to the captures. */
  labels?: LabelsReport | undefined;
  options: Pick<StartOptions, 'exit'> & Partial<Pick<StartOptions, 'keep'>>;
  /** The file with the variables of this environment. */
  envFile: string;
}

/** Returns 1 if a run failed, or if lines were captured but no trace was written; else 0. */
export function exitCode(runs: readonly Run[], summaries: readonly RunSummary[]): number {
  const captured = sum(summaries.map(({ lines }) => lines.planned));
  const traced = sum(summaries.map(({ lines }) => lines.traced));
  return runs.some(({ status }) => status !== 'SUCCEEDED') || (captured > 0 && traced === 0) ? 1 : 0;
}

/** Failed runs shown with their error. The others are counted. */
const MAX_FAILURES_SHOWN = 5;
/** Characters of an error's cause, enough for the message without a stack. */
const MAX_CAUSE_CHARS = 600;

/** The page of the report. */
export function reportPage(report: Report): Page {
  const { deployed, options, labels } = report;
  const isOne = deployed.length === 1;
  const summaries = [...report.summaries.values()];
  return [
    section(
      'Summary',
      ...deployed.map(({ endpoint, prefix, summaries: own }) => {
        const health = healthOfRuns(own, { ...report, stack: isOne ? undefined : prefix });
        return block(...summaryPage(own, health, endpoint));
      }),
      `seconds: ${report.seconds.toFixed(1)}`,
    ),
    failurePart(report),
    quarantinePart(report),
    // Scorers of several endpoints have no figure in common.
    isOne && verdictPart(report, summaries),
    block(notJudgeable(summaries)),
    worstPart(report),
    labels && section('Labels', ...labelFilesPage(labels.files, ({ key }) => basename(key))),
    labels &&
      section(
        'Quality, by variant',
        ...(labels.figures === undefined ? ['No prediction has a label.'] : truthPage(labels.figures, 'variant')),
      ),
    // With --exit the servers have stopped by the time this is read.
    ...(options.exit ? [options.keep && `MLflow's database and artifacts: ${options.keep}`] : addressPage(report)),
  ];
}

/** The shell command for the command line. */
const MONITOR = isClone() ? 'npm run monitor --' : 'npx inference-monitor';

const addressPage = ({ experiments, environment, envFile, deployed }: Report): Page => [
  section('MLflow', ...experiments.map(({ id, name }) => `${tracesUrl(environment.mlflowUrl, id)}  (${name})`)),
  section(
    `For AWS tools and ${MONITOR}`,
    exact(`source ${asShown(envFile)}`),
    'sets their variables for this environment, until it stops.',
    ...deployed.slice(1).map(({ endpoint, prefix }) => `${endpoint} has a separate stack: --stack ${prefix}`),
  ),
];

function quarantinePart({ quarantine, deployed, options }: Report): Part {
  const files = new Map(deployed.flatMap((one) => one.files.map(({ key, path }) => [key, asShown(path)])));
  const all = 'All of them, with their bytes (base64): aws s3 ls --recursive s3://';
  const rest = options.exit
    ? ['All of them, with their bytes, were in the emulated S3, which --exit has stopped. Omit it to inspect them.']
    : deployed.map(({ outputs: { workBucket } }) => exact(`${all}${workBucket}/quarantine/`));
  if (quarantine.length === 0) return undefined;
  return section('Quarantined', ...quarantinePage(quarantine, (key) => files.get(key) ?? key), ...rest);
}

function verdictPart({ realJudge }: Report, summaries: readonly RunSummary[]): Part {
  const source = realJudge
    ? `by ${realJudge}`
    : "a stand-in's rules, not a model's judgement; --bedrock asks the model";
  return section(`Verdicts (${source})`, verdictTable(summaries));
}

/** Tables of values have no text that a scorer could read. */
function notJudgeable(summaries: readonly RunSummary[]): Part {
  const used = VERDICT_TERMS.filter((term) => summaries.some(({ verdicts }) => verdicts[term] > 0));
  const reasons = [...new Set(summaries.flatMap((one) => Object.keys(one.reasons)))].join(', ');
  return used.join() === 'notJudgeable' && `Nothing is judged: no scorer applies to these captures (${reasons}).`;
}

function worstPart({ worst, options, deployed }: Report): Part {
  const linkOf = ({ url, traceId }: WorstTrace): string => (options.exit ? traceId : (url ?? traceId));
  const [first = ''] = worst.map(({ time }) => time.slice(0, '2026-11-20'.length)).sort();
  // If there are several endpoints, the summary has a command for each.
  const more = options.exit || deployed.length > 1 ? '' : ` (more: ${MONITOR} worst --from ${first})`;
  return section(`Worst verdicts${more}`, ...worstPage(worst, linkOf));
}

function failurePart({ runs, summaries, deployed, options }: Report): Part {
  const failed = runs
    .filter((run) => run.status !== 'SUCCEEDED')
    .map((run) => [
      `${run.keys.join(', ')}: ${run.status} ${run.error ?? ''}`,
      [
        (run.cause ?? 'no cause given').slice(0, MAX_CAUSE_CHARS),
        !summaries.has(run.name) && 'It ended before it wrote a summary.json.',
      ],
    ]);
  if (failed.length === 0) return undefined;
  const logs = deployed.flatMap(({ prefix }) => {
    const { processor, evaluator } = resourceNames(prefix);
    return [processor, evaluator].map((name) => exact(`aws logs tail /aws/lambda/${name} --since 1h`));
  });
  const rest = options.exit
    ? ['--exit deletes the logs of the functions. Omit it to read them.']
    : ['Read the logs of the functions, with the variables of the file below:', logs];
  return section('Failed runs', ...firstOf(MAX_FAILURES_SHOWN, failed).flat(), ...rest);
}

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
export function forecastLines(
  sizes: Awaited<ReturnType<typeof measureFiles>>,
  settings: Settings,
  isReal: boolean,
): string[] {
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
