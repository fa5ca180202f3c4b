/** `deploy`, `destroy`, `start` and `smoke` of the installed package, with the CDK beside it, as a person runs it: to the emulated AWS. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitUntilStackCreateComplete } from '@aws-sdk/client-cloudformation';
import {
  CreateBucketCommand,
  GetBucketNotificationConfigurationCommand,
  PutBucketNotificationConfigurationCommand,
} from '@aws-sdk/client-s3';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { CAPTURE_BUCKET, type LocalEnvironment, startEnvironment } from '../helpers/local-environment.ts';
import { installPackage, run } from '../helpers/package.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

let environment: LocalEnvironment;
let folder: string;
beforeAll(async () => {
  folder = temporaryFolder('package-deploy-');
  environment = await startEnvironment({});
  const { clients } = environment;
  await clients.s3.send(new CreateBucketCommand({ Bucket: CAPTURE_BUCKET }));
  await installPackage(folder);
  await waitUntilStackCreateComplete({ client: clients.cloudFormation, maxWaitTime: 240 }, { StackName: 'CDKToolkit' });
});
afterAll(async () => {
  await environment?.stop();
});

test('says what to install, then deploys, and the other commands find the stack', async () => {
  const env = { ...process.env, ...environment.ministack.env, CI: 'true', DOTENV_CONFIG_PATH: '.env' };
  const monitor = (...words: string[]) =>
    run(join(folder, 'node_modules', '.bin', 'inference-monitor'), words, { cwd: folder, env });
  await expect(monitor('deploy')).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /^acts on: .*\nCdkMissing: .*; expected: npm install .*aws-cdk aws-cdk-lib constructs\n$/,
    ),
  });
  for (const name of ['aws-cdk', 'aws-cdk-lib', 'constructs']) {
    symlinkSync(packagePath('node_modules', name), join(folder, 'node_modules', name));
  }
  const settings = {
    STACK_PREFIX: 'packaged',
    MLFLOW_TRACKING_URI: 'http://127.0.0.1:5000',
    SAGEMAKER_ENDPOINT_NAME: 'my-endpoint',
    DATA_CAPTURE_S3_BUCKET: CAPTURE_BUCKET,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
  writeFileSync(join(folder, '.env'), `${lines.join('\n')}\n`);
  await expect(monitor('runs')).rejects.toMatchObject({ code: 2, stderr: expect.stringMatching(/not deployed/) });
  await monitor('deploy', '--require-approval', 'never', '--method', 'direct');
  expect((await monitor('runs', '--json')).stdout).toContain('"runs": []');
  // The owner of the bucket has rewritten its notifications: a deployment looks again.
  const { s3 } = environment.clients;
  const Bucket = CAPTURE_BUCKET;
  await s3.send(new PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration: {} }));
  await monitor('deploy', '--require-approval', 'never', '--method', 'direct');
  const found = await s3.send(new GetBucketNotificationConfigurationCommand({ Bucket }));
  expect(found.EventBridgeConfiguration).toBeDefined();
  await monitor('destroy', '--force');
  await expect(monitor('runs')).rejects.toMatchObject({ code: 2, stderr: expect.stringMatching(/not deployed/) });
});

test('start runs all of it in the working directory, and smoke sends a capture through it', async () => {
  symlinkSync(packagePath('.venvs'), join(folder, '.venvs'));
  const place = { cwd: folder, env: { ...process.env, INIT_CWD: folder } };
  const start = spawn(join(folder, 'node_modules', '.bin', 'inference-monitor'), ['start'], place);
  const ended = once(start, 'exit');
  try {
    let said = '';
    for await (const text of start.stdout) {
      said += text;
      if (said.includes('stays up')) break;
    }
    expect(said).toMatch(/traced 34,(.|\n)*inference-monitor worst(.|\n)*\nsource \.local\/env/);
    const smoke = 'source .local/env && npx inference-monitor smoke';
    expect((await run('bash', ['-c', smoke], place)).stdout).toMatch(/^ok +trace /m);
  } finally {
    start.kill('SIGINT');
    await ended;
  }
  expect(readdirSync(join(folder, '.local'))).toEqual([]);
});
