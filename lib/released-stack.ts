/** The stack as a template for one's own bucket: what does not decide its shape is a parameter, with the setting as its default. */
import {
  App,
  BootstraplessSynthesizer,
  CfnCondition,
  CfnParameter,
  type CfnParameterProps,
  Fn,
  type Stack,
} from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import * as z from 'zod';
import { type LabelPlace, labelPlace } from '../src/core/settings/ground-truth-setting.ts';
import { type CheckedSettings, MLFLOW_ARNS, mlflowKind, settingsSchema } from '../src/core/settings/schema.ts';
import { MonitoringStack } from './monitoring-stack.ts';
import { FUNCTION_CODE } from './pipeline-function.ts';
import { parseSettings } from './settings/settings.ts';

type Variables = Readonly<Record<string, string | undefined>>;

const ID = 'SageMakerInferenceMonitor';

/** Not even the deployment can escape what is special in patterns of IAM and EventBridge, or add the "/" at the end. */
const PREFIX_FORM = String.raw`^$|^(?!/|s3:)[^*?$\\\x00-\x1f\x7f]{1,899}/$`;
const LABEL_PREFIX_FORM = String.raw`^(?!/|s3:)[^*?$\\\x00-\x1f\x7f]{0,799}[^*?$\\/\x00-\x1f\x7f]$`;
/** What needs no escaping in a key, and ends with "/". */
const ZIP_PREFIX_FORM = String.raw`^$|^[\w!.'()-][\w!.'()/-]*/$`;

/** The form of a setting as it is in its schema. */
function formOf(name: keyof CheckedSettings): CfnParameterProps {
  const { pattern, description } = z.toJSONSchema(settingsSchema.shape[name], { unrepresentable: 'any' });
  return { allowedPattern: pattern, description, constraintDescription: description };
}

/** An http(s) address, without user and query. */
const URL_FORM = String.raw`^https?://[^\s/?#@]+(/[^\s?#@]*)?$`;

/**
 * Makes the template.
 *
 * @param variables the settings as in the environment
 * @param zips names of the functions' zips by their folder under `lambda/`
 * @throws Error `InvalidSettings`
 */
export function releasedTemplate(
  variables: Variables,
  zips: Readonly<Record<string, string>>,
): Record<string, unknown> {
  // Read for their errors and for what is not set, before there is anything to deploy.
  const known = parseSettings(variables);
  const app = new App({ analyticsReporting: false });
  new MonitoringStack(app, ID, {
    synthesizer: new BootstraplessSynthesizer(),
    settings: (stack) => {
      readFromBucket(stack, zips);
      return parseSettings(variables, parametersOf(stack, variables, known));
    },
  });
  return app.synth().getStackByName(ID).template as Record<string, unknown>;
}

function readFromBucket(stack: Stack, zips: Readonly<Record<string, string>>): void {
  // Before the stack has children, and read by `functionCode`.
  const code = (folder: string): Code => Code.fromBucket(bucket, `${prefix}${zips[folder]}`);
  stack.node.setContext(FUNCTION_CODE, code);
  const { allowedPattern } = formOf('DATA_CAPTURE_S3_BUCKET');
  const name = new CfnParameter(stack, 'ZipBucket', {
    description: 'Your bucket with the zips of the functions, in the region of the stack',
    allowedPattern,
  });
  const prefix = new CfnParameter(stack, 'ZipPrefix', {
    description: 'The key prefix of the zips, with "/" at its end if it is not empty',
    allowedPattern: ZIP_PREFIX_FORM,
    default: '',
  }).valueAsString;
  const bucket = Bucket.fromBucketName(stack, 'Zips', name.valueAsString);
}

/** Returns the settings whose values the deployment gives. */
function parametersOf(stack: Stack, variables: Variables, known: CheckedSettings): Partial<CheckedSettings> {
  const parameter = (id: string, name: keyof CheckedSettings, more: CfnParameterProps = {}): string =>
    new CfnParameter(stack, id, { ...formOf(name), default: String(known[name]), ...more }).valueAsString;
  const kind = mlflowKind(known.MLFLOW_TRACKING_URI);
  const values: Partial<CheckedSettings> = {
    STACK_PREFIX: parameter('StackPrefix', 'STACK_PREFIX'),
    SAGEMAKER_ENDPOINT_NAME: parameter('EndpointName', 'SAGEMAKER_ENDPOINT_NAME'),
    DATA_CAPTURE_S3_BUCKET: parameter('CaptureBucket', 'DATA_CAPTURE_S3_BUCKET'),
    MLFLOW_TRACKING_URI:
      kind === 'url'
        ? parameter('MlflowUrl', 'MLFLOW_TRACKING_URI', {
            allowedPattern: URL_FORM,
            description: 'The http(s) URL of MLflow',
          })
        : parameter('MlflowArn', 'MLFLOW_TRACKING_URI', {
            allowedPattern: MLFLOW_ARNS[kind].source,
            description: `The ARN of the ${kind}`,
          }),
  };
  const prefix = parameter('CapturePrefix', 'DATA_CAPTURE_S3_PREFIX', {
    allowedPattern: PREFIX_FORM,
    default: variables.DATA_CAPTURE_S3_PREFIX?.trim() ? known.DATA_CAPTURE_S3_PREFIX : '',
    description: 'The key prefix of the captures, with "/" at its end; empty for the name of the endpoint and "/"',
  });
  const isGiven = new CfnCondition(stack, 'CapturePrefixGiven', {
    expression: Fn.conditionNot(Fn.conditionEquals(prefix, '')),
  });
  values.DATA_CAPTURE_S3_PREFIX = Fn.conditionIf(
    isGiven.logicalId,
    prefix,
    `${values.SAGEMAKER_ENDPOINT_NAME}/`,
  ).toString();
  const labels = labelPlace(known.GROUND_TRUTH_S3_PREFIX);
  if (labels !== undefined) values.GROUND_TRUTH_S3_PREFIX = labelParameters(stack, labels);
  // Without one there is nothing to encrypt with or to subscribe: with one, the template has another shape.
  if (known.ALARM_EMAIL !== undefined) values.ALARM_EMAIL = parameter('AlarmEmail', 'ALARM_EMAIL');
  if (known.WORK_KMS_KEY_ARN !== undefined) values.WORK_KMS_KEY_ARN = parameter('KmsKeyArn', 'WORK_KMS_KEY_ARN');
  return values;
}

/** Returns the place of label files. A bucket alone is one in each deployment, since there is nothing to match keys with. */
function labelParameters(stack: Stack, { bucket, prefix }: LabelPlace): string {
  const name = new CfnParameter(stack, 'LabelBucket', {
    description: 'The bucket with the label files',
    allowedPattern: formOf('DATA_CAPTURE_S3_BUCKET').allowedPattern,
    default: bucket,
  });
  if (prefix === '') return `s3://${name.valueAsString}/`;
  const path = new CfnParameter(stack, 'LabelPrefix', {
    description: 'The key prefix of the label files, without "/" at its end',
    allowedPattern: LABEL_PREFIX_FORM,
    default: prefix.slice(0, -1),
  });
  return `s3://${name.valueAsString}/${path.valueAsString}/`;
}
