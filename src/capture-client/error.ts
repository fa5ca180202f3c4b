/** Tells the kinds of errors of a call apart. */
const MOST_CLASS_CHARS = 100;

/** @param status of the last reply, or `undefined` if there was none */
export function errorOf(error: unknown, status: number | undefined): { kind: string; class: string } {
  const { name = 'Error', code } = (error ?? {}) as { name?: string; code?: unknown };
  const system = typeof code === 'string' && /^E[A-Z_]+$/.test(code) ? code : '';
  // A server may name its errors in any way; the reader of the line takes no other characters.
  const told = (system || String(name)).slice(0, MOST_CLASS_CHARS).replace(/[^\w.-]/g, '_');
  return { kind: kindOf(name, system, status), class: told || 'Error' };
}

function kindOf(name: string, code: string, status: number | undefined): string {
  if (name === 'AbortError') return 'aborted';
  if (name === 'ModelError') return 'model';
  // The reply had begun.
  if (status !== undefined && status < 400) return 'stream';
  // The SDK calls other failures of a connection time-outs, too.
  if (code === '' ? name === 'TimeoutError' : code === 'ETIMEDOUT') return 'timeout';
  if (status === undefined) return 'no-connection';
  if (status === 429 || status === 503 || /Throttl|TooManyRequests|ModelNotReady/.test(name)) return 'throttled';
  return status >= 500 ? 'service' : 'refused';
}
