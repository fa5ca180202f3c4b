/** Lists the inferences of a call that carried several, each with its id. */
import type { Inference, Inferences } from '../types.ts';

export interface InferenceCall {
  /** Number of inferences in the call. */
  count: number;
  /** Maximum number of inferences to list. */
  most: number;
  /** Name of the inferences in a note, in the plural. */
  what: string;
  /** Base of the ids: `inferenceId`, else `eventId`. */
  baseId: string | undefined;
  mismatch?: { inputs: number; outputs: number } | false;
  /** Collects notes for the reader. */
  notes: string[];
}

/** Ids join ground truth: they end with `_{index}` when the call carried several inferences. */
export function listInferences(
  { count, most, what, baseId = '', mismatch, notes }: InferenceCall,
  contentAt: (index: number) => Pick<Inference, 'features' | 'prediction'>,
): Inferences {
  const inferences = Array.from({ length: Math.min(count, most) }, (_, index) => ({
    inferenceId: count > 1 ? `${baseId}_${index}` : baseId,
    index,
    ...contentAt(index),
  }));
  if (count > most) notes.push(`${count} ${what} in one call: the first ${most} have a span each`);
  if (!mismatch) return { inferences, inferenceCount: count };
  const { inputs, outputs } = mismatch;
  notes.push(`${inputs} ${inputs === 1 ? 'input' : 'inputs'} but ${outputs} ${outputs === 1 ? 'output' : 'outputs'}`);
  return { inferences, inferenceCount: count, inferenceMismatch: mismatch };
}
