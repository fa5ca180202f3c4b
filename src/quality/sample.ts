/** The sample that a capture or a verdict belongs to, as text: on assessments in MLflow, and as a key of the counts. */
import type { JudgeScorer } from '../judge/types.ts';
import { SAMPLE_METADATA, STRATUM_METADATA } from '../mlflow/types.ts';

/** The stratum of code scorers. */
export const EVERY_CAPTURE = 'all';

/** An always rule has the capture judged. */
export const ALWAYS = 'always';

/** Returns the sample of a capture: `always`, or the share that LLM scorers judge, such as `0.05`. */
export const captureSample = (isAlways: boolean, sampleRate: number): string =>
  isAlways ? ALWAYS : String(sampleRate);

/** Returns the sample of a scorer on a capture: the capture's sample with the scorer's own rate, such as `0.05*0.5`. */
export const scorerSample = (ofCapture: string, { sampleRate = 1 }: Pick<JudgeScorer, 'sampleRate'>): string =>
  sampleRate === 1 || ofCapture === ALWAYS ? ofCapture : `${ofCapture}*${sampleRate}`;

/**
 * Returns the chance of a capture of this sample to be judged, from 0 to 1.
 *
 * @example
 *     chanceOf('0.5*0.1')   // 0.05
 */
export function chanceOf(sample: string): number {
  if (sample === ALWAYS) return 1;
  const chance = sample.split('*').reduce((product, rate) => product * Number(rate), 1);
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
  if (first === ALWAYS || now === ALWAYS) return ALWAYS;
  return Number(now) > Number(first) ? now : first;
}

/** Returns the stratum that an assessment is counted in; `undefined` if it is in no counts. */
export const stratumOf = (metadata: Readonly<Record<string, string>>): string | undefined =>
  metadata[STRATUM_METADATA] ?? metadata[SAMPLE_METADATA];

/** Returns the stratum of a trace. Returns `undefined` if none of its assessments was counted. */
export function stratumOfTrace(assessments: readonly { metadata: Record<string, string> }[]): string | undefined {
  const samples = assessments.map(({ metadata }) => stratumOf(metadata)?.split('*')[0]);
  return samples.find((sample) => sample === ALWAYS || (sample !== undefined && isShare(Number(sample))));
}
