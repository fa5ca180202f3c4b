/** What a person may do next with a run: commands to copy, and pages to open. */
import { resourceNames } from '../../src/core/contract/names.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { shellWord } from '../../src/core/text/shell-word.ts';
import { tracesUrl } from '../../src/mlflow/trace-url.ts';
import { isPlanned, type RunReport } from '../operate/run-report.ts';
import { consoleLinks } from './links.ts';
import type { DeployedStack } from './stack.ts';

/** A command, and what it is good for. */
export interface Hint {
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
