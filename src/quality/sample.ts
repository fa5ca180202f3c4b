/** The sample that a capture or a verdict belongs to, as text: on assessments in MLflow, and as a key of the counts. */
import type { Chances } from '../judge/scorers/chances.ts';
import type { JudgeScorer } from '../judge/types.ts';
import { SAMPLE_METADATA, STRATUM_METADATA } from '../mlflow/types.ts';

/** The stratum of code scorers. */
export const EVERY_CAPTURE = 'all';

/** An always rule has the capture judged. A rule whose captures are drawn adds their chance: `always/0.4`. */
export const ALWAYS = 'always';
export const isAlways = (sample: string): boolean => sample === ALWAYS || sample.startsWith(`${ALWAYS}/`);

/** Returns the sample of a capture: `always` with the chance of its rule, or its chance, such as `0.05`. */
export function captureSample(isRuled: boolean, { sample, rule }: Chances): string {
  if (!isRuled) return String(sample);
  const chance = Math.max(sample, rule);
  return chance === 1 ? ALWAYS : `${ALWAYS}/${chance}`;
}

/** Returns the sample of a scorer on a capture: the capture's, times the scorer's own rate (`0.05*0.5`), or that rate (`*0.5`). */
export function scorerSample(
  ofCapture: string,
  { sampleRate: own }: Pick<JudgeScorer, 'sampleRate'>,
  isByNumber = false,
): string {
  if (own === undefined || isAlways(ofCapture) || (own === 1 && !isByNumber)) return ofCapture;
  return isByNumber ? `*${own}` : `${ofCapture}*${own}`;
}

/**
 * Returns the chance of a capture of this sample to be judged, from 0 to 1.
 *
 * @example
 *     chanceOf('0.5*0.1')   // 0.05
 */
export function chanceOf(sample: string): number {
  const rates = isAlways(sample) ? [sample.slice(ALWAYS.length + 1) || '1'] : sample.split('*');
  const chance = rates.reduce((product, rate) => product * Number(rate || 1), 1);
  return isShare(chance) ? chance : 1;
}

const isShare = (number: number): boolean => number >= 0 && number <= 1;

/**
 * Returns the sample of a capture that a run evaluates again: the first sample or the run's, whichever judges more
 * captures.
 *
 * @example
 *     laterSample('0.05', '0.2')   // '0.2'
 */
export function laterSample(first: string, now: string): string {
  if (isAlways(first) !== isAlways(now)) return isAlways(first) ? first : now;
  return chanceOf(now) > chanceOf(first) ? now : first;
}

/** Returns the stratum that an assessment is counted in; `undefined` if it is in no counts. */
export const stratumOf = (metadata: Readonly<Record<string, string>>): string | undefined =>
  metadata[STRATUM_METADATA] ?? metadata[SAMPLE_METADATA];

/** Returns the stratum of a trace. Returns `undefined` if none of its assessments was counted. */
export function stratumOfTrace(assessments: readonly { metadata: Record<string, string> }[]): string | undefined {
  const samples = assessments.map(({ metadata }) => stratumOf(metadata)?.split('*')[0]);
  return samples.find((sample) => sample && (isAlways(sample) || isShare(Number(sample))));
}
