/** The application's options for the capture with their defaults, and the statistics that it gets. */
import { join, posix } from 'node:path';
import type { S3Client, S3ClientConfig } from '@aws-sdk/client-s3';

export interface CaptureOptions {
  /** The bucket that the monitor's stack watches. */
  bucket: string;
  /** The prefix above the endpoints' names, as in Data Capture's `DestinationS3Uri`. Default: no prefix. */
  prefix?: string;
  /** `streams` (default): streams, and calls that reached no container. `all`: for endpoints without Data Capture. */
  calls?: 'streams' | 'all';
  /** The share of the calls that is captured, over 0 and at most 1. Default 1. */
  sampling?: number;
  /** The client for the bucket, or its settings. Default: the region and credentials of the SageMaker client. */
  s3?: S3Client | S3ClientConfig;
  /** A longer request or reply is captured without its content. Default 1 MB. */
  maxBodyBytes?: number;
  /** Maximum memory of all captures, including open streams. Default 8 MB. */
  memoryBytes?: number;
  /** An object is written when this many bytes wait. Default 1 MB. */
  batchBytes?: number;
  /** An object is written after this time. Default 5 seconds. */
  batchMs?: number;
  /**
   * A folder for captures that cannot be written to S3. Default: no folder; such captures stay in memory, within its
   * bound.
   */
  spoolFolder?: string;
  /** The bound on the folder. Default 256 MB. */
  spoolBytes?: number;
}

/** The numbers of captures since the process started, by their state. */
export interface CaptureStats {
  /** Streams that run now. */
  open: number;
  /** Captures that wait to be written. */
  waiting: number;
  /** Captures that are in S3. */
  written: number;
  /** Captures that went to the spool folder. Captures that left it for S3 are in `written` too. */
  spooled: number;
  /** Captures that are lost. */
  dropped: number;
  /** Contents that were left out of captures: too large, not readable twice, never read, or over the bound of the memory. */
  withoutContent: number;
  /** The last failure of the capture, such as S3's refusal. It is not one of the application's requests. */
  lastError: string | undefined;
}

const MB = 1_000_000;
const AMOUNTS = { maxBodyBytes: MB, memoryBytes: 8 * MB, batchBytes: MB, batchMs: 5_000, spoolBytes: 256 * MB };
const DEFAULTS = { prefix: '', calls: 'streams' as const, sampling: 1, ...AMOUNTS };

/** The options with defaults. `spoolFolder` is the bucket's subfolder. */
export type Settings = Required<Omit<CaptureOptions, 's3' | 'spoolFolder'>> & Pick<CaptureOptions, 'spoolFolder'>;

/** @throws TypeError about an option that is not allowed */
export function settingsOf({ s3: _, ...options }: CaptureOptions): Settings {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const settings = { ...DEFAULTS, ...(Object.fromEntries(given) as unknown as CaptureOptions) };
  const check = (name: keyof Settings, isAllowed: boolean, expected: string): void => {
    const text = `captureInvocations: ${name} is not allowed; got: ${String(settings[name])}; expected: ${expected}`;
    if (!isAllowed) throw new TypeError(text);
  };
  check('bucket', /^[^/]+$/.test(settings.bucket ?? ''), 'the name of a bucket');
  const prefix = settings.prefix.replace(/^\/+|\/+$/g, '');
  // The key is a path in the spool folder.
  check('prefix', posix.normalize(`/${prefix}`) === `/${prefix}`, 'names with / between them, and no dots alone');
  check('calls', ['streams', 'all'].includes(settings.calls), 'streams or all');
  check('sampling', settings.sampling > 0 && settings.sampling <= 1, 'a number over 0, at most 1');
  for (const name of Object.keys(AMOUNTS) as (keyof typeof AMOUNTS)[]) {
    check(name, settings[name] > 0, 'a number over 0');
  }
  return { ...settings, prefix, spoolFolder: settings.spoolFolder && join(settings.spoolFolder, settings.bucket) };
}
