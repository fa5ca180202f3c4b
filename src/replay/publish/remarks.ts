/** Remarks about the traces and verdicts of a replay that MLflow does not show as expected. */
import { JUDGED_FILE } from '../compare/with-captured.ts';
import { REFUSED_FILE, type WrittenTraces } from './write-traces.ts';

export function mlflowRemarks({ refused, assessments }: WrittenTraces): string[] {
  const missing = assessments?.missing ?? 0;
  return [
    ...(refused > 0 ? [`Traces that MLflow refused: ${refused}, listed in ${REFUSED_FILE}`] : []),
    ...(missing > 0 ? [`Verdicts that MLflow does not have: ${missing}, listed in ${JUDGED_FILE}`] : []),
  ];
}
