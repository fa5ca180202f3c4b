/** What `init` finds in the account: endpoints and what they capture, buckets, MLflow apps. */
import { ListBucketsCommand } from '@aws-sdk/client-s3';
import { awsFailure } from '../../src/core/errors/aws-failures.ts';
import type { Clients } from '../doctor/finding.ts';
import {
  callAws,
  captureLocation,
  describeEndpoint,
  describeMlflow,
  listEndpoints,
  listMlflowApps,
  shadowVariantsOf,
} from '../operate/aws-calls.ts';
import type { Choice } from './prompt.ts';

/** More would hide the question. Other names can be typed. */
const MAX_CHOICES = 20;

export class FoundAccount {
  readonly #clients: Clients;
  readonly #say: (line: string) => void;
  readonly #said = new Set<string>();

  /** @param say is told why something could not be looked up, once for each reason */
  constructor(clients: Clients, say: (line: string) => void) {
    this.#clients = clients;
    this.#say = say;
  }

  async #find<T>(what: string, look: () => Promise<T>): Promise<T | undefined> {
    try {
      return await look();
    } catch (error) {
      const { name, message } = awsFailure(error) ?? (error as Error);
      if (!this.#said.has(name))
        this.#say(`Not looked up in the account: ${what} (${name}: ${message.split('\n')[0]}).`);
      this.#said.add(name);
      return undefined;
    }
  }

  async endpoints(): Promise<Choice[]> {
    const found = (await this.#find('endpoints', () => listEndpoints(this.#clients.lambda))) ?? [];
    return found.slice(0, MAX_CHOICES).map(({ EndpointName: value, EndpointStatus: status }) => ({
      value,
      label: status === 'InService' ? value : `${value} (${status})`,
    }));
  }

  async buckets(): Promise<Choice[]> {
    const { s3, lambda } = this.#clients;
    const found = await this.#find('buckets', async () =>
      s3.send(new ListBucketsCommand({ BucketRegion: await lambda.config.region(), MaxBuckets: MAX_CHOICES })),
    );
    return (found?.Buckets ?? []).flatMap(({ Name }) => (Name === undefined ? [] : [{ value: Name }]));
  }

  async mlflowApps(): Promise<Choice[]> {
    const found = (await this.#find('MLflow apps', () => listMlflowApps(this.#clients.lambda))) ?? [];
    const ready = found.filter(({ Status = '' }) => /^(Created|Updated|Updating)$/.test(Status));
    return ready.slice(0, MAX_CHOICES).map(({ Arn: value, Name = value, MlflowVersion = 'unknown' }) => ({
      value,
      label: `${Name}, MLflow ${MlflowVersion}`,
    }));
  }

  /** The bucket, with prefix, where a managed MLflow stores artifacts. */
  async artifactBucket(mlflowArn: string): Promise<string | undefined> {
    const found = await this.#find("MLflow's artifact bucket", () => describeMlflow(this.#clients.lambda, mlflowArn));
    return found?.artifactStore;
  }

  /** The settings that follow from an endpoint's Data Capture, none if it is off. */
  async captureSettings(endpoint: string): Promise<Record<string, string>> {
    const found = await this.#find(`Data Capture of ${endpoint}`, () =>
      describeEndpoint(this.#clients.lambda, endpoint),
    );
    if (found === undefined) return {};
    const { DataCaptureConfig: capture, ProductionVariants = [] } = found;
    const variants = ProductionVariants.map(({ VariantName }) => VariantName).join(',');
    const place = capture?.EnableCapture ? captureLocation(capture.DestinationS3Uri, endpoint) : undefined;
    if (capture === undefined || place === undefined) {
      this.#say(
        `Data Capture of ${endpoint} is off: switch it on, or nothing is monitored (inference-monitor doctor).`,
      );
      return {};
    }
    this.#say(`Data Capture of ${endpoint} writes to s3://${place.bucket}/${place.prefix}.`);
    const shadow = await this.#find('shadow variants', () => shadowVariantsOf(this.#clients.lambda, found));
    const key = capture.KmsKeyId ? await this.#keyArn(capture.KmsKeyId) : undefined;
    return {
      DATA_CAPTURE_S3_BUCKET: place.bucket,
      DATA_CAPTURE_S3_PREFIX: place.prefix,
      ...(variants === '' ? {} : { ENDPOINT_VARIANTS: variants }),
      ...(shadow?.length ? { SHADOW_VARIANTS: shadow.join(',') } : {}),
      ...(key === undefined ? {} : { DATA_CAPTURE_KMS_KEY_ARN: key }),
    };
  }

  async #keyArn(KeyId: string): Promise<string | undefined> {
    if (/^arn:[^/]*:key\//.test(KeyId)) return KeyId;
    type Reply = { KeyMetadata?: { Arn?: string } };
    const found = await this.#find(`the KMS key ${KeyId}`, () =>
      callAws<Reply>(this.#clients.lambda, 'kms', 'DescribeKey', { KeyId }),
    );
    return found?.KeyMetadata?.Arn;
  }
}
