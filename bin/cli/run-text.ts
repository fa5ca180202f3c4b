/** The results of runs, and the next steps for the user. */
import { consoleLinks } from '../../src/core/aws/console-links.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { dollars, time } from '../../src/core/text/figure-text.ts';
import { exact, facts, firstOf, type Page, type Part, section } from '../../src/core/text/page.ts';
import { shellWord } from '../../src/core/text/shell-word.ts';
import { durationText } from '../../src/core/text/terminal-text.ts';
import type { Health } from '../../src/health/findings.ts';
import { tracesUrl } from '../../src/mlflow/trace-url.ts';
import type { FailedChunk } from '../../src/monitoring/summary.ts';
import { isPlanned, type RunReport } from '../operate/run-report.ts';
import TEXTS from './run-texts.json' with { type: 'json' };
import type { DeployedStack } from './stack.ts';
import { findingsPage, quarantinePage, statePart, totalsLine, verdictTable } from './summary-page.ts';

export interface RunPage {
  report: RunReport;
  next: readonly Hint[];
  links: Readonly<Record<string, string>>;
  /** For a dry run, if earlier runs allow an estimate. */
  expectedSeconds?: number | undefined;
}

/** Failed chunks, files and jobs that the page lists. The summary has up to 100. */
const MAX_LISTED = 10;

/**
 * Returns the page about runs. Several runs have a sum of their figures, followed by the details of each. @param health
 * derived from their captures
 */
export function runsPage(pages: readonly RunPage[], health?: Health): Page {
  const isOne = pages.length === 1;
  const links = new Map(pages.flatMap((one) => Object.entries(one.links).map(([name, url]) => [url, name])));
  const names = pages.map(({ report: { run, status, asked } }) => `${run}: ${status}, ${asked}`);
  return [
    ...(isOne ? pages.map(({ report }) => headOf(report)) : [section(`${pages.length} runs`, ...names)]),
    ...figuresOf(pages, health),
    ...pages.map((one) => section(isOne ? '' : one.report.run, ...detailsOf(one))),
    section('Links', ...[...links].map(([url, name]) => exact(`${name}: ${url}`))),
  ];
}

function headOf({ run, status, startedAt, endedAt, asked, error, isFinal, summary }: RunReport): Part {
  const took = startedAt && endedAt ? `, ${durationText((Date.parse(endedAt) - Date.parse(startedAt)) / 1_000)}` : '';
  return section(
    `${run}: ${status}${summary?.status === 'duplicate' ? `, a duplicate of ${summary.duplicateOf}` : ''}`,
    asked,
    startedAt && `started ${time(startedAt)}${took}`,
    error && `${error.name}: ${error.message}`,
    !isFinal && TEXTS[summary === undefined ? 'nothing' : 'soFar'][status === 'running' ? 'running' : 'ended'],
  );
}

/** Returns the figures of all runs, or the estimates of the dry runs. */
function figuresOf(pages: readonly RunPage[], health: Health | undefined): Page {
  const all = pages.flatMap(({ report }) => report.summary ?? []);
  if (all.length === 0) return [];
  if (all.every(({ status }) => status === 'dryRun')) return pages.map((one) => section('Dry run', ...dryRunPage(one)));
  const state = health === undefined ? [] : [statePart(health), ...findingsPage(health)];
  return [section('Summary', ...state, totalsLine(all)), section('Verdicts', verdictTable(all))];
}

function dryRunPage({ report: { summary }, expectedSeconds }: RunPage): Page {
  const { estimate, objects, lines, options } = summary ?? {};
  const counted = facts({ files: objects, lines: lines?.planned });
  if (estimate === undefined) return [counted];
  const { captures, judgedCaptures, judgeCalls, model, usd, usdRange, basis } = estimate;
  const duration = expectedSeconds && `about ${durationText(expectedSeconds)}, at the pace of the last runs`;
  const ends = usdRange?.map(dollars).join(' to ');
  const range = ends === undefined ? '' : `, from ${ends}: few answers of the judge are known`;
  return [
    counted,
    facts({
      captures,
      'chance of each': options?.chance,
      'to be judged': `${judgedCaptures}, in ${judgeCalls} calls of ${model}`,
      judge: `about ${dollars(usd)}${range}`,
      time:
        options?.judge === 'batch'
          ? 'hours, a day at most for each job'
          : duration || 'unknown, since no earlier runs of different sizes tell',
    }),
    basis,
    'Nothing was written to MLflow, and nothing was paid for the judge.',
  ];
}

