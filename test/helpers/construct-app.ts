/** CDK apps of somebody else, with the construct from the package: as an ES module, as CommonJS, and in TypeScript. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './package.ts';

const STACK = `
const app = new App();
const stack = new Stack(app, 'Theirs', { env: { account: '123456789012', region: 'eu-west-1' } });
const monitor = new InferenceMonitor(stack, 'Monitor', {
  stackPrefix: 'test',
  mlflow: 'http://mlflow.internal:5000',
  endpointName: 'my-endpoint',
  captureBucket: new Bucket(stack, 'Captures'),
  evaluationSampleRate: 0.05,
  judgeGuidelines: { kind: 'Be kind.' },
  endpointVariants: ['blue', 'green'],
  logRetentionDays: 90,
  // With these, every function of the package is in the template.
  otlpEndpoint: 'https://otel.example.com',
  arthurHost: 'https://arthur.example.com',
  arthurModelId: '3f1c2d9e-0000-4000-8000-000000000000',
  arthurSecretArn: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:arthur-AbCdEf',
});
monitor.grantStart(new Role(stack, 'Caller', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') }));
new Alarm(stack, 'TooMuch', { metric: monitor.metric('JudgeUsd'), threshold: 5, evaluationPeriods: 1 });
monitor.alarmTopic.addSubscription(new EmailSubscription('oncall@example.com'));
serve({ words: ({ reply }) => ({ value: reply?.text.split(' ').length ?? 0, rationale: 'counted' }) });
app.synth();
`;

const IMPORTS = {
  'aws-cdk-lib': 'App, Stack',
  'aws-cdk-lib/aws-cloudwatch': 'Alarm',
  'aws-cdk-lib/aws-iam': 'Role, ServicePrincipal',
  'aws-cdk-lib/aws-s3': 'Bucket',
  'aws-cdk-lib/aws-sns-subscriptions': 'EmailSubscription',
  'sagemaker-inference-monitor': 'InferenceMonitor',
  'sagemaker-inference-monitor/scorers': 'serve',
};

/** The source of an app. */
const source = (load: (names: string, from: string) => string): string =>
  Object.entries(IMPORTS)
    .map(([from, names]) => `${load(names, from)};\n`)
    .join('') + STACK;
const asModule = source((names, from) => `import { ${names} } from '${from}'`);
const SOURCES: Record<string, string> = {
  'app.mjs': asModule,
  'app.cjs': source((names, from) => `const { ${names} } = require('${from}')`),
  'app.mts': asModule,
  'app.cts': asModule,
};

/** The apps that Node can run, and those for the compiler. */
export const RUNNABLE = ['app.mjs', 'app.cjs'];
export const TYPED = ['app.mts', 'app.cts'];

/** Writes all apps into a folder that has the packages. */
export function writeApps(folder: string): void {
  for (const [name, text] of Object.entries(SOURCES)) writeFileSync(join(folder, name), text);
}

/** Synthesizes an app. @returns its template */
export async function synthApp(folder: string, name: string): Promise<Record<string, object>> {
  const outdir = join(folder, `${name}.out`);
  const { stderr } = await run(process.execPath, [name], { cwd: folder, env: { ...process.env, CDK_OUTDIR: outdir } });
  if (stderr) throw new Error(stderr);
  return JSON.parse(readFileSync(join(outdir, 'Theirs.template.json'), 'utf8')) as Record<string, object>;
}
