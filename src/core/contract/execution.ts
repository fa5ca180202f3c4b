/** The parts that the payloads of both state machines, monitoring and replay, have in common. */
import * as z from 'zod';

/** An ISO 8601 instant with an offset, for example `2026-11-20T09:00:00Z`. */
export const instant = z.iso.datetime({ offset: true });

/** Timeout of the functions: the maximum of Lambda. A shard of a replay must end before it, slow replies included. */
export const FUNCTION_TIMEOUT_SECONDS = 900;

/** Maximum number of lines in a chunk that kill the function. A chunk with more fails. */
export const MOST_KILLERS = 11;

/**
 * Maximum number of times that a function may be killed on a chunk: before the first line is noted, before its captures
 * are judged one by one, once for each line that kills it and for one further line, and twice with its host.
 */
export const MOST_KILLS = MOST_KILLERS + 5;

/** An execution of a state machine, as its context object names it. */
export interface Execution {
  name: string;
  arn: string;
  /** ISO 8601. */
  startTime: string;
}

/** The error that a Catch of a state machine passes on. */
export const raisedSchema = z.object({ Error: z.string(), Cause: z.string().default('') });

export type Raised = z.infer<typeof raisedSchema>;

/** The place of an object in S3. */
export interface ObjectPlace {
  bucket: string;
  key: string;
}

/** A version of an object. Its ETag has no quotes. */
export interface ObjectVersion extends ObjectPlace {
  versionId?: string | undefined;
  etag: string;
}
