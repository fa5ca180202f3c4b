/** Finds and creates experiments. */
import { hash } from 'node:crypto';
import { PermanentError } from '../core/errors/errors.ts';
import { MlflowRefusedError, orAbsent } from './errors.ts';
import {
  anyReply,
  createdExperimentReply,
  type ExperimentReply,
  experimentReply,
  experimentsReply,
} from './replies.ts';
import type { MlflowRest } from './rest.ts';
import type { Experiment, ExperimentOwner } from './types.ts';

/** If two clients create an experiment, the second finds the first one's. The third lookup is for a replica that lags. */
const MAX_LOOKUPS = 3;

/**
 * Finds the experiment by its name, or by the name that it had when a stack first wrote to it. Creates it if it is
 * missing.
 *
 * @throws PermanentError `MlflowExperimentDeleted`; its name is in use until it is restored or permanently deleted
 */
export async function resolveExperiment(rest: MlflowRest, name: string): Promise<Experiment> {
  for (let lookups = 1; ; lookups += 1) {
    const found = await findNamed(rest, name);
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

/** The tag of an experiment that a stack has found by this name. Keys take fewer characters than names. */
const nameTag = (name: string): string => `inference_monitor.name.${hash('sha256', name).slice(0, 16)}`;

async function findNamed(rest: MlflowRest, name: string): Promise<Experiment | undefined> {
  const found = await find(rest, '/api/2.0/mlflow/experiments/get-by-name', { experiment_name: name });
  if (found?.tags?.[nameTag(name)] !== undefined) return found;
  const [renamed] = await findTagged(rest, nameTag(name), 'yes');
  return renamed ?? found;
}

async function findTagged(rest: MlflowRest, key: string, value: string): Promise<Experiment[]> {
  const json = { filter: `tags."${key}" = '${value}'`, max_results: 10, view_type: 'ACTIVE_ONLY' };
  const call = { method: 'POST', path: '/api/2.0/mlflow/experiments/search', json } as const;
  return (await rest.repeat(call, experimentsReply)).experiments.map(experimentOf);
}

/**
 * Returns a notice for the user before the stack writes to the experiment named in its settings.
 *
 * @param experiment absent if it does not exist yet
 */
export async function experimentNotice(
  rest: MlflowRest,
  name: string,
  experiment: Experiment | undefined,
  { endpoint, stack }: Pick<ExperimentOwner, 'endpoint' | 'stack'>,
): Promise<string | undefined> {
  if (experiment !== undefined && experiment.name !== name) {
    return `The experiment "${name}" (id ${experiment.id}) has the name "${experiment.name}" in MLflow now. The stack still writes to it`;
  }
  if (experiment?.tags?.[stackTag(endpoint)] !== undefined) return undefined;
  // Another run may have made or claimed the experiment meanwhile.
  const before = (await findTagged(rest, stackTag(endpoint), stack)).find((one) => one.name !== name);
  return (
    before &&
    `The stack has written the traces of ${endpoint} to the experiment "${before.name}" (id ${before.id}), and "${name}" is another one: what is processed again is traced, judged, paid and counted again`
  );
}

/** The settings about the traces of an experiment. */
export interface ExperimentSettings {
  SAGEMAKER_ENDPOINT_NAME?: string | undefined;
  MLFLOW_EXPERIMENT_SHARED?: boolean | undefined;
}

/** Returns whether the endpoint of the settings wrote a trace. Other endpoints may write to a shared experiment, too. */
export const isOfEndpoint = (settings: ExperimentSettings, tags: Readonly<Record<string, string>>): boolean =>
  !settings.MLFLOW_EXPERIMENT_SHARED || tags.sagemaker_endpoint_name === settings.SAGEMAKER_ENDPOINT_NAME;

/**
 * Records which stack writes an endpoint's traces to the experiment, and the name by which the stack has found it. If
 * two stacks do so for the first time at the same moment, both may pass, but the next run of one of them fails.
 *
 * @throws PermanentError `MlflowExperimentOfOtherStack` if another stack is recorded
 */
export async function claimExperiment(
  rest: MlflowRest,
  { id, name, tags = {} }: Experiment,
  setName: string,
  { endpoint, stack, isShared }: ExperimentOwner,
): Promise<void> {
  const key = stackTag(endpoint);
  const first = tags[key] ?? (await addTag(rest, id, key, stack));
  if (first !== stack && !isShared) {
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
  if (tags[nameTag(setName)] === undefined) await addTag(rest, id, nameTag(setName), 'yes');
}

/** Adds a tag to an experiment that lacks it. @returns its value, which another client may have written */
async function addTag(rest: MlflowRest, id: string, key: string, value: string): Promise<string> {
  const json = { experiment_id: id, key, value };
  try {
    await rest.repeat({ method: 'POST', path: '/api/2.0/mlflow/experiments/set-experiment-tag', json }, anyReply);
    return value;
  } catch (error) {
    // MLflow refuses the second of two requests that add a tag at the same moment.
    const now = error instanceof MlflowRefusedError ? (await getExperiment(rest, id)).tags?.[key] : undefined;
    if (now === undefined) throw error;
    return now;
  }
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

/**
 * Returns the experiment with this name or former name, if it exists. A deleted experiment counts as missing, because
 * it has no traces.
 */
export async function findExperiment(rest: MlflowRest, name: string): Promise<Experiment | undefined> {
  try {
    return await findNamed(rest, name);
  } catch (error) {
    if (error instanceof PermanentError && error.name === 'MlflowExperimentDeleted') return undefined;
    throw error;
  }
}

async function find(rest: MlflowRest, path: string, query: Record<string, string>): Promise<Experiment | undefined> {
  const reply = await rest.repeat({ method: 'GET', path, query }, experimentReply).catch(orAbsent);
  if (reply === undefined) return undefined;
  const { experiment_id: id, name, lifecycle_stage: stage } = reply.experiment;
  if (stage === 'deleted') {
    throw new PermanentError('MlflowExperimentDeleted', 'The experiment is deleted in MLflow', {
      got: `experiment "${name}" (id ${id}) in the stage "deleted"`,
      expected: `an active experiment: restore it with "mlflow experiments restore --experiment-id ${id}" (MLFLOW_TRACKING_URI set), or set another MLFLOW_EXPERIMENT_NAME`,
    });
  }
  return experimentOf(reply.experiment);
}

const experimentOf = ({ experiment_id: id, name, artifact_location: artifactLocation, tags }: ExperimentReply) => ({
  id,
  name,
  artifactLocation,
  tags: Object.fromEntries(tags.map(({ key, value }) => [key, value])),
});
