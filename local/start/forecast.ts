/** What `npm start` says before anything starts: the size of the captures, and what the real judge may cost. */

import { createReadStream } from 'node:fs';
import type { CaptureFile } from '../../bin/operate/capture-files.ts';
import { functionEnvironment } from '../../lib/settings/function-environment.ts';
import { scanChunks } from '../../src/captures/lines/chunks.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { estimateFromSizes } from '../../src/judge/pricing/estimate.ts';
import { CHUNK_BOUNDS } from '../../src/monitoring/chunk/chunk-bounds.ts';

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
