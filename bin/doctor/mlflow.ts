/** Checks that MLflow can be reached, and stores traces by the methods by which they are written. */

import { toNamedError } from '../../src/core/errors/errors.ts';
import { s3Place } from '../../src/core/settings/kinds.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { isAccessDenied, MlflowRefusedError } from '../../src/mlflow/errors.ts';
import { experimentNotice, findExperiment, stackTag } from '../../src/mlflow/experiments.ts';
import type { Call } from '../../src/mlflow/rest.ts';
import { describeMlflow } from '../operate/aws-calls.ts';
import { broken, type CheckContext, checked, type Found, hasError, ok, under, warning } from './finding.ts';

/** A person waits, and a private address does not answer from here. */
const QUICK = { timeoutMs: 5_000, retry: { attempts: 2 } };

const OWN_LOGIN = 'check your own login; the functions have theirs';

/** A trace without content, which every server refuses before it stores anything. */
const REST: Call = { method: 'POST', path: '/api/3.0/mlflow/traces', json: {} };
const OTLP: Call = {
  method: 'POST',
  path: '/v1/traces',
  bytes: new Uint8Array(),
  contentType: 'application/x-protobuf',
  headers: { 'x-mlflow-experiment-id': '0' },
};

type Writable = 'yes' | 'no route' | 'denied';

/**
 * Checks whether writing is permitted, without writing: the server checks the permission and then refuses an empty
 * trace.
 */
async function isOpen({ rest }: MlflowClient, call: Call): Promise<Writable> {
  try {
    await rest.bytes(call);
    return 'yes';
  } catch (error) {
    if (isAccessDenied(error)) return 'denied';
    if (!(error instanceof MlflowRefusedError)) throw error;
    return error.routeMissing ? 'no route' : 'yes';
  }
}

export async function checkMlflow(context: CheckContext, uri: string): Promise<Found> {
  const managed = uri.startsWith('arn:')
    ? await checked('mlflow', 'sagemaker:DescribeMlflowApp', () => checkManaged(context, uri))
    : [];
  if (hasError(managed)) return managed;
  return [managed, await checkServer(context.settings)];
}

/** Checks a managed MLflow in SageMaker: its state, and the bucket of its artifacts. */
async function checkManaged({ lambda, settings, region }: CheckContext, uri: string): Promise<Found> {
  const found = await describeMlflow(lambda, uri);
  const ask = 'correct MLFLOW_TRACKING_URI: aws sagemaker list-mlflow-apps';
  if (found === undefined) return broken(`There is no ${uri} in ${region}.`, ask);
  const { Status = '', ArtifactStoreUri = '' } = found;
  return [stateFault(uri, Status), artifactFault(settings.MLFLOW_ARTIFACT_BUCKET, ArtifactStoreUri)];
}

function stateFault(uri: string, status: string): Found {
  const message = `${uri} is ${status}.`;
  if (/Fail|Delet|Stop/.test(status)) return broken(message, 'start or repair it, or set another MLFLOW_TRACKING_URI');
  return /ing$|InProgress/.test(status) && warning(message, 'wait until it is ready');
}

function artifactFault(own: string | undefined, store: string): Found {
  if (store === '' || s3Place(own).bucket === s3Place(store).bucket) return undefined;
  const message = `MLflow stores artifacts in ${store}, and MLFLOW_ARTIFACT_BUCKET is ${own ?? 'not set'}: no spans could be written.`;
  return under('artifacts', broken(message, `set MLFLOW_ARTIFACT_BUCKET=${store}`));
}

async function checkServer(settings: CheckContext['settings']): Promise<Found> {
  const { MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_TOKEN } = process.env;
  const login = { MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_TOKEN };
  const client = mlflowOf({ ...settings, ...login }, undefined, QUICK);
  try {
    const { version, otlp } = await client.capabilities();
    const methods = [['the REST API', REST], ...(otlp ? [['OTLP', OTLP] as const] : [])] as const;
    const open = await Promise.all(methods.map(async ([name, call]) => [name, await isOpen(client, call)] as const));
    const { origin } = client.target.baseUrl;
    const shut = open.filter(([, state]) => state !== 'yes');
    const found = `Version ${version ?? 'unknown, used like 3.2'} answers at ${origin}`;
    if (shut.length === 0) {
      const takes = ok(`${found}, and takes traces by ${open.map(([name]) => name).join(' and ')}.`);
      return [takes, await checkOwner(client, settings)];
    }
    return shut.map(([name, state]) => {
      if (state === 'denied') return warning(`${found}, and denies you to write by ${name}.`, OWN_LOGIN);
      const shutText = `${found}, but not for traces by ${name}: a gateway in front of it does not forward`;
      if (name === 'OTLP') return warning(`${shutText} ${OTLP.path}.`, 'forward it: writing by REST is slower');
      return broken(`${shutText} ${REST.path}.`, 'forward it');
    });
  } catch (error) {
    return unreachable(error);
  } finally {
    client.close();
  }
}

/**
 * Checks whether another stack writes the endpoint's traces to the experiment, because then no run of this stack
 * starts; and whether its name has changed.
 */
async function checkOwner({ rest }: MlflowClient, settings: CheckContext['settings']): Promise<Found> {
  const { SAGEMAKER_ENDPOINT_NAME: endpoint, STACK_PREFIX: stack, MLFLOW_EXPERIMENT_SHARED: isShared } = settings;
  const { MLFLOW_EXPERIMENT_NAME: name = endpoint } = settings;
  if (endpoint === undefined || name === undefined || stack === undefined) return undefined;
  const experiment = await findExperiment(rest, name);
  const first = experiment?.tags?.[stackTag(endpoint)];
  if (first !== undefined && first !== stack && !isShared) {
    return broken(
      `Stack ${first} writes the traces of ${endpoint} to the experiment "${name}": every run of ${stack} would fail by MlflowExperimentOfOtherStack.`,
      `set another MLFLOW_EXPERIMENT_NAME, or MLFLOW_EXPERIMENT_SHARED=true; if ${first} is gone, delete the experiment's tag ${stackTag(endpoint)}`,
    );
  }
  const notice = await experimentNotice(rest, name, experiment, { endpoint, stack });
  return notice === undefined
    ? undefined
    : warning(`${notice}.`, 'set MLFLOW_EXPERIMENT_NAME to the name in MLflow, or leave it if that is meant');
}

function unreachable(error: unknown): Found {
  const { name, message } = toNamedError(error);
  if (name === 'MlflowTooOld') return broken(`${message}.`, 'set another MLFLOW_TRACKING_URI');
  const repair =
    name === 'MlflowAccessDenied'
      ? OWN_LOGIN
      : 'correct MLFLOW_TRACKING_URI, or start the server. The functions may reach it nevertheless, for example in a VPC';
  return warning(`MLflow could not be reached from here (${name}: ${message}).`, repair);
}
