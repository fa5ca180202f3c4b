/** The settings of a new `.env`: from flags, from the account, and from the user's answers. */

import { ListBucketsCommand } from '@aws-sdk/client-s3';
import { examineSettings, REQUIRED_SETTING_NAMES } from '../../lib/settings/settings.ts';
import { awsFailure } from '../../src/core/errors/aws-failures.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { settingsSchema } from '../../src/core/settings/schema.ts';
import { describeWrong, readEach } from '../../src/core/settings/variables.ts';
import type { Clients } from '../doctor/finding.ts';
import {
  captureLocation,
  describeEndpoint,
  describeKey,
  describeMlflow,
  listEndpoints,
  listMlflowApps,
  shadowVariantsOf,
} from '../operate/aws-calls.ts';
import type { Choice, InitQuestion, Prompt } from './prompt.ts';
import questions from './questions.json' with { type: 'json' };

type Values = Record<string, string>;
type Name = keyof typeof settingsSchema.shape;

/** Describes the fault of a single value. Returns `undefined` if it is valid. */
function faultOf(name: string, value: string): string | undefined {
  const shape = settingsSchema.pick({ [name]: true } as Record<Name, true>);
  const [wrong] = readEach(shape, { [name]: value }).wrong;
  return wrong && describeWrong(wrong);
}

/** @throws PermanentError `InvalidSettings` with every value that is wrong by itself */
export function assertValid(given: Values): void {
  const faults = Object.entries(given).flatMap(([name, value]) => faultOf(name, value) ?? []);
  if (faults.length === 0) return;
  throw new PermanentError('InvalidSettings', `Some settings are wrong:\n  ${faults.join('\n  ')}`);
}

const TEXTS: Readonly<Record<string, string>> = questions;

/**
 * Collects the settings. Asks for settings without a flag, and asks again if settings do not fit together. Without a
 * prompt, takes them from the endpoint's Data Capture and from MLflow, if the account can be queried.
 *
 * @throws PermanentError `InvalidSettings` without a prompt, with every setting that is wrong or missing; `AbortError`
 *   on Ctrl-C
 */
export async function collect(given: Values, account: FoundAccount, region: string | undefined, prompt?: Prompt) {
  const values: Values = { ...given };
  const ask = async (name: string, more: Partial<InitQuestion> = {}, lookUp?: () => Promise<Choice[]>) => {
    const text = `${name}  ${TEXTS[name] ?? settingsSchema.shape[name as Name].description ?? ''}`;
    const question = { text, fault: (value: string) => faultOf(name, value), ...more };
    if (prompt === undefined) values[name] ??= more.initial ?? '';
    else values[name] ??= await prompt.ask({ ...question, choices: (await lookUp?.()) ?? [] });
    return values[name];
  };
  const endpoint = await ask('SAGEMAKER_ENDPOINT_NAME', {}, () => account.endpoints());
  const isOpen = [given.DATA_CAPTURE_S3_BUCKET, given.DATA_CAPTURE_S3_PREFIX].includes(undefined);
  const there = endpoint !== '' && (prompt || isOpen) ? await account.captureSettings(endpoint) : {};
  const { DATA_CAPTURE_S3_BUCKET: bucket, DATA_CAPTURE_S3_PREFIX: prefix, ...rest } = there;
  Object.assign(values, { ...rest, ...given });
  await ask('DATA_CAPTURE_S3_BUCKET', { initial: bucket }, async () => (bucket === undefined ? account.buckets() : []));
  // A prefix belongs to its bucket.
  const own = values.DATA_CAPTURE_S3_BUCKET === bucket ? prefix : undefined;
  await ask('DATA_CAPTURE_S3_PREFIX', { initial: own ?? `${endpoint}/` });
  const uri = await ask('MLFLOW_TRACKING_URI', {}, () => account.mlflowApps());
  if (uri.startsWith('arn:') && given.MLFLOW_ARTIFACT_BUCKET === undefined) {
    await ask('MLFLOW_ARTIFACT_BUCKET', { initial: await account.artifactBucket(uri) });
  }
  const isName = prompt !== undefined && faultOf('STACK_PREFIX', endpoint) === undefined;
  await ask('STACK_PREFIX', { initial: isName ? endpoint : undefined });
  if (given.EVALUATION_SAMPLE_RATE === undefined) await ask('JUDGED_CAPTURES_PER_DAY', { initial: '1000' });
  await ask('ALARM_EMAIL', { optional: true });
  for (;;) {
    const found = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ''));
    const { wrong } = examineSettings({ ...found, CDK_DEFAULT_REGION: region });
    if (wrong.length === 0) return found;
    const lines = wrong.map((each) => `  ${describeWrong(each)}`).join('\n');
    if (prompt === undefined) {
      throw new PermanentError('InvalidSettings', `Some settings are missing or wrong:\n${lines}`);
    }
    prompt.say(`\nThese settings do not fit together:\n${lines}`);
    for (const { name } of wrong) delete values[name];
    for (const { name } of wrong) await ask(name, { optional: !REQUIRED_SETTING_NAMES.includes(name) });
  }
}

