/** The identity of a question to the judge. Captures with the same digest look the same to the judge. */
import { hash } from 'node:crypto';
import type { Capture } from '../captures/types.ts';
import { MAX_RECORD_TOKENS } from './prompt/build-prompt.ts';
import { captureRecord } from './prompt/record.ts';

/** 128 bits, the length of a record id in batch inference. */
export const QUESTION_DIGITS = 32;

/**
 * Returns the digest of the judge's input about a capture: 32 hex digits of SHA-256 over the judge, the record, and the
 * location of a reply to compare with, if any. The scorers are not part of it, so that earlier answers are found when
 * another set of scorers is asked about the same input.
 *
 * @param judge the judge's `sourceId`
 */
export function questionOf(judge: string, capture: Capture): string {
  // The code of a fence is random. Here it is the first of a series that the texts do not contain.
  let tried = 0;
  const { text } = captureRecord(capture, MAX_RECORD_TOKENS, (bytes) => {
    tried += 1;
    return hash('sha256', `fence ${tried}`, 'buffer').subarray(0, bytes);
  });
  const { captured } = capture.exchange ?? {};
  return hash('sha256', JSON.stringify([judge, text, ...(captured ? [captured] : [])])).slice(0, QUESTION_DIGITS);
}
