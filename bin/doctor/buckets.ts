/**
 * Checks the buckets that exist before the stack, of the captures and of MLflow's artifacts, and that captures arrive
 * there and their events reach the stack. Describes the newest captures.
 */

import {
  GetBucketNotificationConfigurationCommand,
  HeadBucketCommand,
  ListObjectsV2Command,
  type S3Client,
  type S3ServiceException,
} from '@aws-sdk/client-s3';
import { backfillObjects, type CaptureScope } from '../../src/captures/files/capture-objects.ts';
import { DAY_MS } from '../../src/captures/files/capture-path.ts';
import { insteadOf } from '../../src/captures/files/other-files.ts';
import { readLines } from '../../src/captures/lines/read-lines.ts';
import { redactionOf } from '../../src/captures/redact/redaction.ts';
import { hourlyCalls } from '../../src/core/aws/cloudwatch.ts';
import { type ObjectFacts, Storage } from '../../src/core/aws/storage.ts';
import { httpStatusOf } from '../../src/core/aws/storage-errors.ts';
import { s3Place } from '../../src/core/settings/kinds.ts';
import { whole } from '../../src/core/text/figure-text.ts';
import { durationText } from '../../src/core/text/terminal-text.ts';
import { sum } from '../../src/core/values/sum.ts';
import { captureScope } from '../../src/judge/capture-scope.ts';
import { LineDecoder } from '../../src/monitoring/chunk/decode-lines.ts';
import type { CommandSettings } from '../cli/settings.ts';
import { shapeTally } from '../offline/shape.ts';
import { broken, type CheckContext, checked, type Found, ok, unknown, warning } from './finding.ts';
import { isInUse } from './stack.ts';

/**
 * S3 returns the region of a bucket even to callers without access. @param ExpectedBucketOwner any other owner makes it
 * 403
 */
async function headBucket(s3: S3Client, Bucket: string, ExpectedBucketOwner?: string) {
  try {
    const { BucketRegion: region } = await s3.send(new HeadBucketCommand({ Bucket, ExpectedBucketOwner }));
    return { region, status: 200 };
  } catch (error) {
    const status = httpStatusOf(error) ?? 0;
    if (![301, 400, 403, 404].includes(status)) throw error;
    return { region: (error as S3ServiceException).$response?.headers?.['x-amz-bucket-region'], status };
  }
}

interface Place {
  setting: string;
  /** The consequence of another region, and its remedy. */
  why: string;
  remedy: string;
  /** The account that must own the bucket, and the remedy otherwise. */
  owner: string | undefined;
  ownerRemedy: string;
}

/** Finds faults of the existence, the region or the owner of a bucket. */
async function placeFault({ s3, region: ours }: CheckContext, bucket: string, place: Place) {
  const { setting, why, remedy, owner, ownerRemedy } = place;
  const { region = ours, status } = await headBucket(s3, bucket);
  if (status === 404) return broken(`The bucket ${bucket} does not exist.`, `create it, or correct ${setting}`);
  if (region !== ours) {
    return broken(`The bucket ${bucket} is in ${region}, and the stack in ${ours}: ${why}.`, remedy);
  }
  if (status === 403) {
    const repair = `needs s3:ListBucket; or correct ${setting} if the bucket belongs to another account`;
    return unknown(`S3 denies you the bucket ${bucket}.`, repair);
  }
  const isForeign = (await headBucket(s3, bucket, owner)).status === 403;
  return isForeign ? broken(`The bucket ${bucket} belongs to another account.`, ownerRemedy) : undefined;
}

/**
 * Checks the capture bucket, because a deployment would discover a wrong bucket only during its rollback. Also checks
 * whether captures arrive.
 */
export async function checkCaptures(context: CheckContext, bucket: string): Promise<Found> {
  if (context.capturePrefix === undefined) return undefined;
  const fault = await placeFault(context, bucket, {
    setting: 'DATA_CAPTURE_S3_BUCKET',
    why: 'S3 sends the events of a bucket in its own region',
    remedy: 'deploy the stack in the region of the bucket',
    owner: context.account,
    ownerRemedy: 'deploy the stack in that account, which also receives the events of the bucket',
  });
  if (fault?.level === 'error') return fault;
  const events = checked('events', 's3:GetBucketNotification', () => checkEvents(context, bucket));
  return [fault ?? (await checked('captures', 's3:ListBucket', () => checkArrivals(context, bucket))), await events];
}

export async function checkArtifacts(context: CheckContext, location: string): Promise<Found> {
  const { account: owner = context.account, bucket } = s3Place(location);
  const fault = await placeFault(context, bucket, {
    setting: 'MLFLOW_ARTIFACT_BUCKET',
    why: 'the functions write to buckets of their own region only, so no trace would be stored',
    remedy: 'use an MLflow in the region of the stack',
    owner,
    ownerRemedy: `set MLFLOW_ARTIFACT_BUCKET=s3://<that account>@${bucket}/…, or correct it`,
  });
  return fault ?? ok(`The bucket ${bucket} exists, in the region of the stack.`);
}

// -------------------------------------------------------------------------------------------------------- arrivals

/** An endpoint has at most this many variants. */
const MAX_VARIANTS = 10;
/** Variant, year, month, day, hour. */
const MAX_DEPTH = 5;

const DATED = /\/\d+\/$/;

