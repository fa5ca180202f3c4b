/** Remarks about the traces and verdicts of a replay that MLflow does not show as expected. */
import { JUDGED_FILE } from '../compare/with-captured.ts';
import { REFUSED_FILE } from './write-traces.ts';

/** @param withoutTrace verdicts whose requests have no trace */
export function mlflowRemarks(
  run: string,
  { refused, linked, withoutTrace }: { refused: number; linked: boolean; withoutTrace: number },
): string[] {
  return [
    ...(refused > 0 ? [`Traces that MLflow refused: ${refused}, listed in ${REFUSED_FILE}`] : []),
    ...(withoutTrace > 0 ? [`Verdicts without a trace in MLflow: ${withoutTrace}, listed in ${JUDGED_FILE}`] : []),
    ...(linked ? [] : [`This MLflow server cannot show traces under a run; find them with tag.replay_run = '${run}'`]),
  ];
}
