/**
 * `fetch` on a new connection for each request. Servers close idle connections (MLflow's uvicorn after 5 s), and a request
 * that is sent on a connection while it closes fails. Such a failure would say nothing about the product.
 */
export const fetchOnNewConnection = (url: string, init: RequestInit & { headers?: Record<string, string> } = {}) =>
  fetch(url, { ...init, headers: { ...init.headers, connection: 'close' } });
