/** The comparison of replies and its publication in MLflow, as the commands print them. */
import type { Quality } from '../../src/replay/compare/quality.ts';
import type { FollowedUp } from '../../src/replay/follow-ups.ts';
import type { Published } from '../../src/replay/publish/publish.ts';
import { mlflowRemarks } from '../../src/replay/publish/write-traces.ts';
import { qualityLines } from '../../src/replay/report/quality-sections.ts';

/** @param judgeUsd cost of the judge; `null`: its price is unknown; `undefined`: it was not asked */
export function qualityText(quality: Quality, judgeUsd: number | null | undefined): string[] {
  const lines = qualityLines(quality).map(([name, value]) => `${name}: ${value}`);
  if (judgeUsd !== undefined) {
    lines.push(`judge: ${judgeUsd === null ? 'unknown price' : `${judgeUsd.toFixed(4)} dollars`}`);
  }
  return lines;
}

/** The lines above the figures of a replay. */
export const followUpText = (experiment: string, { comparison, published }: FollowedUp): string[] => [
  ...(comparison ? [...qualityText(comparison.quality, comparison.judgeUsd), ''] : []),
  ...(published ? [...publishedText(experiment, published), ''] : []),
];

function publishedText(experiment: string, published: Published): string[] {
  const { runId, traces, assessments, leftOut } = published;
  return [
    `MLflow run: ${runId} in experiment ${experiment}`,
    `MLflow traces: ${traces}`,
    ...(assessments ? [`MLflow assessments: ${assessments.written}`] : []),
    ...mlflowRemarks(published),
    ...leftOut.map((file) => `not uploaded to MLflow: ${file}`),
  ];
}
