/** Reads what the capture client measured of a call: the object `client` of a line. Anybody may have written it. */
import * as z from 'zod';
import type { JsonObject } from './json.ts';

/** SageMaker ends a stream after minutes. Whatever is longer was not measured. */
const MAX_MS = 24 * 3_600_000;
const time = z.number().min(0).max(MAX_MS);

const callSchema = z
  .object({
    streamed: z.boolean(),
    calls: z.enum(['streams', 'all']).optional(),
    ended: z.enum(['whole', 'broke', 'left', 'failed']),
    firstByteMs: time.optional(),
    firstContentMs: time.optional(),
    endMs: time,
    status: z.int().min(100).max(599).optional(),
    error: z
      .object({
        kind: z.enum(['no-connection', 'timeout', 'throttled', 'refused', 'service', 'model', 'stream', 'aborted']),
        class: z.string().regex(/^[\w.-]{1,100}$/),
      })
      .optional(),
  })
  .refine(({ firstByteMs = 0, firstContentMs = firstByteMs, endMs, ended, error }) => {
    const isInOrder = firstByteMs <= firstContentMs && firstContentMs <= endMs;
    return isInOrder && (error !== undefined || ended === 'whole' || ended === 'left');
  });

/** A call as its caller saw it. Times are milliseconds since its start, the inference time. */
export type ClientCall = z.infer<typeof callSchema>;

/**
 * Takes the call out of the fields that Data Capture is not known to write. An object `client` of another form, or with times that are
 * negative, huge or disordered, stays among them.
 */
export function takeClientCall(fields: JsonObject, notes: string[]): { call?: ClientCall; fields: JsonObject } {
  const { client, ...others } = fields;
  if (client === undefined) return { fields };
  const { data: call } = callSchema.safeParse(client);
  if (call !== undefined) return { call, fields: others };
  notes.push('the object “client” is not as the capture client writes it, and its times are not used');
  return { fields };
}
