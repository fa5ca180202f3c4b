/** What became of each capture file that was forwarded to Arthur: one receipt a file, in the work bucket. */
import * as z from 'zod';

const counts = z.object({ total: z.number(), success: z.number(), failure: z.number() });
export type ArthurCounts = z.infer<typeof counts>;

/** Inferences that Arthur did not take, by what it said about them. */
const rejected = z.object({
  status: z.number(),
  /** Without Arthur's words, which may quote a capture. */
  message: z.string(),
  count: z.number(),
  /** The event id of the first, if it looks like one of SageMaker's, and the row in it. */
  first: z.string().optional(),
});
export type Rejected = z.infer<typeof rejected>;

export const forwardReceiptSchema = z.object({
  bucket: z.string(),
  key: z.string(),
  /** Without quotes. */
  etag: z.string(),
  /**
   * `sending`: a function is at it, until `untilMs` at most; `waiting`: it is tried again; `failed`: its message is in the dead-letter
   * queue, with `error`.
   */
  state: z.enum(['sending', 'waiting', 'forwarded', 'failed']),
  /** The id of the queue's message. */
  message: z.string(),
  /** Epoch ms. After it, the function that was at it is dead. */
  untilMs: z.number(),
  /** Uploads that began. */
  posts: z.number(),
  /** Those of which Arthur may have taken the file without telling. If there are any, it may have the file more than once. */
  unknown: z.number(),
  /** Bytes. */
  size: z.number().optional(),
  at: z.string(),
  /** Of the file, without blank ones. */
  lines: z.number().optional(),
  status: z.number().optional(),
  counts: counts.optional(),
  rejected: z.array(rejected).optional(),
  error: z.object({ name: z.string(), message: z.string() }).optional(),
});
export type ForwardReceipt = z.infer<typeof forwardReceiptSchema>;

/** The attributes of a dead letter. */
export const DEAD_LETTER = { name: 'ErrorName', message: 'ErrorMessage' } as const;
