/**
 * Hides the capture's own requests from tracers in the application, by names that the tracers' packages share. No
 * tracer is imported.
 */

/** X-Ray passes over a request that has its header. Of another it raises an error, where there is no segment. */
export const passXRay =
  <A extends { request: unknown }, R>(next: (args: A) => R) =>
  (args: A): R => {
    Object.assign((args.request as { headers: object }).headers, { 'X-Amzn-Trace-Id': 'Sampled=0' });
    return next(args);
  };

/** Runs work without spans of OpenTelemetry. */
export function untraced<T>(work: () => T): T {
  const { context } = Reflect.get(globalThis, Symbol.for('opentelemetry.js.api.1')) ?? {};
  const suppressed = Symbol.for('OpenTelemetry SDK Context Key SUPPRESS_TRACING');
  return context === undefined ? work() : context.with(context.active().setValue(suppressed, true), work);
}
