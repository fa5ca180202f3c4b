/** Formats reports of runs for a terminal or a pipe, with commands to copy and pages to open. */
import { resourceNames } from '../../src/core/contract/names.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { shellWord } from '../../src/core/text/shell-word.ts';
import { durationText, singleLine, wrapped } from '../../src/core/text/terminal-text.ts';
import { tracesUrl } from '../../src/mlflow/trace-url.ts';
import type { FailedChunk } from '../../src/monitoring/file-reports.ts';
import { isPlanned, type RunReport } from '../operate/run-report.ts';
import { addUp, quarantineLines, totalLines, verdictLines } from '../operate/summary-report.ts';
import { consoleLinks } from './links.ts';
import type { TextOptions } from './output.ts';
import type { DeployedStack } from './stack.ts';

/** A command, and what it is good for. */
interface Hint {
  why: string;
  command: string;
}

/** Formats a command to copy. @param stack `--stack` of the command at hand */
export const commandText = (words: readonly string[], stack?: string): string =>
  ['inference-monitor', ...words, ...(stack === undefined ? [] : ['--stack', stack])].map(shellWord).join(' ');

/** Returns the commands with which a run goes on. */
export function nextSteps(report: HintedRun, stack?: string): Hint[] {
  const { run, status, summary } = report;
  const hint = (why: string, ...words: string[]): Hint => ({ why, command: commandText(words, stack) });
  if (status === 'running') return [hint('follow it', 'follow', run), hint('stop it', 'stop', run)];
  const steps: Hint[] = [];
  const { lines, verdicts, failedFiles } = summary ?? {};
  const failed = (lines?.lost ?? 0) + (verdicts?.failed ?? 0) + (failedFiles?.count ?? 0);
  if (!isPlanned(report)) {
    steps.push(hint('planning did not come to its end: start the same input again', 'retry', run, '--what', 'failed'));
  } else if (failed > 0) steps.push(hint('process again what is missing or failed', 'retry', run, '--what', 'failed'));
  if (verdicts && verdicts.heldByBudget > 0) {
    steps.push(hint('judge what the budget held, once it has room', 'retry', run, '--what', 'held'));
  }
  if (lines && lines.quarantined > 0) {
    steps.push(hint('read the quarantined lines', 'quarantine', run, '--out', 'quarantined.jsonl'));
    steps.push(hint('after a fix, process them again', 'retry', run, '--what', 'quarantined'));
  }
  return steps;
}

type HintedRun = Pick<RunReport, 'run' | 'status' | 'summary' | 'isPartlyPlanned' | 'input'>;

/** Pages about a run, by what they show. */
export function runLinks(
  report: RunReport,
  { prefix, outputs }: DeployedStack,
  region: string,
): Record<string, string> {
  const console = consoleLinks(region);
  const summary = workKeys.summary(report.run);
  const names = resourceNames(prefix);
  const traces = report.experimentId && tracesUrl(outputs.mlflowUri, report.experimentId);
  return {
    ...(report.arn && console ? { execution: console.execution(report.arn) } : {}),
    ...(traces ? { traces } : {}),
    ...(report.isFinal
      ? { summary: console?.s3(outputs.workBucket, summary) ?? `s3://${outputs.workBucket}/${summary}` }
      : {}),
    ...(report.status === 'failed' && console
      ? {
          logs: console.logGroup(
            `/aws/lambda/${report.summary?.options?.evaluate ? names.evaluator : names.processor}`,
          ),
        }
      : {}),
  };
}

export interface RunPage {
  report: RunReport;
  next: readonly Hint[];
  links: Readonly<Record<string, string>>;
  /** Of a dry run, if earlier runs tell. */
  expectedSeconds?: number | undefined;
}

/** Failed chunks, files and jobs that the text lists. The summary has up to 100. */
const MAX_LISTED = 10;

/**
 * Returns the text about runs. Several have their figures added up, and what is particular to each below.
 *
 * @param stack `--stack` of the command at hand, for the commands in the text
 */
