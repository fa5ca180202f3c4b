/** Parses the input of a ground truth run. */
import { type TruthInput, truthInputSchema } from '../core/contract/ground-truth.ts';
import { objectInputSchema } from '../core/contract/input.ts';
import { PermanentError } from '../core/errors/errors.ts';

const ALLOWED =
  '{"bucket":…,"key":…}, a label file; {"bucket":…,"prefix":…}, all label files under it; {"files":{"key":"starts/…"}}; ' +
  'the event "Object Created" of a label file; or {}, for labels that wait';

/** @throws PermanentError `InvalidInput`, with the input and the allowed shapes */
export function parseTruthInput(raw: unknown): TruthInput {
  const event = objectInputSchema.safeParse(raw);
  if (event.success) {
    const { bucket, object } = event.data.detail;
    return { bucket: bucket.name, key: object.key };
  }
  const input = truthInputSchema.safeParse(raw);
  if (input.success) return input.data;
  const facts = { got: raw, expected: ALLOWED };
  throw new PermanentError('InvalidInput', 'The input of the execution is no label files', facts);
}
