/** All MLflow tests through the double of a SageMaker-managed server, and AWS's own Python client with both doubles. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { lockedEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { SageMakerMlflowDouble } from '../doubles/sagemaker-mlflow.ts';
import { testCorpus } from '../helpers/mlflow-corpus.ts';
import { MANAGED_CREDENTIALS, ManagedSuite } from '../helpers/mlflow-managed.ts';
import { testMlflow } from '../helpers/mlflow-suite.ts';
import { chatTrace } from '../helpers/mlflow-traces.ts';

let suite: ManagedSuite;
beforeAll(async () => {
  suite = await ManagedSuite.start();
});
afterAll(() => suite?.stop());

testMlflow(() => suite);
testCorpus(() => suite);

describe('AWS’s Python client', () => {
  // Created here if it is missing: on a busy machine that takes longer than the limit of a test.
  beforeAll(() => lockedEnvironment('sagemaker-mlflow'));

  async function runPlugin(double: SageMakerMlflowDouble, traceId: string) {
    const python = await lockedEnvironment('sagemaker-mlflow');
    const script = packagePath('test', 'helpers', 'sagemaker_plugin.py');
    const env = {
      ...process.env,
      ...suite.managed.pythonEnv,
      AWS_ACCESS_KEY_ID: MANAGED_CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: MANAGED_CREDENTIALS.secretAccessKey,
      AWS_SESSION_TOKEN: MANAGED_CREDENTIALS.sessionToken,
      SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: double.url,
    };
    const given = [script, double.arn, `plugin ${double.arn}`, traceId];
    const { stdout } = await promisify(execFile)(python.python, given, { env });
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
  }

  test('works with the double, and exchanges traces with our client', async () => {
    const experiment = await suite.client.resolveExperiment('for the plugin');
    const trace = chatTrace(experiment.id, 'a');
    await suite.client.writeTraces(experiment, [trace]);
    const found = await runPlugin(suite.double, trace.traceId);
    expect(found).toMatchObject({
      metric: 0.9,
      text: 'hello',
      inputs: { question: 'Is it real?' },
      outputs: { answer: 'As near as can be.' },
      otherInputs: trace.spans[0]?.inputs,
    });
    const { experimentId, traceId } = found;
    expect((await suite.client.getTraces(experimentId, [traceId])).get(traceId)).toMatchObject({ state: 'OK' });
    expect(suite.double.requests.filter(({ status }) => status === 403)).toEqual([]);
  });
});
