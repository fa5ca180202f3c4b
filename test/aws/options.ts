/** The command line of `npm run canary`. */
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { dotenvSettings } from '../../src/core/settings/dotenv-file.ts';

export const CANARY_HELP = `Usage: npm run canary -- [options]

Proves in your AWS account what no emulator can: deploys the stack under a prefix of its own, has 20 example captures
judged, replays them, stops a replay, deploys again during a run, and deletes everything. Without --yes it only says what
that will cost. Prints a table of assertions, each seen, failed or skipped, and writes a report without account ids or names.
It takes about half an hour. Needs AWS credentials that may deploy the stack, and an account with npx cdk bootstrap.

  --mlflow URI              the MLflow to write to (default: MLFLOW_TRACKING_URI from the environment or .env); the canary
                            makes an experiment there, and deletes it
  --artifact-bucket S3URI   its bucket, with a managed MLflow (default: MLFLOW_ARTIFACT_BUCKET)
  --model ID                the judge (default: BEDROCK_MODEL_ID, else the stack's default)
  --endpoint NAME           judge 20 of this SageMaker endpoint's captures instead of the examples, and replay to it
  --url URL                 replay to this server (default: a Lambda function URL that the canary makes;
                            GovCloud and China have none)
  --batch                   also judge 120 captures by batch inference, which may take a day: leave with Ctrl-C, then --resume;
                            needs a --model that Bedrock lists for it, such as us.anthropic.claude-sonnet-4-6
  --prefix PREFIX           the prefix of its resources, which begins with canary- (default: six random digits follow)
  --yes                     do it
  --resume                  continue a canary that was left; needs --prefix
  --clean                   delete what a canary has left; needs --prefix
  --help                    this text

Exit codes: 0 if every assertion was seen or skipped, 1 if one failed or something is left, 130 if it was left with Ctrl-C.`;

export type CanaryOptions = ReturnType<typeof parseCanaryOptions>;

/**
 * Everything with the prefix in its name is deleted at the end, so nobody's own names may begin like it. Names of buckets
 * have no capitals.
 */
const PREFIX = /^canary-[a-z0-9-]{1,23}$/;

/** @throws Error if an option is unknown, or --prefix is missing where it is needed, or has another form */
export function parseCanaryOptions(args: readonly string[]) {
  const flag = { type: 'boolean', default: false } as const;
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...{ prefix: text, mlflow: text, 'artifact-bucket': text, model: text, endpoint: text, url: text },
      ...{ batch: flag, yes: flag, resume: flag, clean: flag },
      help: { ...flag, short: 'h' },
    },
  });
  const { prefix, 'artifact-bucket': artifactBucket, ...rest } = values;
  if (!prefix && (values.resume || values.clean)) {
    throw new Error(
      '--prefix is missing; got: --resume or --clean alone; expected: the prefix that the canary printed',
    );
  }
  if (prefix !== undefined && !PREFIX.test(prefix)) {
    const expected = 'canary- and at most 23 more characters, a to z, digits and "-"';
    throw new Error(`--prefix is wrong; got: ${prefix}; expected: ${expected}`);
  }
  return { ...rest, artifactBucket, prefix: prefix ?? `canary-${randomBytes(3).toString('hex')}` };
}

/** Settings that have no flag: how MLflow, the judge's price and the secrets are reached. */
const WITHOUT_FLAG = [
  'MLFLOW_SECRET_ARN',
  'SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT',
  'MLFLOW_ARTIFACT_KMS_KEY_ARN',
  'VPC_SUBNET_IDS',
  'VPC_SECURITY_GROUP_IDS',
  'JUDGE_PRICES',
];

/** Settings of the canary's judge, MLflow and network: a flag, else the environment, else `.env`. */
export function canarySettings(
  options: CanaryOptions,
  dotenv = dotenvSettings(packagePath('.env')),
): Record<string, string> {
  const given: Record<string, string | undefined> = {
    MLFLOW_TRACKING_URI: options.mlflow,
    MLFLOW_ARTIFACT_BUCKET: options.artifactBucket,
    BEDROCK_MODEL_ID: options.model,
  };
  return Object.fromEntries(
    [...Object.keys(given), ...WITHOUT_FLAG].flatMap((name) => {
      const value = given[name] || process.env[name] || dotenv[name];
      return value ? [[name, value]] : [];
    }),
  );
}
