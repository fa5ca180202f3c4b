/** The id of an MLflow experiment, `undefined` where there is none of that name. */
export async function experimentId(mlflowUrl: string, name: string): Promise<string | undefined> {
  const url = new URL('/api/2.0/mlflow/experiments/get-by-name', mlflowUrl);
  url.searchParams.set('experiment_name', name);
  // On a connection of its own: MLflow's server closes idle ones, and one that is used at that moment breaks.
  const reply = await fetch(url, { headers: { connection: 'close' } });
  if (reply.status === 404) return undefined;
  if (!reply.ok)
    throw new Error(`MLflow did not tell its experiment ${name}; got: HTTP ${reply.status}; expected: 200`);
  const body = (await reply.json()) as { experiment?: { experiment_id?: string } };
  return body.experiment?.experiment_id;
}
