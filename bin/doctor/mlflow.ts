/** Checks that MLflow can be reached, and stores traces in the ways in which they are written. */

import { toNamedError } from '../../src/core/errors/errors.ts';
import { isAccessDenied } from '../../src/mlflow/capabilities.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { MlflowRefusedError } from '../../src/mlflow/errors.ts';
import { findExperiment, stackTag } from '../../src/mlflow/experiments.ts';
import type { Call } from '../../src/mlflow/rest.ts';
import { describeMlflow } from '../operate/sagemaker.ts';
import { bucketOf } from './buckets.ts';
import { checked, type Finding, finding } from './finding.ts';
import type { Ground } from './ground.ts';

const CHECK = 'mlflow';

/** A person waits, and a private address does not answer from here. */
const QUICK = { timeoutMs: 5_000, retry: { attempts: 2 } };

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

/** Whether a way of writing is open, without writing: the server looks at the permission and then refuses an empty trace. */
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

export async function checkMlflow(ground: Ground): Promise<Finding[]> {
  const { settings } = ground;
  const { MLFLOW_TRACKING_URI: uri } = settings;
  if (uri === undefined) return [];
  const managed = uri.startsWith('arn:')
    ? await checked(CHECK, 'sagemaker:DescribeMlflowApp or DescribeMlflowTrackingServer', () =>
        checkManaged(ground, uri),
      )
    : [];
  if (managed.some(({ level }) => level === 'error')) return managed;
  return [...managed, ...(await checkServer(settings))];
}

/** What SageMaker says of a managed MLflow: its state, and the bucket of its artifacts. */
async function checkManaged({ lambda, settings, region }: Ground, uri: string): Promise<Finding[]> {
  const found = await describeMlflow(lambda, uri);
  const ask = 'correct MLFLOW_TRACKING_URI: aws sagemaker list-mlflow-apps';
  if (found === undefined) return [finding('error', CHECK, `There is no ${uri} in ${region}.`, ask)];
  const { status, artifactStore = '' } = found;
  const faults: Finding[] = [];
  if (/Fail|Delet|Stop/.test(status)) {
    faults.push(
      finding('error', CHECK, `${uri} is ${status}.`, 'start or repair it, or set another MLFLOW_TRACKING_URI'),
    );
  } else if (/ing$|InProgress/.test(status)) {
    faults.push(finding('warning', CHECK, `${uri} is ${status}.`, 'wait until it is ready'));
  }
  const { MLFLOW_ARTIFACT_BUCKET: own } = settings;
  if (own !== undefined && artifactStore !== '' && bucketOf(own) !== bucketOf(artifactStore)) {
    const message = `MLflow stores artifacts in ${artifactStore}, and MLFLOW_ARTIFACT_BUCKET is ${own}: no spans could be written.`;
    faults.push(finding('error', 'artifacts', message, `set MLFLOW_ARTIFACT_BUCKET=${artifactStore}`));
  }
  return faults;
}

async function checkServer(settings: Ground['settings']): Promise<Finding[]> {
  const { MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_TOKEN } = process.env;
  const login = { MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_TOKEN };
  const client = mlflowOf({ ...settings, ...login }, undefined, QUICK);
  try {
    const { version, otlp } = await client.capabilities();
    const ways = [['the REST API', REST], ...(otlp ? [['OTLP', OTLP] as const] : [])] as const;
    const open = await Promise.all(ways.map(async ([name, call]) => [name, await isOpen(client, call)] as const));
    const { origin } = client.target.baseUrl;
    const shut = open.filter(([, state]) => state !== 'yes');
    const found = `Version ${version ?? 'unknown, used like 3.2'} answers at ${origin}`;
    if (shut.length === 0) {
      const ok = finding('ok', CHECK, `${found}, and takes traces by ${open.map(([name]) => name).join(' and ')}.`);
      return [ok, ...(await checkOwner(client, settings))];
    }
    return shut.map(([name, state]) =>
      state === 'denied'
        ? finding(
            'warning',
            CHECK,
            `${found}, and denies you to write by ${name}.`,
            'check your own login; the functions have theirs',
          )
        : finding(
            name === 'OTLP' ? 'warning' : 'error',
            CHECK,
            `${found}, but not for traces by ${name}: a gateway in front of it does not forward ${name === 'OTLP' ? OTLP.path : REST.path}.`,
            name === 'OTLP' ? 'forward it: writing by REST is slower' : 'forward it',
          ),
    );
  } catch (error) {
    return [unreachable(error)];
  } finally {
    client.close();
  }
}

/** Whether another stack writes the endpoint's traces to the experiment: then no run of this one starts. */
async function checkOwner({ rest }: MlflowClient, settings: Ground['settings']): Promise<Finding[]> {
  const { SAGEMAKER_ENDPOINT_NAME: endpoint, STACK_PREFIX: stack, MLFLOW_EXPERIMENT_SHARED: isShared } = settings;
  const { MLFLOW_EXPERIMENT_NAME: name = endpoint } = settings;
  if (endpoint === undefined || name === undefined || stack === undefined || isShared) return [];
  const first = (await findExperiment(rest, name))?.tags?.[stackTag(endpoint)];
  if (first === undefined || first === stack) return [];
  return [
    finding(
      'error',
      CHECK,
      `Stack ${first} writes the traces of ${endpoint} to the experiment "${name}": every run of ${stack} would fail by MlflowExperimentOfOtherStack.`,
      `set another MLFLOW_EXPERIMENT_NAME, or MLFLOW_EXPERIMENT_SHARED=true; if ${first} is gone, delete the experiment's tag ${stackTag(endpoint)}`,
    ),
  ];
}

function unreachable(error: unknown): Finding {
  const { name, message } = toNamedError(error);
  if (name === 'MlflowTooOld') return finding('error', CHECK, `${message}.`, 'set another MLFLOW_TRACKING_URI');
  const repair =
    name === 'MlflowAccessDenied'
      ? 'check your own login; the functions have theirs'
      : 'correct MLFLOW_TRACKING_URI, or start the server. The functions may reach it nevertheless, for example in a VPC';
  return finding('warning', CHECK, `It could not be asked from here (${name}: ${message}).`, repair);
}
