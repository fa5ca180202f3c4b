/**
 * Reads the capture client's measurements of a call: the object `client` of a line. Any program may have written it.
 */
import * as z from 'zod';
import type { JsonObject } from './json.ts';

/** Maximum time that is accepted. SageMaker ends a stream after minutes, so a longer time cannot be a measurement. */
const MAX_MS = 24 * 3_600_000;
const time = z.number().min(0).max(MAX_MS);

/** The client keeps the times of the first 512 pieces. */
const MAX_PIECES = 512;
const piece = z.tuple([time, z.int().min(0)]);
const arePieces = (value: unknown): boolean =>
  Array.isArray(value) && value.length <= MAX_PIECES && value.every((one) => piece.safeParse(one).success);

const callSchema = z
  .object({
    streamed: z.boolean(),
    calls: z.enum(['streams', 'all']).optional(),
    ended: z.enum(['whole', 'broke', 'left', 'failed']),
    firstByteMs: time.optional(),
    endMs: time,
    pieces: z.custom<[number, number][]>(arePieces).optional(),
    pieceCount: z.int().min(0).optional(),
    left: z.object({ reply: z.enum(['too-large', 'memory', 'unreadable', 'unread']).optional() }).optional(),
    status: z.int().min(100).max(599).optional(),
    error: z
      .object({
        kind: z.enum(['no-connection', 'timeout', 'throttled', 'refused', 'service', 'model', 'stream', 'aborted']),
        class: z.string().regex(/^[\w.-]{1,100}$/),
      })
      .optional(),
  })
  .refine(({ firstByteMs = 0, pieces = [], endMs, ended, error }) => {
    const times = [firstByteMs, ...pieces.map(([ms]) => ms), endMs];
    const isInOrder = times.every((ms, n) => n === 0 || (times[n - 1] as number) <= ms);
    return isInOrder && (error !== undefined || ended === 'whole' || ended === 'left');
  });

/** A call as its caller wrote it down. Times are milliseconds since its start, the inference time. */
export type WrittenCall = z.infer<typeof callSchema>;

/** A call as its caller saw it. */
export interface ClientCall extends Omit<WrittenCall, 'pieces' | 'pieceCount' | 'left'> {
  /** Time of the first content of a stream. */
  firstTokenMs?: number | undefined;
  /** Reason why that time is unknown. */
  noFirstToken?: string;
}

/**
 * Separates the call from the other fields that Data Capture is not known to write. An object `client` of another form,
 * or with times that are negative, huge or disordered, remains in the fields.
 */
export function takeClientCall(fields: JsonObject, notes: string[]): { call?: WrittenCall; fields: JsonObject } {
  const { client, ...others } = fields;
  if (client === undefined) return { fields };
  const { data: call } = callSchema.safeParse(client);
  if (call !== undefined) return { call, fields: others };
  notes.push('the object “client” is not as the capture client writes it, and its times are not used');
  return { fields };
}
