/** Starts one execution for the capture files that arrive in a window. The rule's events reach it through a queue. */
import { hash } from 'node:crypto';
import type { SQSBatchResponse, SQSRecord, SQSRecordAttributes } from 'aws-lambda';
import { fileOf } from '../captures/files/capture-objects.ts';
import type { Work } from '../core/aws/storage.ts';
import { type FilesInput, type ListedFile, objectInputSchema } from '../core/contract/input.ts';
import { EVENT_RUN_PREFIX } from '../core/contract/names.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { logger } from '../core/process/logging.ts';

/** A message of the queue, as Lambda passes it on: an "Object Created" event as JSON. */
export type QueuedEvent = Pick<SQSRecord, 'messageId' | 'body'> & {
  attributes: Pick<SQSRecordAttributes, 'SentTimestamp'>;
};

interface StartDependencies extends Work {
  /** Whether a file does not belong to the stack. */
  excludes?(key: string): boolean;
  /** Starts an execution, or does nothing if an execution of that name was already started. */
  start(name: string, input: FilesInput): Promise<void>;
}

/**
 * Writes the list of the files, and starts an execution over it. The same messages get the same list and the same name,
 * so that a repeated delivery of a batch starts no second execution. Planning leaves out files that a running execution
 * processes.
 *
 * @returns the messages that are not events of a file; the queue repeats them, and then keeps them for a person
 * @throws when the list cannot be written, or the execution cannot be started: the queue repeats the whole batch
 *
 * @example
 *     const { batchItemFailures } = await startRun(event.Records, { storage, workBucket, excludes, start });
 */
export async function startRun(
  messages: readonly QueuedEvent[],
  { storage, workBucket, excludes, start }: StartDependencies,
): Promise<SQSBatchResponse> {
  const files = new Map<string, ListedFile>();
  const taken: QueuedEvent[] = [];
  const failed: SQSBatchResponse = { batchItemFailures: [] };
  for (const message of messages) {
    const file = fileIn(message.body);
    if (file === undefined) {
      logger.error('A message is not the event of a file', { messageId: message.messageId });
      failed.batchItemFailures.push({ itemIdentifier: message.messageId });
      continue;
    }
    if (excludes?.(file.key)) continue;
    taken.push(message);
    files.set(JSON.stringify([file.key, file.versionId ?? null, file.etag ?? null, file.bucket]), file);
  }
  if (taken.length === 0) return failed;
  const name = nameOf(taken);
  const key = workKeys.startList(name);
  // Sort the files, so that the order of the messages does not matter.
  const lines = [...files.keys()].toSorted().map((identity) => `${JSON.stringify(files.get(identity))}\n`);
  await storage.putText(workBucket, key, lines.join(''), 'application/jsonlines');
  await start(name, { files: { key } });
  logger.info('An execution was started', { name, files: lines.length });
  return failed;
}

/** Returns the file of an event. Returns `undefined` if the text is not such an event. */
export function fileIn(body: string): ListedFile | undefined {
  try {
    return fileOf(objectInputSchema.parse(JSON.parse(body)));
  } catch {
    return undefined;
  }
}

/** Hex digits of a name: more than enough for the executions of the same second. */
const NAME_DIGITS = 16;

/**
 * @returns a name such as `files-2026-11-20T10-00-00-0a1b2c3d4e5f6071`: the time of the first message, and a digest of
 *   their ids
 */
function nameOf(messages: readonly QueuedEvent[]): string {
  const sentMs = Math.min(...messages.map(({ attributes }) => Number(attributes.SentTimestamp)));
  const time = new Date(sentMs).toISOString().slice(0, 19).replaceAll(':', '-');
  const ids = messages.map(({ messageId }) => messageId).toSorted();
  return `${EVENT_RUN_PREFIX}${time}-${hash('sha256', ids.join('\n')).slice(0, NAME_DIGITS)}`;
}
