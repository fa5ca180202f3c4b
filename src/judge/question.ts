/** The identity of a request to the judge: requests with the same digest ask the same about the same words. */
import { hash } from 'node:crypto';
import type { Capture } from '../captures/types.ts';
import { MAX_RECORD_TOKENS } from './prompt/build-prompt.ts';
import { captureRecord } from './prompt/record.ts';
import type { JudgeScorer } from './types.ts';

/** 128 bits, the length of a record id in batch inference. */
const DIGITS = 32;

/**
 * Returns the digest of asking these scorers about a capture: 32 hex digits of SHA-256 over the judge, the questions and the
 * record as the judge reads it.
 *
 * @param judge the judge's `sourceId`
 */
export function questionOf(judge: string, capture: Capture, scorers: readonly JudgeScorer[]): string {
  // The code of a fence is random. Here it is the first of a series that the texts do not contain.
  let tried = 0;
  const { text } = captureRecord(capture, MAX_RECORD_TOKENS, (bytes) => {
    tried += 1;
    return hash('sha256', `fence ${tried}`, 'buffer').subarray(0, bytes);
  });
  const questions = scorers.map(({ name, version }) => [name, version]);
  return hash('sha256', JSON.stringify([judge, questions, text])).slice(0, DIGITS);
}
