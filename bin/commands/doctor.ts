/** `inference-monitor doctor`: checks before a deployment what the stack depends on, and pays nothing. */
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { Command } from 'commander';
import { EXIT } from '../cli/exit-codes.ts';
import { checkArtifacts, checkCaptures } from '../doctor/buckets.ts';
import { checked, type Finding, finding, lineOf } from '../doctor/finding.ts';
import { checkJudge } from '../doctor/judge.ts';
import { checkMlflow } from '../doctor/mlflow.ts';
import { checkBedrock, checkLambda } from '../doctor/quotas.ts';
import { checkSettingsFor } from '../doctor/settings.ts';

/** A service that cannot be reached from here must not make a person wait. */
const QUICK = { maxAttempts: 2, requestHandler: { connectionTimeout: 5_000 } };

const NO_REGION = finding(
  'error',
  'region',
  'The region of the stack is not known: set AWS_REGION, choose a profile with a region, or give --region. The checks that ask AWS are left out.',
);

/** The order of the checks is that of the lines. */
async function diagnose(flags: { model?: string; region?: string }): Promise<Finding[]> {
  const aws = { ...QUICK, ...(flags.region === undefined ? {} : { region: flags.region }) };
  const bedrock = new BedrockClient(aws);
  const region = await bedrock.config.region().catch(() => undefined);
  const { settings, findings } = checkSettingsFor(region, { BEDROCK_MODEL_ID: flags.model });
  if (region === undefined) return [...findings, NO_REGION];
  const emulated = process.env.AWS_ENDPOINT_URL ?? process.env.AWS_ENDPOINT_URL_S3;
  const s3 = new S3Client({ ...aws, forcePathStyle: emulated !== undefined });
  const lambda = new LambdaClient(aws);
  const checks = [
    checked('judge', 'bedrock:GetFoundationModel', () => checkJudge(settings, bedrock, region)),
    checked('bedrock', 'servicequotas:ListServiceQuotas', () => checkBedrock(lambda, settings)),
    checked('lambda', 'lambda:GetAccountSettings', () => checkLambda(lambda, settings)),
    checked('captures', 's3:ListBucket', () => checkCaptures(s3, settings, region)),
    checked('mlflow', 'access to MLflow', () => checkMlflow(settings)),
    checked('artifacts', 's3:ListBucket', () => checkArtifacts(s3, settings, region)),
  ];
  return [...findings, ...(await Promise.all(checks)).flat()];
}

/** The exit code is 1 when the deployed stack would fail. */
export function doctorCommand(): Command {
  return new Command('doctor')
    .option('--model <id>', 'a Bedrock model id, inference profile or ARN (default: BEDROCK_MODEL_ID)')
    .option('--region <region>', 'region of the stack (default: AWS_REGION)')
    .action(async (flags: { model?: string; region?: string }) => {
      const findings = await diagnose(flags);
      for (const each of findings) console.log(lineOf(each));
      if (findings.some(({ level }) => level === 'error')) process.exitCode = EXIT.found;
    });
}
