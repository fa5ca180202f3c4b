/** Describes the failure of a run for the cause of its execution: the missing data, and how to repair it. */

import type { NamedError } from '../core/contract/receipts.ts';
import { isStillHeld, type RunSummary } from './summary.ts';

/** @returns the name of the error, and a message for a person */
export function describeFailure(summary: RunSummary): { error: string; cause: string } {
  const { lines, verdicts, chunks, failedChunks, failedFiles, judgeError, run } = summary;
  const isWhole = chunks.failed === 0 && !summary.partlyPlanned && lines.lost + verdicts.lost === 0;
  if (summary.error === undefined && failedFiles === undefined && isWhole && isStillHeld(summary)) {
    const { providerDay = 0, JudgeBatchRefused: refused = 0 } = summary.reasons;
    const why = refused > 0 ? 'The batch job' : providerDay > 0 ? 'The judge’s quota of the day' : 'The budget';
    const raise = providerDay > 0 ? 'the quota of the model' : 'EVALUATION_BUDGET_USD or the retry\'s "budgetUsd"';
    const remedy = refused > 0 ? 'Choose "judge": "converse"' : `Raise ${raise}, or wait for the next day (UTC)`;
    const cause = `${why} held back all ${verdicts.heldByBudget} verdicts again. ${remedy}. Then start {"retry":{"run":"${run}","what":"held"}}`;
    return { error: 'VerdictsStillHeld', cause };
  }
  if (summary.error !== undefined && chunks.planned === 0) {
    return { error: summary.error.name, cause: summary.error.message };
  }
  const facts = [
    ...[summary.error, judgeError].flatMap((error) => (error === undefined ? [] : [saidIn(error)])),
    `${lines.lost} of ${lines.planned} lines and ${verdicts.lost} of ${verdicts.expected} verdicts are missing`,
    `${chunks.failed} of ${chunks.planned} chunks failed`,
    ...(failedFiles === undefined ? [] : [`${failedFiles.count} capture files could not be planned`]),
    ...(failedFiles?.first ?? []).slice(0, 3).map(({ key, error }) => `${key}: ${saidIn(error)}`),
    ...failedChunks.slice(0, 3).map(({ chunk, step, error }) => `chunk ${chunk} (${step}): ${saidIn(error)}`),
    summary.partlyPlanned
      ? 'Planning stopped early, so a retry would leave out the rest: start the same input again'
      : `Retry with {"retry":{"run":"${run}","what":"failed"}}`,
  ];
  const one = isWhole ? failedFiles?.first[0]?.error.name : undefined;
  return { error: summary.error?.name ?? one ?? judgeError?.name ?? 'RunIncomplete', cause: facts.join('. ') };
}

const saidIn = ({ name, message }: NamedError): string => `${name}: ${message}`;
