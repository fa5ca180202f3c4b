/** Test of the release that is deployed without Node: a template and zips, as the AWS CLI uploads and deploys them. */
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { CreateStackCommand, waitUntilStackCreateComplete } from '@aws-sdk/client-cloudformation';
import { CreateBucketCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { readStackOutputs } from '../../bin/operate/stack-outputs.ts';
import { makeRelease } from '../../tools/package/make-release.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import { DeployedPipeline } from '../helpers/deployed-pipeline.ts';
import { environment } from '../integration/bin/stack.ts';

const BUCKET = 'zips-of-a-person';
const ENDPOINT = 'released-endpoint';
const STEP_SECONDS = 240;

test('a release is deployed with parameters alone, and processes new captures', async () => {
  const { clients, directory, mlflowUrl } = environment;
  const out = join(directory, 'release');
  const settings = {
    STACK_PREFIX: 'other',
    MLFLOW_TRACKING_URI: 'http://mlflow.invalid:5000',
    SAGEMAKER_ENDPOINT_NAME: 'other-endpoint',
    DATA_CAPTURE_S3_BUCKET: 'other-captures',
    BATCH_WINDOW_SECONDS: '0',
  };
  makeRelease(settings, process.env.FUNCTION_BUNDLES ?? join(directory, 'functions'), out);

  for (const Bucket of [BUCKET, 'captures-of-a-person']) await clients.s3.send(new CreateBucketCommand({ Bucket }));
  for (const file of globSync([join(out, 'zips', '*.zip'), join(out, 'template.json')])) {
    const Key = `monitor/${basename(file)}`;
    await clients.s3.send(new PutObjectCommand({ Bucket: BUCKET, Key, Body: readFileSync(file) }));
  }
  expect(readdirSync(out).toSorted()).toEqual(['template.json', 'zips']);

  const parameters = {
    StackPrefix: 'released',
    EndpointName: ENDPOINT,
    CaptureBucket: 'captures-of-a-person',
    MlflowUrl: mlflowUrl,
    ZipBucket: BUCKET,
    ZipPrefix: 'monitor/',
  };
  const StackName = 'a-name-of-theirs';
  await clients.cloudFormation.send(
    new CreateStackCommand({
      StackName,
      TemplateURL: `${environment.ministack.url}/${BUCKET}/monitor/template.json`,
      Capabilities: ['CAPABILITY_NAMED_IAM'],
      Parameters: Object.entries(parameters).map(([ParameterKey, ParameterValue]) => ({
        ParameterKey,
        ParameterValue,
      })),
    }),
  );
  const client = clients.cloudFormation;
  await waitUntilStackCreateComplete({ client, maxWaitTime: STEP_SECONDS, minDelay: 1, maxDelay: 1 }, { StackName });

  const outputs = await readStackOutputs(clients, 'released');
  expect(outputs).toMatchObject({
    captureBucket: 'captures-of-a-person',
    capturePrefix: `${ENDPOINT}/`,
    endpoint: ENDPOINT,
    experiment: ENDPOINT,
    mlflowUri: mlflowUrl,
  });
  // The bucket's events are switched on, the rule starts a run, and its functions write to this MLflow.
  const pipeline = new DeployedPipeline(environment, 'released', outputs);
  const run = await pipeline.process(`${ENDPOINT}/AllTraffic/2026/11/20/10/a.jsonl`, [chatLine('released')]);
  expect(run.status).toBe('SUCCEEDED');
  expect(run.summary?.lines).toMatchObject({ planned: 1, traced: 1 });
});