export function runsText(pages: readonly RunPage[], options: TextOptions, stack?: string): string {
  const [only, ...others] = pages;
  if (only === undefined) return '';
  const links = new Map(pages.flatMap((page) => Object.entries(page.links).map(([name, url]) => [url, name])));
  const lines = [
    ...(others.length === 0 ? headLines(only.report) : severalLines(pages)),
    ...figureLines(pages),
    ...pages.flatMap((page) => {
      const own = detailLines(page, stack);
      return own.length === 0 || others.length === 0 ? own : ['', `── ${page.report.run} ──`, ...own];
    }),
    ...section(
      'Links',
      [...links].map(([url, name]) => `${name}: ${url}`),
    ),
  ];
  return layout(lines, options);
}

function severalLines(pages: readonly RunPage[]): string[] {
  return [
    `── ${pages.length} runs ──`,
    ...pages.map(({ report }) => `${report.run}: ${report.status}, ${singleLine(report.asked)}`),
  ];
}

/** The figures of all runs, or what the dry runs expect. */
function figureLines(pages: readonly RunPage[]): string[] {
  const all = pages.flatMap(({ report }) => report.summary ?? []);
  if (all.length === 0) return [];
  if (all.every(({ status }) => status === 'dryRun')) return pages.flatMap(dryRunLines);
  const totals = addUp(all);
  return [...section('Summary', totalLines(totals)), ...section('Verdicts', verdictLines(totals))];
}

function dryRunLines({ report: { summary }, expectedSeconds }: RunPage): string[] {
  const { estimate, objects, lines, options } = summary ?? {};
  if (estimate === undefined) return section('Dry run', [`files: ${objects}`, `lines: ${lines?.planned}`]);
  const time = options?.judge === 'batch' ? 'hours, a day at most for each job' : undefined;
  const pace =
    expectedSeconds === undefined ? 'unknown, since no earlier run tells' : `about ${durationText(expectedSeconds)}`;
  return section('Dry run', [
    `files: ${objects}`,
    `lines: ${lines?.planned}`,
    `captures: ${estimate.captures}`,
    `to be judged: ${estimate.judgedCaptures}, in ${estimate.judgeCalls} calls of ${estimate.model}`,
    `dollars for the judge: ${estimate.usd === null ? 'unknown' : `about ${estimate.usd.toFixed(4)}`}`,
    `time: ${time ?? `${pace}${expectedSeconds === undefined ? '' : ', at the pace of the longest of the last runs'}`}`,
    estimate.basis,
    'Nothing was written to MLflow, and nothing was paid for the judge.',
  ]);
}

/** What is particular to a run. */
function detailLines({ report, next }: RunPage, stack?: string): string[] {
  return [
    ...(report.summary === undefined ? ['', nothingLeft(report)] : []),
    ...failureLines(report),
    ...heldLines(report),
    ...quarantineSection(report, stack),
    ...batchLines(report),
    ...section('Warnings', report.summary?.warnings ?? []),
    ...section(
      'Next',
      next.flatMap(({ why, command }) => [`${why}:`, `  ${command}`]),
    ),
  ];
}

/** Cuts lines to the width, styles the headings, and ends with a line end. */
function layout(lines: readonly string[], { width, style }: TextOptions): string {
  const shown = lines.flatMap((line) => wrapped(line, width));
  return shown.map((line) => `${line.startsWith('── ') ? style('bold', line) : line}\n`).join('');
}

