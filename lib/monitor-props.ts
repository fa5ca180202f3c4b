/** The props of the construct: the settings of `.env` by other names, with the same checks and the same messages. */
import { Token } from 'aws-cdk-lib';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { PermanentError } from '../src/core/errors/errors.ts';
import { nearest } from '../src/core/errors/nearest.ts';
import { type CheckedSettings, type Settings, settingsSchema } from '../src/core/settings/schema.ts';
import { describeWrong } from '../src/core/settings/variables.ts';
import { ARN_NAMES, doubtsAbout } from './settings/checks.ts';
import { asVariable } from './settings/function-environment.ts';
import { examineSettings, SETTING_NAMES } from './settings/settings.ts';

/** Props that read better than the setting's name in camel case. */
const RENAMED = {
  MLFLOW_TRACKING_URI: 'mlflow',
  MLFLOW_EXPERIMENT_NAME: 'experimentName',
  SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT: 'mlflowCustomEndpoint',
  SAGEMAKER_ENDPOINT_NAME: 'endpointName',
  DATA_CAPTURE_S3_BUCKET: 'captureBucket',
  DATA_CAPTURE_S3_PREFIX: 'capturePrefix',
  DATA_CAPTURE_KMS_KEY_ARN: 'captureKmsKeyArn',
  BEDROCK_MODEL_ID: 'judgeModel',
  MLFLOW_EVALUATION_MODEL_PARAM: 'judgeParameters',
} as const satisfies Partial<Record<keyof CheckedSettings, string>>;

type Camel<Name extends string> = Name extends `${infer Word}_${infer Rest}`
  ? `${Lowercase<Word>}${Capitalize<Camel<Rest>>}`
  : Lowercase<Name>;
type PropName<Name extends string> = Name extends keyof typeof RENAMED ? (typeof RENAMED)[Name] : Camel<Name>;
type Props<Names extends keyof CheckedSettings> = { [Name in Names as PropName<Name>]: CheckedSettings[Name] };

type RequiredName = 'MLFLOW_TRACKING_URI' | 'SAGEMAKER_ENDPOINT_NAME';
/** Lists and objects are given as such, and not as the text that they are in `.env`. */
export type InferenceMonitorProps = Props<RequiredName> &
  Partial<Props<Exclude<keyof CheckedSettings, RequiredName | 'DATA_CAPTURE_S3_BUCKET'>>> & {
    /** The existing bucket that Data Capture writes to, or its name. */
    captureBucket: string | IBucket;
  };

/** Returns the name of a setting as a prop. */
export const propName = (setting: string): string =>
  (RENAMED as Record<string, string>)[setting] ??
  setting.toLowerCase().replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

/**
 * Returns valid examples of values that may be known only at deployment, such as the name of a bucket in the same app.
 */
function examples(region = 'us-east-1'): Partial<Record<string, string>> {
  const key = `arn:aws:kms:${region}:123456789012:key/example`;
  const secret = `arn:aws:secretsmanager:${region}:123456789012:secret:example-AbCdEf`;
  return {
    ...Object.fromEntries(ARN_NAMES.map((name) => [name, name.endsWith('_KEY_ARN') ? key : secret])),
    SAGEMAKER_ENDPOINT_NAME: 'example',
    DATA_CAPTURE_S3_BUCKET: 'example',
    GROUND_TRUTH_S3_PREFIX: 's3://example-labels/',
    VPC_SUBNET_IDS: 'subnet-0',
    VPC_SECURITY_GROUP_IDS: 'sg-0',
  } satisfies Partial<Record<keyof CheckedSettings, string>>;
}

/**
 * Reads props as settings.
 *
 * @param region of the stack; `undefined` if only the deployment knows it
 * @returns the settings, and warnings that do not prevent the deployment, one sentence each
 * @throws PermanentError `InvalidProps` with a line for every prop that is wrong, missing or unknown
 */
export function settingsOfProps(
  props: InferenceMonitorProps & { stackPrefix: string },
  { region, where }: { region: string | undefined; where: string },
): { settings: Settings; warnings: string[] } {
  const given = new Map(Object.entries(props).filter(([, value]) => value !== undefined));
  const samples = examples(region);
  const variables: Record<string, string | undefined> = { CDK_DEFAULT_REGION: region };
  const deployed: Record<string, unknown> = {};
  for (const name of SETTING_NAMES) {
    const prop = propName(name);
    const value = prop === 'captureBucket' ? bucketName(props.captureBucket) : given.get(prop);
    given.delete(prop);
    if (value === undefined) continue;
    const sample = samples[name];
    if (sample !== undefined && isLate(value)) {
      variables[name] = sample;
      deployed[name] = value;
    } else variables[name] = asVariable(name, value);
  }
  const unknown = [...given.keys()].map((name) => {
    const like = nearest(name, SETTING_NAMES.map(propName));
    return `\n  ${name}: is no prop${like ? `; did you mean ${like}?` : ''}`;
  });
  const { settings, wrong } = examineSettings(variables, deployed as Partial<CheckedSettings>);
  if (settings !== undefined && unknown.length === 0) return { settings, warnings: doubtsAbout(settings).map(asProps) };
  const faults = [...wrong.map((each) => `\n  ${asProps(describeWrong(each))}`), ...unknown];
  throw new PermanentError(
    'InvalidProps',
    `Some props of the InferenceMonitor ${where} are invalid:${faults.join('')}`,
  );
}

/** Whether only the deployment knows the value, a value of the list, or the whole list. */
const isLate = (value: unknown): boolean =>
  Token.isUnresolved(value) || (Array.isArray(value) && value.some((each) => Token.isUnresolved(each)));

const bucketName = (bucket: string | IBucket | undefined): string | undefined =>
  typeof bucket === 'object' ? bucket.bucketName : bucket;

/** A sentence about settings, with the names of the props. */
export const asProps = (text: string): string =>
  text.replace(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g, (name) => (name in settingsSchema.shape ? propName(name) : name));
