/** Reads the captured reply that the reply of a replay is compared with. */
import { buffer } from 'node:stream/consumers';
import { decodeLine } from '../../captures/decode.ts';
import { isUndecoded } from '../../captures/reply-text.ts';
import type { Capture } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import { PermanentError, RetryableError } from '../../core/errors/errors.ts';
import { ownFault } from '../../core/process/own-fault.ts';
import { VERDICT_ERRORS } from '../../judge/errors.ts';
import type { pairwiseJudge } from '../../judge/pairwise.ts';
import { judgeableExchange } from '../../judge/scorers/applicability.ts';
import { decodeOptions, type ReadSettings } from '../chunk/decode-lines.ts';

/** A capture that can no longer be read costs the verdict of this exchange alone. */
const failed = (code: string, message: string) => ({ error: { code, message } });

export const pairReader =
  (storage: Storage, settings: ReadSettings): Parameters<typeof pairwiseJudge>[1] =>
  async (capture, signal) => {
    const place = capture.exchange?.captured;
    if (place === undefined) throw new Error('The exchange has nothing to compare');
    if (capture.isApart) return failed('LineTooHeavy', 'The exchange is too heavy to be compared');
    const { start, end, ...object } = place;
    try {
      const bytes = await buffer(await storage.read(object, { start, end }, signal));
      const raw = { bytes, place: { ...object, line: 0, start, end, objectTimeMs: 0 } };
      const line = decodeLine(raw, decodeOptions(settings));
      const { messages = [], replies: [after] = [] } = judgeableExchange(capture) ?? {};
      const before = line.kind === 'capture' ? replyOf(line.capture) : undefined;
      if (before !== undefined && after !== undefined) return { messages, before, after };
      return failed('CapturedReplyUnreadable', 'The captured reply cannot be read as a message');
    } catch (error) {
      if (signal?.aborted)
        throw new RetryableError('ChunkOutOfTime', 'The reading of a captured reply was canceled', {}, error);
      if (error instanceof PermanentError) return failed(error.name, error.message);
      const fault = ownFault(error);
      if (fault !== undefined) return failed(VERDICT_ERRORS.failed, fault);
      throw error;
    }
  };

/** A reply that could not be decoded is kept as captured, which no judge can compare. */
const replyOf = (capture: Capture) =>
  isUndecoded(capture.response) ? undefined : judgeableExchange(capture)?.replies[0];
