/** Reads `traceparent` of W3C Trace Context: the span of the application that made a call. */

/** Of version 00, nothing may follow the flags. A version after it may add fields. */
const FORM = /^(?!ff|00.{54})[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-[\da-f]{2}(?:-|$)/;
const LENGTH = 55;

/** The parts of a `traceparent`, as hex digits: 32 of the trace, and 16 of the span. */
export type ParentSpan = { traceId: string; spanId: string };

/** Returns the text up to the flags, or `undefined` if it is malformed. A caller may have written anything. */
export const traceparentIn = (text: unknown): string | undefined =>
  typeof text === 'string' && FORM.test(text) ? text.slice(0, LENGTH) : undefined;

/** Returns the parts, or `undefined` if the text is malformed. */
export function parentSpanOf(traceparent: string | undefined): ParentSpan | undefined {
  const [, traceId, spanId] = FORM.exec(traceparent ?? '') ?? [];
  return traceId && spanId ? { traceId, spanId } : undefined;
}
