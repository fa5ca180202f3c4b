/** What runs did, for a terminal or a pipe, and what a person may do next. */
import { consoleLinks } from '../../src/core/aws/console-links.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { shellWord } from '../../src/core/text/shell-word.ts';
import { durationText, PLAIN, type TextOptions } from '../../src/core/text/terminal-text.ts';
import type { Health } from '../../src/health/findings.ts';
import { tracesUrl } from '../../src/mlflow/trace-url.ts';
import type { FailedChunk } from '../../src/monitoring/file-reports.ts';
import { isPlanned, type RunReport } from '../operate/run-report.ts';
import { quarantineLines, summaryLines, verdictLines } from '../operate/summary-report.ts';
import { instantText, Page } from './output.ts';
import type { DeployedStack } from './stack.ts';

export interface RunPage {
  report: RunReport;
  next: readonly Hint[];
  links: Readonly<Record<string, string>>;
  /** Of a dry run, if earlier runs tell. */
  expectedSeconds?: number | undefined;
}

/** Failed chunks, files and jobs that the text lists. The summary has up to 100. */
const MAX_LISTED = 10;

/** Returns the text about runs. Several have their figures added up, and what is particular to each below. @param health by their captures */
export function runsText(pages: readonly RunPage[], out: TextOptions, health?: Health): string {
  const page = new Page(out);
  const isOne = pages.length === 1;
  if (!isOne) page.section(`── ${pages.length} runs ──`);
  for (const { report } of pages) {
    if (isOne) addHead(page, report);
    else page.add(`${report.run}: ${report.status}, ${report.asked}`);
  }
  addFigures(page, pages, health);
  for (const one of pages) {
    const details = Object.entries(detailsOf(one)).filter(([, lines]) => lines.length > 0);
    if (!isOne && details.length > 0) page.section(`── ${one.report.run} ──`);
    for (const [title, lines] of details) page.list(title, lines);
  }
  const links = new Map(pages.flatMap((one) => Object.entries(one.links).map(([name, url]) => [url, name])));
  page.list(
    'Links',
    [...links].map(([url, name]) => `${name}: ${url}`),
  );
  return page.text();
}

function addHead(page: Page, { run, status, startedAt, endedAt, asked, error, isFinal, summary }: RunReport): void {
  page.section(
    `── ${run}: ${status}${summary?.status === 'duplicate' ? `, a duplicate of ${summary.duplicateOf}` : ''} ──`,
  );
  page.add(asked);
  const took = startedAt && endedAt ? `, ${durationText((Date.parse(endedAt) - Date.parse(startedAt)) / 1_000)}` : '';
  if (startedAt) page.add(`started ${instantText(startedAt)} UTC${took}`);
  if (error) page.add(`${error.name}: ${error.message}`);
  if (!isFinal) page.add((summary === undefined ? NOTHING : SO_FAR)[status === 'running' ? 'running' : 'ended']);
}

const SO_FAR = {
  running: 'The figures are those of complete chunks so far.',
  ended: 'The run has written no summary. The figures are added up from the receipts of its chunks.',
};

const NOTHING = {
  running: 'Nothing is planned yet.',
  ended:
    'The work bucket has nothing of the run: it ended before anything was planned, or its receipts have expired (after 90 days).',
};

/** The figures of all runs, or what the dry runs expect. */
function addFigures(page: Page, pages: readonly RunPage[], health: Health | undefined): void {
  const all = pages.flatMap(({ report }) => report.summary ?? []);
  if (all.length > 0 && all.every(({ status }) => status === 'dryRun')) {
    for (const one of pages) page.list('Dry run', dryRunLines(one));
  } else if (all.length > 0) {
    page.list('Summary', summaryLines(all, health, { width: Number.POSITIVE_INFINITY, style: PLAIN }));
    page.list('Verdicts', verdictLines(all));
  }
}

function dryRunLines({ report: { summary }, expectedSeconds }: RunPage): string[] {
  const { estimate, objects, lines, options } = summary ?? {};
  const counted = [`files: ${objects}`, `lines: ${lines?.planned}`];
  if (estimate === undefined) return counted;
  const time = expectedSeconds && `about ${durationText(expectedSeconds)}, at the pace of the last runs`;
  const ends = estimate.usdRange?.map((usd) => usd.toFixed(4)).join(' to ');
  const range = ends === undefined ? '' : `, from ${ends}: few answers of the judge are known`;
  return [
    ...counted,
    `captures: ${estimate.captures}`,
    `to be judged: ${estimate.judgedCaptures}, in ${estimate.judgeCalls} calls of ${estimate.model}`,
    `dollars for the judge: ${estimate.usd === null ? 'unknown' : `about ${estimate.usd.toFixed(4)}${range}`}`,
    `time: ${options?.judge === 'batch' ? 'hours, a day at most for each job' : time || 'unknown, since no earlier runs of different sizes tell'}`,
    estimate.basis,
    'Nothing was written to MLflow, and nothing was paid for the judge.',
  ];
}

/** What is particular to a run, by headings. */
const detailsOf = ({ report, next }: RunPage): Record<string, readonly string[]> => ({
  Failed: failureLines(report),
  Held: heldLines(report),
  Quarantined: quarantineLines(report.quarantined, (key) => key),
  Batch: batchLines(report),
  Warnings: report.summary?.warnings ?? [],
  Next: next.flatMap(({ why, command }) => [`${why}:`, `  ${command}`]),
});

