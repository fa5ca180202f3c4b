/** The command line of `npm run canary`. */
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { dotenvSettings } from '../settings/dotenv-file.ts';

export const CANARY_HELP = `Usage: npm run canary -- [options]

Proves in your AWS account what no emulator can: deploys the stack under a prefix of its own, has 20 example captures
judged, replays them, stops a replay, deploys again during a run, and deletes everything. Without --yes it only says what
that will cost. Prints a table of claims, each seen, failed or skipped, and writes a report without account ids or names.
It takes about half an hour. Needs AWS credentials that may deploy the stack, and an account with npx cdk bootstrap.

  --mlflow URI              the MLflow to write to (default: MLFLOW_TRACKING_URI from the environment or .env); the canary
                            makes an experiment there, and deletes it
  --artifact-bucket S3URI   its bucket, with a managed MLflow (default: MLFLOW_ARTIFACT_BUCKET)
  --model ID                the judge (default: BEDROCK_MODEL_ID, else the stack's default)
  --endpoint NAME           judge 20 of this SageMaker endpoint's captures instead of the examples, and replay to it
  --url URL                 replay to this server (default: a Lambda function URL that the canary makes;
                            GovCloud and China have none)
  --batch                   also judge 100 captures by batch inference, which may take a day: leave with Ctrl-C, then --resume
  --prefix PREFIX           the prefix of its resources (default: canary- and six random digits)
  --yes                     do it
  --resume                  continue a canary that was left; needs --prefix
  --clean                   delete what a canary has left; needs --prefix
  --help                    this text

Exit codes: 0 if every claim was seen or skipped, 1 if one failed or something is left, 130 if it was left with Ctrl-C.`;

export interface CanaryOptions {
  prefix: string;
  mlflow?: string | undefined;
  artifactBucket?: string | undefined;
  model?: string | undefined;
  endpoint?: string | undefined;
  url?: string | undefined;
  batch: boolean;
  yes: boolean;
  resume: boolean;
  clean: boolean;
  help: boolean;
}

/** @throws Error if an option is unknown, or --prefix is missing where it is needed */
export function parseCanaryOptions(args: readonly string[]): CanaryOptions {
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
  return { ...rest, artifactBucket, prefix: prefix ?? `canary-${randomBytes(3).toString('hex')}` };
}

/** Settings of the canary's judge and MLflow: a flag, else the environment, else `.env`. */
export function canarySettings(options: CanaryOptions, dotenv = dotenvSettings()): Record<string, string> {
  const given: Record<string, string | undefined> = {
    MLFLOW_TRACKING_URI: options.mlflow,
    MLFLOW_ARTIFACT_BUCKET: options.artifactBucket,
    BEDROCK_MODEL_ID: options.model,
  };
  const names = [...Object.keys(given), 'MLFLOW_SECRET_ARN', 'SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT', 'JUDGE_PRICES'];
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = given[name] || process.env[name] || dotenv[name];
      return value ? [[name, value]] : [];
    }),
  );
}
