/**
 * Hides the capture's own requests from tracers in the application, and finds the span of a call, by names that the
 * tracers' packages share. No tracer is imported.
 */

/** X-Ray passes over a request that has its header. Of another it raises an error, where there is no segment. */
export const passXRay =
  <A extends { request: unknown }, R>(next: (args: A) => R) =>
  (args: A): R => {
    Object.assign((args.request as { headers: object }).headers, { 'X-Amzn-Trace-Id': 'Sampled=0' });
    return next(args);
  };

/** OpenTelemetry's API, if the application has set it up. */
const openTelemetry = () => Reflect.get(globalThis, Symbol.for('opentelemetry.js.api.1')) ?? {};

/** Returns the active span of OpenTelemetry as `traceparent` of W3C Trace Context. */
export function activeTraceparent(): string | undefined {
  try {
    const span = openTelemetry().context?.active().getValue(Symbol.for('OpenTelemetry Context Key SPAN'));
    const { traceId, spanId, traceFlags } = span.spanContext();
    return `00-${traceId}-${spanId}-0${traceFlags & 1}`;
  } catch {
    return undefined;
  }
}

/** Runs work without spans of OpenTelemetry. */
export function untraced<T>(work: () => T): T {
  const { context } = openTelemetry();
  const suppressed = Symbol.for('OpenTelemetry SDK Context Key SUPPRESS_TRACING');
  return context === undefined ? work() : context.with(context.active().setValue(suppressed, true), work);
}