function failureLines({ summary }: RunReport): string[] {
  if (summary === undefined) return [];
  const { failedChunks, failedFiles, error, lines, verdicts, chunks } = summary;
  const files = failedFiles?.first ?? [];
  return [
    ...(lines.lost + verdicts.lost > 0
      ? [`${lines.lost} of ${lines.planned} lines and ${verdicts.lost} of ${verdicts.expected} verdicts are missing`]
      : []),
    ...(error === undefined ? [] : [`${error.name}: ${error.message}`]),
    ...files.slice(0, MAX_LISTED).map((file) => `${file.key}: not planned: ${file.error.name}: ${file.error.message}`),
    ...more((failedFiles?.count ?? 0) - MAX_LISTED, 'files'),
    ...failedChunks.slice(0, MAX_LISTED).map(chunkLine),
    ...more(Math.max(chunks.failed, failedChunks.length) - MAX_LISTED, 'chunks'),
  ];
}

const more = (count: number, what: string): string[] => (count > 0 ? [`and ${count} more ${what}`] : []);

/** The place of a chunk is that of its first range. */
function chunkLine({ chunk, step, key, firstLine, lines, ranges, error }: FailedChunk): string {
  const files = ranges === undefined ? '' : ` and ${ranges - 1} more ranges`;
  return `${key}:${firstLine}${files}, ${lines} lines (chunk ${chunk}, ${step}): ${error.name}: ${error.message}`;
}

function heldLines({ summary }: RunReport): string[] {
  const held = summary?.verdicts.heldByBudget ?? 0;
  const { providerDay = 0, JudgeBatchRefused: refused = 0 } = summary?.reasons ?? {};
  const byBudget = held - providerDay - refused;
  const budget = summary?.options?.budgetUsd;
  const whose = budget === undefined ? 'EVALUATION_BUDGET_USD' : `the run's $${budget} or EVALUATION_BUDGET_USD`;
  const lines: [number, string][] = [
    [byBudget, `by the budget: ${whose}`],
    [refused, 'as JudgeBatchRefused: the batch job refused their records, see batch.refused'],
    [providerDay, "by the quota of the day of the judge's provider"],
  ];
  return lines.filter(([count]) => count > 0).map(([count, why]) => `${count} verdicts ${why}`);
}

function batchLines({ summary, openBatchJobs }: RunReport): string[] {
  const { jobs = [], converse = [] } = summary?.batch ?? {};
  return [
    ...jobs
      .slice(0, MAX_LISTED)
      .map((job) => `${job.arn || 'no job'}: ${job.status}, ${job.records} requests ${job.message ?? ''}`),
    ...converse.map(({ records, reason }) => `${records} requests on demand instead: ${reason}`),
    ...(summary?.batch === undefined ? openBatchJobs.map((arn) => `${arn}: not ended`) : []),
  ];
}

// ------------------------------------------------------------------------------------------------------ next steps
// Commands to copy, and pages to open.

/** A command, and what it is good for. */
interface Hint {
  why: string;
  command: string;
}

/** Formats a command to copy. @param stack `--stack` of the command at hand */
export const commandText = (args: readonly string[], stack?: string): string =>
  ['inference-monitor', ...args, ...(stack === undefined ? [] : ['--stack', stack])].map(shellWord).join(' ');

/** Returns the commands that a person may want after a run. */
export function nextSteps(report: HintedRun, stack?: string): Hint[] {
  const { run, status, summary } = report;
  const hint = (why: string, ...args: string[]): Hint => ({ why, command: commandText(args, stack) });
  if (status === 'running') return [hint('follow it', 'show', run, '--follow'), hint('stop it', 'stop', run)];
  const { lines, verdicts, failedFiles } = summary ?? {};
  const failed = (lines?.lost ?? 0) + (verdicts?.failed ?? 0) + (failedFiles?.count ?? 0);
  const retry = (why: string, what: string): Hint => hint(why, 'retry', run, '--what', what);
  return [
    ...(isPlanned(report) ? [] : [retry('planning had not finished: start the same input again', 'failed')]),
    ...(isPlanned(report) && failed > 0 ? [retry('process again what is missing or failed', 'failed')] : []),
    ...(verdicts?.heldByBudget ? [retry('judge the captures that the budget held back', 'held')] : []),
    ...(lines?.quarantined
      ? [
          hint('read the quarantined lines', 'show', run, '--out', 'quarantined.jsonl'),
          retry('after a fix, process them again', 'quarantined'),
        ]
      : []),
  ];
}

type HintedRun = Pick<RunReport, 'run' | 'status' | 'summary' | 'isPartlyPlanned' | 'input'>;

/** Pages about a run, by what they show. */
export function runLinks(report: RunReport, { prefix, outputs }: DeployedStack, region: string): RunPage['links'] {
  const console = consoleLinks(region);
  const summary = workKeys.summary(report.run);
  const names = resourceNames(prefix);
  const links = {
    execution: report.arn && console?.execution(report.arn),
    traces: report.experimentId && tracesUrl(outputs.mlflowUri, report.experimentId),
    summary: report.isFinal && (console?.s3(outputs.workBucket, summary) ?? `s3://${outputs.workBucket}/${summary}`),
    logs:
      report.status === 'failed' &&
      console?.logGroup(`/aws/lambda/${report.summary?.options?.evaluate ? names.evaluator : names.processor}`),
  };
  return Object.fromEntries(Object.entries(links).flatMap(([name, url]) => (url ? [[name, url]] : [])));
}
