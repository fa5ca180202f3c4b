/** Lists the inferences of a call that carried several, each with its id. */
import type { DecodeOptions, Inference, Inferences, Payload } from '../types.ts';

/** A request and its reply, as they were decoded. */
export interface Exchange {
  request?: Payload | undefined;
  response?: Payload | undefined;
  /** Base of the ids of inferences: `inferenceId`, else `eventId`. */
  baseId?: string | undefined;
  options: DecodeOptions;
  /** Collects notes for the reader. */
  notes: string[];
}

interface InferenceCall extends Pick<Exchange, 'baseId' | 'notes'> {
  /** Number of inferences in the call. */
  count: number;
  /** Maximum number of inferences to list. */
  most: number;
  /** Name of the inferences in a note, in the plural. */
  what: string;
  mismatch?: { inputs: number; outputs: number } | false;
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
