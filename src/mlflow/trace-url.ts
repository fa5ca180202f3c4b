/** Where a person can look at a trace in MLflow. */

/**
 * Returns the address of a trace in MLflow's web page; `undefined` if the server has no page without a login through AWS.
 *
 * @param server the server's address, or the ARN of a managed one
 */
export function traceUrl(server: string | undefined, experimentId: string, traceId: string): string | undefined {
  if (server === undefined || !/^https?:/.test(server) || !URL.canParse(server)) return undefined;
  const { origin, pathname } = new URL(server);
  const path = `experiments/${encodeURIComponent(experimentId)}/traces`;
  return `${origin}${pathname.replace(/\/$/, '')}/#/${path}?selectedEvaluationId=${encodeURIComponent(traceId)}&startTimeLabel=ALL`;
}
