/** Reads the id of an MLflow experiment; `undefined` if no experiment has that name. */
export async function experimentId(mlflowUrl: string, name: string): Promise<string | undefined> {
  const url = new URL('/api/2.0/mlflow/experiments/get-by-name', mlflowUrl);
  url.searchParams.set('experiment_name', name);
  // A new connection: MLflow's server closes idle ones, and a request sent at that moment fails.
  const reply = await fetch(url, { headers: { connection: 'close' } });
  if (reply.status === 404) return undefined;
  if (!reply.ok)
    throw new Error(`MLflow did not return the experiment ${name}; got: HTTP ${reply.status}; expected: 200`);
  const body = (await reply.json()) as { experiment?: { experiment_id?: string } };
  return body.experiment?.experiment_id;
}
