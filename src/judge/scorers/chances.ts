/** The chances that captures have to be judged, and which captures a scorer is asked about. */
import { inSample } from '../../captures/trace/ids.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { CaptureRange } from '../../core/contract/payloads.ts';
import type { JudgeScorer } from '../types.ts';

/** The chances of a capture to be judged, 0 to 1. They are facts of its file or of its run, never of its content. */
export interface Chances {
  sample: number;
  /** The chance if a rule of `EVALUATION_ALWAYS` chooses the capture. */
  rule: number;
  /** A number of captures decides, and not a rate. A scorer's own rate then replaces the chance. */
  isByNumber: boolean;
}

/** Returns the chances of the captures of a range. */
export const chancesOf = (
  { sampleRate, chance = 0 }: Pick<RunOptions, 'sampleRate' | 'chance'>,
  range: Partial<Pick<CaptureRange, 'chance' | 'ruleChance'>> = {},
): Chances => ({
  sample: sampleRate ?? Math.max(chance, range.chance ?? 0),
  rule: range.ruleChance ?? 1,
  isByNumber: sampleRate === undefined,
});

/**
 * Whether a scorer is asked about a capture.
 *
 * @param isRuled returns whether a rule chooses the capture, and is called only if that matters. Rules are for captures
 *   that matter, so a scorer's own rate does not apply
 */
export function isDrawn(
  traceId: string,
  { name, sampleRate: own }: Pick<JudgeScorer, 'name' | 'sampleRate'>,
  { sample, rule, isByNumber }: Chances,
  isRuled: () => boolean,
): boolean {
  const isOwn = isByNumber && own !== undefined;
  if ((isOwn || inSample(traceId, sample)) && inSample(traceId, own ?? 1, name)) return true;
  return inSample(traceId, Math.max(sample, rule)) && isRuled();
}
