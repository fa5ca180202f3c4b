/** What a person may do next with a run: commands to copy, and pages to open. */
import { resourceNames } from '../../src/contract/names.ts';
import { workKeys } from '../../src/contract/work-keys.ts';
import { tracesUrl } from '../../src/mlflow/trace-url.ts';
import type { RunReport } from '../../src/operate/run-report.ts';
import { consoleLinks } from './links.ts';
import type { DeployedStack } from './stack.ts';

/** A command, and what it is good for. */
export interface Hint {
  why: string;
  command: string;
}

/** Puts a word in quotes if a shell would not take it as it is. */
export const quoted = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;

/** Formats a command to copy. @param stack `--stack` of the command at hand */
export const commandText = (words: readonly string[], stack?: string): string =>
  ['inference-monitor', ...words, ...(stack === undefined ? [] : ['--stack', stack])].map(quoted).join(' ');

/** Returns the commands with which a run goes on. */
export function nextSteps({ run, status, summary, isPartlyPlanned, input }: RunReport, stack?: string): Hint[] {
  const hint = (why: string, ...words: string[]): Hint => ({ why, command: commandText(words, stack) });
  if (status === 'running') return [hint('follow it', 'follow', run), hint('stop it', 'stop', run)];
  if (summary === undefined) return [];
  const { lines, verdicts, failedFiles } = summary;
  const failed = lines.lost + verdicts.failed + (failedFiles?.count ?? 0);
  const again = processWords(input);
  const steps: Hint[] = [];
  // A retry knows only of what was planned.
  if (isPartlyPlanned && again !== undefined) {
    steps.push(hint('planning stopped early: start the same input again, which repeats nothing', ...again));
  } else if (failed > 0) steps.push(hint('process again what is missing or failed', 'retry', run, '--what', 'failed'));
  if (verdicts.heldByBudget > 0) {
    steps.push(hint('judge what the budget held, once it has room', 'retry', run, '--what', 'held'));
  }
  if (lines.quarantined > 0) {
    steps.push(hint('read the quarantined lines', 'quarantine', run, '--out', 'quarantined.jsonl'));
    steps.push(hint('after a fix, process them again', 'retry', run, '--what', 'quarantined'));
  }
  return steps;
}

/** Returns the arguments that start an input again; `undefined` for one that no person wrote. */
function processWords(raw: unknown): string[] | undefined {
  const input = (raw ?? {}) as Record<string, unknown>;
  const { bucket, prefix, from, to, retry, detail } = input as {
    retry?: { run: string; what: string };
    detail?: { bucket: { name: string }; object: { key: string } };
  } & Record<string, string | undefined>;
  const options = [
    ...(input.evaluate === false ? ['--no-evaluate'] : []),
    ...(input.reevaluate === true ? ['--reevaluate'] : []),
    ...(input.judge === 'batch' ? ['--batch'] : []),
    ...(input.sampleRate === undefined ? [] : ['--sample-rate', String(input.sampleRate)]),
    ...(input.budgetUsd === undefined ? [] : ['--budget', String(input.budgetUsd)]),
  ];
  if (retry) return ['retry', retry.run, '--what', retry.what, ...options];
  if (detail) return ['process', `s3://${detail.bucket.name}/${detail.object.key}`, ...options];
  if (bucket === undefined) return undefined;
  const range = [...(from ? ['--from', from] : []), ...(to ? ['--to', to] : [])];
  return ['process', `s3://${bucket}/${prefix ?? ''}`, ...range, ...options];
}

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
