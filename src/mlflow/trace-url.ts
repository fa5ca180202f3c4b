/** Addresses of MLflow's pages with traces. */

/**
 * Returns the address of MLflow's page with an experiment's traces. Returns `undefined` if the page needs a login
 * through AWS.
 *
 * @param server the server's address, or the ARN of a managed server
 * @param query selects the content of the page
 */
export function tracesUrl(server: string | undefined, experimentId: string, query: Record<string, string> = {}) {
  if (server === undefined || !/^https?:/.test(server) || !URL.canParse(server)) return undefined;
  const { origin, pathname } = new URL(server);
  const path = `experiments/${encodeURIComponent(experimentId)}/traces`;
  // The page shows the last week unless it is asked for all.
  const parameters = new URLSearchParams({ ...query, startTimeLabel: 'ALL' });
  return `${origin}${pathname.replace(/\/$/, '')}/#/${path}?${parameters}`;
}

/** Returns the address of a trace in MLflow's web page, or `undefined` likewise. */
export const traceUrl = (server: string | undefined, experimentId: string, traceId: string): string | undefined =>
  tracesUrl(server, experimentId, { selectedEvaluationId: traceId });