/** Returns the details of one run. */
const detailsOf = ({ report, next }: RunPage): Page => [
  section('Failed', ...failuresOf(report)),
  section('Held', ...heldOf(report)),
  section('Quarantined', ...quarantinePage(report.quarantined)),
  section('Batch', ...batchOf(report)),
  section('Warnings', ...(report.summary?.warnings ?? [])),
  section('Next', ...next.flatMap(hintPart)),
];

function failuresOf({ summary }: RunReport): Page {
  if (summary === undefined) return [];
  const { failedChunks, failedFiles, error, lines, verdicts, chunks } = summary;
  const files = failedFiles?.first.map((file) => `${file.key}: not planned: ${file.error.name}: ${file.error.message}`);
  return [
    lines.lost + verdicts.lost > 0 &&
      `${lines.lost} of ${lines.planned} lines and ${verdicts.lost} of ${verdicts.expected} verdicts are missing`,
    error && `${error.name}: ${error.message}`,
    ...firstOf(MAX_LISTED, files ?? [], ' files', failedFiles?.count),
    ...firstOf(MAX_LISTED, failedChunks.map(chunkLine), ' chunks', Math.max(chunks.failed, failedChunks.length)),
  ];
}

/** The location of a chunk is the location of its first range. */
function chunkLine({ chunk, step, key, firstLine, lines, ranges, error }: FailedChunk): string {
  const files = ranges === undefined ? '' : ` and ${ranges - 1} more ranges`;
  return `${key}:${firstLine}${files}, ${lines} lines (chunk ${chunk}, ${step}): ${error.name}: ${error.message}`;
}

function heldOf({ summary }: RunReport): Page {
  const held = summary?.verdicts.heldByBudget ?? 0;
  const { providerDay = 0, JudgeBatchRefused: refused = 0 } = summary?.reasons ?? {};
  const byBudget = held - providerDay - refused;
  const budget = summary?.options?.budgetUsd;
  const whose = budget === undefined ? 'EVALUATION_BUDGET_USD' : `the run's $${budget} or EVALUATION_BUDGET_USD`;
  return [
    byBudget > 0 && `${byBudget} verdicts by the budget: ${whose}`,
    refused > 0 && `${refused} verdicts as JudgeBatchRefused: the batch job refused their records, see batch.refused`,
    providerDay > 0 && `${providerDay} verdicts by the quota of the day of the judge's provider`,
  ];
}

function batchOf({ summary, openBatchJobs }: RunReport): Page {
  if (summary?.batch === undefined) return openBatchJobs.map((arn) => `${arn}: not ended`);
  const { jobs = [], converse = [] } = summary.batch;
  return [
    ...jobs
      .slice(0, MAX_LISTED)
      .map((job) => `${job.arn || 'no job'}: ${job.status}, ${job.records} requests ${job.message ?? ''}`),
    ...converse.map(({ records, reason }) => `${records} requests on demand instead: ${reason}`),
  ];
}

// ------------------------------------------------------------------------------------------------------ next steps
// Commands to copy, and pages to open.

/** A command and its purpose. */
interface Hint {
  why: string;
  command: string;
}

/** Returns the purpose of a command, and the command. */
export const hintPart = ({ why, command }: Hint): Page => [`${why}:`, [exact(command)]];

/** Formats a command to copy. @param stack `--stack` of the current command */
export const commandText = (args: readonly string[], stack?: string): string =>
  ['inference-monitor', ...args, ...(stack === undefined ? [] : ['--stack', stack])].map(shellWord).join(' ');

/** Returns the commands that a person may want after a run. */
export function nextSteps(report: RunReport, stack?: string): Hint[] {
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

/** Returns pages about a run, by their content. */
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
