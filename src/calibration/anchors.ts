/** The anchor set: exchanges with labels that do not change, to tell a judge that drifts from an endpoint that does. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JudgeScorer } from '../judge/types.ts';
import { parseLabels } from './labels-file.ts';
import type { LabeledItem } from './types.ts';

/** From the project's root. */
const ANCHORS_FILE = join('src', 'calibration', 'anchors.jsonl');

/**
 * @param root folder of the project
 * @throws PermanentError `InvalidLabels` when a scorer that the set is about was taken out; `only` leaves its items out
 */
export function readAnchors(
  root: string,
  scorers: readonly Pick<JudgeScorer, 'name' | 'values'>[],
  only?: readonly string[],
): LabeledItem[] {
  const text = readFileSync(join(root, ANCHORS_FILE), 'utf8');
  const kept = new Set(only ?? scorers.map(({ name }) => name));
  // A set without the scorers that a user has removed is still a set.
  const lines = text
    .split('\n')
    .filter((line) => line.trim() !== '' && kept.has((JSON.parse(line) as { scorer: string }).scorer));
  return parseLabels(lines.join('\n'), ANCHORS_FILE, scorers);
}
