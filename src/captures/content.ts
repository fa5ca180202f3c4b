/**
 * Work on the content of a capture. If a capture is too heavy for this process, its content is in another process,
 * which does all the work once and sends the results. Here the results replace the work.
 */
import type { Capture } from './types.ts';

/** The process that had the content was ended before it did this work. */
class LineTooHeavy extends Error {
  override readonly name = 'LineTooHeavy';
}

/**
 * Returns the result of work on the content of a capture.
 *
 * @param name unique name of the work
 * @throws the errors of the work; `LineTooHeavy` if another process should have done the work, and did not
 */
export function ofContent<T>({ results, isApart }: Capture, name: string, work: () => T): T {
  if (results === undefined) return work();
  if (!isApart) {
    const value = work();
    results.set(name, value);
    return value;
  }
  if (!results.has(name)) throw new LineTooHeavy();
  return results.get(name) as T;
}

/** Returns a capture without its content, but with the results of the work on the content. */
export function apart(capture: Capture): Capture {
  const { inferenceTimeMs, timeSource, capturedInferenceId, exchange, call, format, usage } = capture;
  const { error, results, masked, content, attributes } = capture;
  return {
    ...{ inferenceTimeMs, timeSource, capturedInferenceId, exchange, call, format, usage, results, masked, content },
    error: error && { statusCode: error.statusCode, message: '' },
    ...{ attributes, notes: [], isApart: true },
  };
}

/** Returns the same as `ofContent`, or `undefined` if another process should have done the work, and did not. */
export const knownOfContent = <T>(capture: Capture, name: string, work: () => T): T | undefined =>
  capture.isApart && !capture.results?.has(name) ? undefined : ofContent(capture, name, work);
