/** The CDK app: one stack, named by STACK_PREFIX. */
import { App, Validations } from 'aws-cdk-lib';
import { MonitoringStack } from '../lib/monitoring-stack.ts';
import { readSettings } from '../lib/settings/settings.ts';
import { resourceNames } from '../src/core/contract/names.ts';
import { assertOneEnvironment, useDotenvRegion } from '../src/core/settings/dotenv-file.ts';

// Loading the CDK's validation rules takes longer than synth itself. A test checks the template against them.
process.env.CDK_VALIDATION ??= 'false';
const { CDK_DEFAULT_ACCOUNT: account, CDK_DEFAULT_REGION } = process.env;
const region = useDotenvRegion() ?? CDK_DEFAULT_REGION;

try {
  assertOneEnvironment();
  // dotenv's own tools use the same variable.
  const { settings, warnings } = readSettings(
    { ...process.env, CDK_DEFAULT_REGION: region },
    process.env.DOTENV_CONFIG_PATH,
  );
  const app = new App();
  const stack = new MonitoringStack(app, resourceNames(settings.STACK_PREFIX).stack, {
    settings,
    env: { ...(account ? { account } : {}), ...(region ? { region } : {}) },
    tags: { 'sagemaker-inference-monitor': settings.STACK_PREFIX },
  });
  for (const [index, text] of warnings.entries()) Validations.of(stack).addWarning(`Settings${index + 1}`, text);
  app.synth();
} catch (error) {
  if (!(error instanceof Error) || !['InvalidSettings', 'MixedEnvironments'].includes(error.name)) throw error;
  // A stack trace would hide the list of settings.
  console.error(error.message);
  process.exitCode = 1;
}
