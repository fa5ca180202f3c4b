/** Finds and creates experiments. */
import { PermanentError } from '../core/errors/errors.ts';
import { MlflowRefusedError, orAbsent } from './errors.ts';
import { anyReply, createdExperimentReply, experimentReply } from './replies.ts';
import type { MlflowRest } from './rest.ts';
import type { Experiment, ExperimentOwner } from './types.ts';

/** If two clients create an experiment, the second finds the first one's. The third lookup is for a replica that lags. */
const MAX_LOOKUPS = 3;

/**
 * Finds the experiment by its name, or creates it.
 *
 * @throws PermanentError `MlflowExperimentDeleted`; its name is in use until it is restored or permanently deleted
 */
export async function resolveExperiment(rest: MlflowRest, name: string): Promise<Experiment> {
  for (let lookups = 1; ; lookups += 1) {
    const found = await find(rest, '/api/2.0/mlflow/experiments/get-by-name', { experiment_name: name });
    if (found) return found;
    try {
      const create = { method: 'POST', path: '/api/2.0/mlflow/experiments/create', json: { name } } as const;
      const { experiment_id: id } = await rest.repeat(create, createdExperimentReply);
      return await getExperiment(rest, id);
    } catch (error) {
      const isThere = error instanceof MlflowRefusedError && error.errorCode === 'RESOURCE_ALREADY_EXISTS';
      if (!isThere || lookups >= MAX_LOOKUPS) throw error;
    }
  }
}

/** The tag of an experiment with the stack that was the first to write an endpoint's traces there. */
export const stackTag = (endpoint: string): string => `inference_monitor.stack.${endpoint}`;

/**
 * Notes which stack writes an endpoint's traces to the experiment. Of two stacks that do so for the first time at the same moment, both
 * may pass; the next run of one of them does not.
 *
 * @throws PermanentError `MlflowExperimentOfOtherStack` if it is another one
 */
export async function claimExperiment(
  rest: MlflowRest,
  { id, name, tags = {} }: Experiment,
  owner: ExperimentOwner,
): Promise<void> {
  const { endpoint, stack, isShared } = owner;
  const key = stackTag(endpoint);
  const first = tags[key];
  if (first === stack || (first !== undefined && isShared)) return;
  if (first === undefined) {
    const json = { experiment_id: id, key, value: stack };
    try {
      await rest.repeat({ method: 'POST', path: '/api/2.0/mlflow/experiments/set-experiment-tag', json }, anyReply);
    } catch (error) {
      // MLflow refuses the second of two requests that add a tag at the same moment.
      const now = error instanceof MlflowRefusedError ? await getExperiment(rest, id) : undefined;
      if (now?.tags?.[key] === undefined) throw error;
      await claimExperiment(rest, now, owner);
    }
    return;
  }
  throw new PermanentError(
    'MlflowExperimentOfOtherStack',
    'Another stack writes the traces of this endpoint to the experiment',
    {
      got: `stack ${first} in the tag ${key} of experiment "${name}" (id ${id})`,
      expected: `another MLFLOW_EXPERIMENT_NAME for stack ${stack}; or MLFLOW_EXPERIMENT_SHARED=true, with which both may count one verdict; or, if stack ${first} is gone, the experiment without that tag`,
      where: rest.target.baseUrl.origin,
    },
  );
}

/** @throws PermanentError `MlflowExperimentDeleted`, `MlflowExperimentMissing` */
export async function getExperiment(rest: MlflowRest, id: string): Promise<Experiment> {
  const found = await find(rest, '/api/2.0/mlflow/experiments/get', { experiment_id: id });
  if (found) return found;
  throw new PermanentError('MlflowExperimentMissing', 'The experiment does not exist', {
    got: `experiment id ${id}`,
    expected: 'an experiment of this tracking server; a new run on the captures creates one',
    where: rest.target.baseUrl.origin,
  });
}

/** Returns the experiment with this name, if it exists. A deleted one counts as missing, because it has no traces. */
export async function findExperiment(rest: MlflowRest, name: string): Promise<Experiment | undefined> {
  try {
    return await find(rest, '/api/2.0/mlflow/experiments/get-by-name', { experiment_name: name });
  } catch (error) {
    if (error instanceof PermanentError && error.name === 'MlflowExperimentDeleted') return undefined;
    throw error;
  }
}

async function find(rest: MlflowRest, path: string, query: Record<string, string>): Promise<Experiment | undefined> {
  const reply = await rest.repeat({ method: 'GET', path, query }, experimentReply).catch(orAbsent);
  if (reply === undefined) return undefined;
  const { experiment_id: id, name, artifact_location: artifactLocation, lifecycle_stage: stage } = reply.experiment;
  if (stage === 'deleted') throw deleted(id, name);
  const tags = Object.fromEntries(reply.experiment.tags.map(({ key, value }) => [key, value]));
  return { id, name, artifactLocation, tags };
}

const deleted = (id: string, name: string): PermanentError =>
  new PermanentError('MlflowExperimentDeleted', 'The experiment is deleted in MLflow', {
    got: `experiment "${name}" (id ${id}) in the stage "deleted"`,
    expected: `an active experiment: restore it with "mlflow experiments restore --experiment-id ${id}" (MLFLOW_TRACKING_URI set), or set another MLFLOW_EXPERIMENT_NAME`,
  });
