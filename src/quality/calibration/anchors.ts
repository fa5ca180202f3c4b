/** Reads the anchor set: exchanges with fixed labels, which show whether the judge or the endpoint has changed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JudgeScorer } from '../../judge/types.ts';
import { parseLabels } from './labels-file.ts';
import type { LabeledItem } from './types.ts';

/** Relative to the project's root. */
const ANCHORS_FILE = join('src', 'quality', 'calibration', 'anchors.jsonl');

/**
 * @param root folder of the project
 * @param only names of the scorers to read; default: all of `scorers`
 * @throws PermanentError `InvalidLabels`
 */
export function readAnchors(
  root: string,
  scorers: readonly Pick<JudgeScorer, 'name' | 'values'>[],
  only?: readonly string[],
): LabeledItem[] {
  const text = readFileSync(join(root, ANCHORS_FILE), 'utf8');
  const kept = new Set(only ?? scorers.map(({ name }) => name));
  // Items of scorers that the user has removed are left out.
  const lines = text
    .split('\n')
    .filter((line) => line.trim() !== '' && kept.has((JSON.parse(line) as { scorer: string }).scorer));
  return parseLabels(lines.join('\n'), ANCHORS_FILE, scorers);
}