/** Finds the time of the newest capture by the last folder of each level: a listing for each, however many captures there are. */
async function newestCapture(s3: S3Client, Bucket: string, Prefix: string, depth = 0): Promise<Date | undefined> {
  const page = await s3.send(new ListObjectsV2Command({ Bucket, Prefix, Delimiter: '/' }));
  const files = (page.Contents ?? []).filter(({ Key = '', Size }) => Key.endsWith('.jsonl') && Size && !insteadOf(Key));
  const folders = depth < MAX_DEPTH ? (page.CommonPrefixes ?? []).map((folder) => folder.Prefix ?? '') : [];
  const dated = folders.filter((folder) => DATED.test(folder));
  const next = dated.length > 0 ? dated.slice(-1) : folders.slice(0, MAX_VARIANTS);
  const below = await Promise.all(next.map((folder) => newestCapture(s3, Bucket, folder, depth + 1)));
  const times = [...files.map(({ LastModified }) => LastModified), ...below];
  return times.toSorted((a, b) => Number(b ?? 0) - Number(a ?? 0))[0];
}

/** Checks that captures arrive. */
async function checkArrivals(context: CheckContext, bucket: string): Promise<Found> {
  const { s3, capturePrefix: prefix = '' } = context;
  const where = `s3://${bucket}/${prefix}`;
  const newest = await newestCapture(s3, bucket, prefix);
  if (newest === undefined) {
    const repair = 'check DATA_CAPTURE_S3_PREFIX, and call the endpoint: its first captures come within minutes';
    return warning(`There are no captures under ${where}.`, repair);
  }
  const age = Date.now() - newest.getTime();
  const message = `The newest capture under ${where} came ${durationText(Math.max(0, age / 1000))} ago.`;
  if (age <= DAY_MS) return ok(message);
  const { SAGEMAKER_ENDPOINT_NAME: name = '', ENDPOINT_VARIANTS: variants = ['AllTraffic'] } = context.settings;
  const hours = await hourlyCalls(context.lambda, name, variants, Date.now() - DAY_MS, Date.now()).catch(
    () => undefined,
  );
  const calls = hours && sum(hours.map(({ invocations }) => invocations));
  if (calls === 0) return warning(`${message} Nobody called the endpoint in the last 24 hours.`, 'call it');
  const used = calls === undefined ? '' : ` The endpoint had ${whole(calls)} invocations in the last 24 hours.`;
  const repair =
    'check that Data Capture is on, and that the disk of its instances is less than 75% full (CapturesMissing in docs/runbook.md)';
  return warning(`${message}${used}`, repair);
}

/** Checks that the bucket sends events to EventBridge. The deployment switches it on. */
async function checkEvents({ s3, stack }: CheckContext, Bucket: string): Promise<Found> {
  const reply = await s3.send(new GetBucketNotificationConfigurationCommand({ Bucket }));
  const { TopicConfigurations = [], QueueConfigurations = [], LambdaFunctionConfigurations = [] } = reply;
  const others = TopicConfigurations.length + QueueConfigurations.length + LambdaFunctionConfigurations.length;
  const kept = others === 0 ? '' : ` Its other notifications (${others}) stay.`;
  if (reply.EventBridgeConfiguration) return ok(`The bucket ${Bucket} sends its events to EventBridge.${kept}`);
  const not = `The bucket ${Bucket} does not send its events to EventBridge`;
  const found = await stack().catch(() => 'unknown' as const);
  if (found === 'unknown') {
    return warning(`${not}, which a deployment switches on.`, 'deploy the stack, or switch it on if it is deployed');
  }
  if (!isInUse(found)) return ok(`The deployment lets the bucket ${Bucket} send its events to EventBridge.${kept}`);
  const repair = `switch it on: inference-monitor deploy; or S3 console, ${Bucket}, Properties, Amazon EventBridge. Then process what came since then`;
  return broken(`${not}: new captures are not processed.`, repair);
}

// ----------------------------------------------------------------------------------------------------------- shape
// What the captures in the endpoint's newest files are like, read with the stack's own reader.

/** Days to search for files, increased until there are enough captures. */
const DAYS = [1, 7, 90];

/** @param count captures to read */
export const checkShape =
  (count: number) =>
  async ({ s3, settings: own, capturePrefix: DATA_CAPTURE_S3_PREFIX }: CheckContext): Promise<Found> => {
    const settings = { ...own, DATA_CAPTURE_S3_PREFIX, redaction: redactionOf(own) } as CommandSettings;
    const shape = shapeTally(settings);
    const storage = new Storage(s3);
    const decoder = new LineDecoder(settings, { experimentId: '' }, {});
    let left = count;
    const scope = captureScope(settings as Parameters<typeof captureScope>[0]);
    files: for (const file of await newestFiles(storage, scope, count)) {
      const source = { ...file, start: 0, firstLine: 1, objectTimeMs: file.lastModifiedMs };
      const lines = readLines(await storage.read(file), source, { maxLineBytes: settings.MAX_LINE_BYTES });
      for await (const line of lines) {
        const read = await decoder.decode(line);
        const decoded = read.kind === 'heavy' ? await read.read() : read;
        if (decoded.kind !== 'capture' || decoded.duplicate) continue;
        shape.add(decoded.capture);
        left -= 1;
        if (left === 0) break files;
      }
    }
    const { facts } = shape.report();
    if (facts.length === 0) return warning(`There are no captures of the last ${DAYS.at(-1)} days to look at.`);
    return facts.map(({ says, setting }) => (setting === undefined ? ok(says) : warning(says, `set ${setting}`)));
  };

/** @param enough number of files that makes a search for older files unnecessary */
async function newestFiles(storage: Storage, scope: CaptureScope, enough: number): Promise<ObjectFacts[]> {
  let files: ObjectFacts[] = [];
  for (const days of DAYS) {
    const window = { fromMs: Date.now() - days * DAY_MS };
    if (files.length < enough) files = await Array.fromAsync(backfillObjects(storage, scope, scope, window));
  }
  return files.toSorted((a, b) => b.lastModifiedMs - a.lastModifiedMs);
}
