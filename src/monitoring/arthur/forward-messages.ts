/** Forwards the files of a batch of the queue, each for itself. What cannot be forwarded goes to the dead letters with its cause. */
import { DEAD_LETTER, type ForwardReceipt } from '../../core/contract/forward.ts';
import type { ForwardMetric } from '../../core/contract/names.ts';
import { PermanentError, RetryableError, toNamedError } from '../../core/errors/errors.ts';
import { logger } from '../../core/process/logging.ts';
import { singleLine } from '../../core/text/terminal-text.ts';
import { type FailedEvents, fileIn, type QueuedEvent } from '../start-run.ts';
import { type ForwardDependencies, forwardFile } from './forward-file.ts';

export interface ForwardMessage extends QueuedEvent {
  receiptHandle: string;
  attributes: QueuedEvent['attributes'] & { ApproximateReceiveCount: string };
}

interface MessageDependencies extends ForwardDependencies {
  /** Puts an event among the dead letters. */
  bury(body: string, attributes: Record<string, string>): Promise<void>;
  /** Has the queue deliver a message again after these seconds. */
  later(receiptHandle: string, seconds: number): Promise<void>;
  count(metric: ForwardMetric, value: number): void;
  /** The first wait of a file. Each is twice as long as the one before, up to an hour. */
  firstWaitSeconds: number;
}

const LONGEST_WAIT_SECONDS = 3600;
/** For `Retry-After`. All deliveries then take a week, and the dead letter has another: SQS counts its two weeks from the event on. */
const LONGEST_ASKED_SECONDS = 6 * 3600;
/** A file that has waited for two hours is late. SQS's own age of the oldest message leaves out what was received three times. */
const LATE_MS = 7_200_000;
/** Of an attribute of a message. */
const MAX_CHARS = 2000;

/** @returns the messages that the queue delivers again */
export async function forwardMessages(
  messages: readonly ForwardMessage[],
  deps: MessageDependencies,
): Promise<FailedEvents> {
  const failed: FailedEvents = { batchItemFailures: [] };
  const files = Map.groupBy(messages, ({ body }) => JSON.stringify(fileIn(body) ?? body));
  await Promise.all(
    [...files.values()].map(async (same) => {
      const error = await forward(same, deps);
      if (error === undefined) return;
      failed.batchItemFailures.push(...same.map(({ messageId }) => ({ itemIdentifier: messageId })));
      await Promise.all(same.map((message) => postpone(message, error, deps)));
    }),
  );
  return failed;
}

/** @returns the error after which the queue delivers the messages again */
async function forward([first]: readonly ForwardMessage[], deps: MessageDependencies): Promise<unknown> {
  if (first === undefined) return undefined;
  const file = fileIn(first.body);
  try {
    if (file === undefined) {
      const expected = 'an event "Object Created" of S3, as JSON';
      throw new PermanentError('NotAnEvent', 'The message is not the event of a capture file', { expected });
    }
    const receipt = await forwardFile(file, first.messageId, deps);
    if (receipt !== undefined) report(receipt, deps);
    return undefined;
  } catch (error) {
    const { name, message } = toNamedError(error);
    const isFinal = error instanceof PermanentError;
    logger.error(isFinal ? 'A file cannot be forwarded' : 'A file was not forwarded yet', {
      key: file?.key,
      error: error as Error,
    });
    if (!isFinal) return error;
    const text = singleLine(message).slice(0, MAX_CHARS).toWellFormed();
    return deps.bury(first.body, { [DEAD_LETTER.name]: name, [DEAD_LETTER.message]: text }).then(
      () => undefined,
      (unburied: unknown) => unburied,
    );
  }
}

function report(
  { key, posts, unknown, lines = 0, status, counts, rejected }: ForwardReceipt,
  { count }: MessageDependencies,
): void {
  logger.info('A file was forwarded', { key, posts, unknown, lines, status, counts, rejected });
  count('ForwardedFiles', 1);
  count('ForwardedInferences', counts?.success ?? 0);
  count('ForwardRejected', counts?.failure ?? 0);
  // A line may have several inferences.
  const { total = 0, success = 0 } = counts ?? {};
  if (lines > 0 && (success === 0 || total < lines)) count('ForwardUntaken', 1);
}

async function postpone(message: ForwardMessage, error: unknown, deps: MessageDependencies): Promise<void> {
  if (Date.now() - Number(message.attributes.SentTimestamp) > LATE_MS) deps.count('ForwardLate', 1);
  const before = Number(message.attributes.ApproximateReceiveCount) - 1;
  const seconds = Math.min(LONGEST_WAIT_SECONDS, deps.firstWaitSeconds * 2 ** before);
  const asked = error instanceof RetryableError ? Math.min(LONGEST_ASKED_SECONDS, (error.retryAfterMs ?? 0) / 1000) : 0;
  try {
    await deps.later(message.receiptHandle, Math.max(seconds, asked));
  } catch (failure) {
    // It comes back when the queue's own time is over.
    logger.warn('A message could not be postponed', { error: failure as Error });
  }
}