const section = (title: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : ['', `── ${title} ──`, ...lines.map(keepIndent)];

/** Like `singleLine`, but an indent stays. */
const keepIndent = (line: string): string => `${/^ */.exec(line)?.[0] ?? ''}${singleLine(line).trimStart()}`;

function headLines({ run, status, startedAt, endedAt, asked, error, isFinal, summary }: RunReport): string[] {
  const isDuplicate = summary?.status === 'duplicate' ? `, a duplicate of ${summary.duplicateOf}` : '';
  const took = startedAt && endedAt ? `, ${durationText((Date.parse(endedAt) - Date.parse(startedAt)) / 1_000)}` : '';
  return [
    `── ${run}: ${status}${isDuplicate} ──`,
    singleLine(asked),
    ...(startedAt ? [`started ${startedAt.slice(0, 19).replace('T', ' ')} UTC${took}`] : []),
    ...(error ? [singleLine(`${error.name}: ${error.message}`)] : []),
    ...(isFinal || summary === undefined ? [] : [soFar(status)]),
  ];
}

const soFar = (status: RunReport['status']): string =>
  status === 'running'
    ? 'The figures are those of complete chunks so far.'
    : 'The run has written no summary. The figures are added up from the receipts of its chunks.';

const nothingLeft = ({ status }: RunReport): string =>
  status === 'running'
    ? 'Nothing is planned yet.'
    : 'The work bucket has nothing of the run: it ended before anything was planned, or its receipts have expired (after 90 days).';

function failureLines({ summary }: RunReport): string[] {
  if (summary === undefined) return [];
  const { failedChunks, failedFiles, error, lines, verdicts, chunks } = summary;
  const files = failedFiles?.first ?? [];
  const shown = [
    ...(error === undefined ? [] : [`${error.name}: ${error.message}`]),
    ...files.slice(0, MAX_LISTED).map((file) => `${file.key}: not planned: ${file.error.name}: ${file.error.message}`),
    ...more((failedFiles?.count ?? 0) - MAX_LISTED, 'files'),
    ...failedChunks.slice(0, MAX_LISTED).map(chunkLine),
    ...more(Math.max(chunks.failed, failedChunks.length) - MAX_LISTED, 'chunks'),
  ];
  if (lines.lost + verdicts.lost > 0) {
    shown.unshift(
      `${lines.lost} of ${lines.planned} lines and ${verdicts.lost} of ${verdicts.expected} verdicts are missing`,
    );
  }
  return section('Failed', shown);
}

const more = (count: number, what: string): string[] => (count > 0 ? [`and ${count} more ${what}`] : []);

/** The place of a chunk is that of its first range. */
function chunkLine({ chunk, step, key, firstLine, lines, ranges, error }: FailedChunk): string {
  const files = ranges === undefined ? '' : ` and ${ranges - 1} more ranges`;
  return `${key}:${firstLine}${files}, ${lines} lines (chunk ${chunk}, ${step}): ${error.name}: ${error.message}`;
}

function heldLines({ summary }: RunReport): string[] {
  const held = summary?.verdicts.heldByBudget ?? 0;
  if (held === 0) return [];
  const { providerDay = 0 } = summary?.reasons ?? {};
  const budget = summary?.options?.budgetUsd;
  const whose = budget === undefined ? 'EVALUATION_BUDGET_USD' : `the run's $${budget} or EVALUATION_BUDGET_USD`;
  return section('Held', [
    ...(held > providerDay ? [`${held - providerDay} verdicts by the budget: ${whose}`] : []),
    ...(providerDay > 0 ? [`${providerDay} verdicts by the quota of the day of the judge's provider`] : []),
  ]);
}

function quarantineSection({ quarantined, run }: RunReport, stack?: string): string[] {
  const command = commandText(['quarantine', run, '--out', 'quarantined.jsonl'], stack);
  const lines = quarantineLines(quarantined, (key) => key, `All of them: ${command}`);
  return lines.length === 0 ? [] : ['', ...lines.slice(0, -1)];
}

function batchLines({ summary, openBatchJobs }: RunReport): string[] {
  const { jobs = [], converse = [] } = summary?.batch ?? {};
  return section('Batch', [
    ...jobs
      .slice(0, MAX_LISTED)
      .map((job) => `${job.arn || 'no job'}: ${job.status}, ${job.records} requests ${job.message ?? ''}`),
    ...converse.map(({ records, reason }) => `${records} requests on demand instead: ${reason}`),
    ...(summary?.batch === undefined ? openBatchJobs.map((arn) => `${arn}: not ended`) : []),
  ]);
}
