/** Digests that identify an unstreamed call, in case another source has captured it too. */
import { hash } from 'node:crypto';
import { knownOfContent } from './content.ts';
import type { Capture } from './types.ts';

const DIGEST_CHARS = 12;

/**
 * Returns digests of the inference id that the application gave, and of request and reply. Returns no digests for a
 * stream, or for content that is not kept.
 */
export const callDigests = (capture: Capture): string[] =>
  knownOfContent(capture, 'digests', () => digests(capture)) ?? [];

function digests({ call, capturedInferenceId, request, response, content }: Capture): string[] {
  if (call?.streamed) return [];
  const said = content !== 'none' && request?.text ? [request.text, response?.text] : undefined;
  const known = [capturedInferenceId, said].filter((one) => one !== undefined);
  return known.map((one) => hash('sha256', JSON.stringify(one)).slice(0, DIGEST_CHARS));
}