// -------------------------------------------------------------------------------------------- what the account has
// Endpoints and their Data Capture, buckets, MLflow apps.

/** Maximum number of choices. More would hide the question. Other names can be typed. */
const MAX_CHOICES = 20;

type Find = <T>(what: string, lookUp: () => Promise<T>) => Promise<T | undefined>;
type Say = (line: string) => void;
type FoundAccount = ReturnType<typeof foundAccount>;

/** @param say receives the reason why something could not be looked up, once for each reason */
export function foundAccount({ lambda, s3 }: Clients, say: Say) {
  const said = new Set<string>();
  const find: Find = async (what, lookUp) => {
    try {
      return await lookUp();
    } catch (error) {
      const { name, message } = awsFailure(error) ?? (error as Error);
      if (!said.has(name)) say(`Not looked up in the account: ${what} (${name}: ${message.split('\n')[0]}).`);
      said.add(name);
      return undefined;
    }
  };
  return {
    async endpoints(): Promise<Choice[]> {
      const found = (await find('endpoints', () => listEndpoints(lambda))) ?? [];
      return found.slice(0, MAX_CHOICES).map(({ EndpointName: value, EndpointStatus: status }) => ({
        value,
        label: status === 'InService' ? value : `${value} (${status})`,
      }));
    },
    async buckets(): Promise<Choice[]> {
      const found = await find('buckets', async () =>
        s3.send(new ListBucketsCommand({ BucketRegion: await lambda.config.region(), MaxBuckets: MAX_CHOICES })),
      );
      return (found?.Buckets ?? []).map(({ Name = '' }) => ({ value: Name }));
    },
    async mlflowApps(): Promise<Choice[]> {
      const found = (await find('MLflow apps', () => listMlflowApps(lambda))) ?? [];
      const ready = found.filter(({ Status = '' }) => /^(Created|Updated|Updating)$/.test(Status));
      return ready.slice(0, MAX_CHOICES).map(({ Arn: value, Name = value, MlflowVersion = 'unknown' }) => ({
        value,
        label: `${Name}, MLflow ${MlflowVersion}`,
      }));
    },
    /** The bucket, with prefix, where a managed MLflow stores artifacts. */
    artifactBucket: async (mlflowArn: string): Promise<string | undefined> =>
      (await find("MLflow's artifact bucket", () => describeMlflow(lambda, mlflowArn)))?.ArtifactStoreUri,
    captureSettings: (endpoint: string) => captureSettings(lambda, endpoint, find, say),
  };
}

/** Returns the settings that follow from an endpoint's Data Capture. Returns no settings if it is off. */
async function captureSettings(lambda: Clients['lambda'], endpoint: string, find: Find, say: Say): Promise<Values> {
  const found = await find(`Data Capture of ${endpoint}`, () => describeEndpoint(lambda, endpoint));
  if (found === undefined) return {};
  const { DataCaptureConfig: capture, ProductionVariants = [] } = found;
  const place = capture?.EnableCapture ? captureLocation(capture.DestinationS3Uri, endpoint) : undefined;
  if (capture === undefined || place === undefined) {
    say(`Data Capture of ${endpoint} is off: switch it on, or nothing is monitored (inference-monitor doctor).`);
    return {};
  }
  say(`Data Capture of ${endpoint} writes to s3://${place.bucket}/${place.prefix}.`);
  const settings = {
    DATA_CAPTURE_S3_BUCKET: place.bucket,
    DATA_CAPTURE_S3_PREFIX: place.prefix,
    ENDPOINT_VARIANTS: ProductionVariants.map(({ VariantName }) => VariantName).join(','),
    SHADOW_VARIANTS: (await find('shadow variants', () => shadowVariantsOf(lambda, found)))?.join(','),
    DATA_CAPTURE_KMS_KEY_ARN: capture.KmsKeyId && (await keyArn(lambda, capture.KmsKeyId, find)),
  };
  return Object.fromEntries(Object.entries(settings).flatMap(([name, value]) => (value ? [[name, value]] : [])));
}

async function keyArn(lambda: Clients['lambda'], KeyId: string, find: Find): Promise<string | undefined> {
  if (/^arn:[^/]*:key\//.test(KeyId)) return KeyId;
  return (await find(`the KMS key ${KeyId}`, () => describeKey(lambda, KeyId)))?.Arn;
}
