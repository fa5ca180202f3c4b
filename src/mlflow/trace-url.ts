/** Where a person can look at traces in MLflow. */

/**
 * Returns the address of the page with an experiment's traces in MLflow; `undefined` if the server has no page without a login
 * through AWS.
 *
 * @param server the server's address, or the ARN of a managed one
 * @param query selects what the page shows
 */
export function tracesUrl(
  server: string | undefined,
  experimentId: string,
  query: Record<string, string> = {},
): string | undefined {
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
