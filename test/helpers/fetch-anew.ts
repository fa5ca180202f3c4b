/**
 * `fetch` on a connection of its own. Servers close one that is idle (uvicorn, which MLflow runs on, after 5 s), and a
 * request that is written on it at that very moment fails: that would be the test's failure, and nobody's fault.
 */
export const fetchAnew = (url: string, init: RequestInit & { headers?: Record<string, string> } = {}) =>
  fetch(url, { ...init, headers: { ...init.headers, connection: 'close' } });
