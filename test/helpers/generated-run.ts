/** A finished run of any size: its plans, manifests and receipts are generated when they are read. */

import type { Storage } from '../../src/core/aws/storage.ts';
import { CONTRACT } from '../../src/core/contract/contract.ts';
import type { ManifestLine } from '../../src/core/contract/payloads.ts';
import type { QualityCounts } from '../../src/core/contract/quality.ts';
import type { EvaluateReceipt, LogReceipt, PlanReceipt } from '../../src/core/contract/receipts.ts';
import { NO_LOG_COUNTS, NO_VERDICT_COUNTS } from '../../src/core/contract/receipts.ts';
import { areaOf, workKeys } from '../../src/core/contract/work-keys.ts';

const RUN = 'run';
const LINES = 20;
const SCORERS = 12;
const PART_CHUNKS = 30_000;
/** Of this number of chunks, one failed in MLflow. */
const FAILED_EVERY = 1_000;
/** Chunks of one file. */
const FILE_CHUNKS = 2;

const isFailed = (chunk: number): boolean => chunk % FAILED_EVERY === FAILED_EVERY - 1;

export class GeneratedRun {
  readonly run = { name: RUN, startTime: '2026-11-20T10:00:00Z' };
  readonly chunks: number;
  /** What was written, by key. */
  readonly written = new Map<string, string>();
  reads = 0;

  constructor(chunks: number) {
    this.chunks = chunks;
  }

  get storage(): Storage {
    return this as unknown as Storage;
  }

  /** What a summary of the run must say. */
  expected() {
    const failed = Math.floor(this.chunks / FAILED_EVERY);
    const traced = (this.chunks - failed) * LINES;
    return {
      status: failed === 0 ? 'succeeded' : 'failed',
      chunks: { planned: this.chunks, logged: this.chunks - failed, evaluated: this.chunks - failed, failed },
      lines: { planned: this.chunks * LINES, traced, lost: failed * LINES },
      verdicts: { expected: traced * SCORERS, newVerdicts: traced * SCORERS, lost: 0 },
      spend: { calls: traced },
    };
  }

  async *list(_: string, prefix: string, startAfter = '') {
    for (const key of this.#keys(prefix, startAfter))
      yield { bucket: 'work', key, etag: '', size: 0, lastModifiedMs: 0 };
  }

  *#keys(prefix: string, startAfter: string): Generator<string> {
    if (prefix !== areaOf('receipts', RUN)) return;
    const from = startAfter === '' ? 0 : Number(startAfter.slice(prefix.length));
    for (let chunk = from; chunk < this.chunks; chunk += 1) {
      yield workKeys.receipt(RUN, chunk, isFailed(chunk) ? 'log' : 'evaluate', 0, 'r');
    }
  }

  async getJson<T>(_: string, key: string): Promise<T | undefined> {
    this.reads += 1;
    const stored = this.written.get(key);
    if (stored !== undefined) return JSON.parse(stored) as T;
    const name = key.slice(key.lastIndexOf('/') + 1);
    if (key.startsWith(areaOf('plan', RUN))) return this.#plan(Number.parseInt(name, 10)) as T;
    if (!key.startsWith(areaOf('receipts', RUN))) return undefined;
    const chunk = Number(key.slice(areaOf('receipts', RUN).length).split('/')[0]);
    // As from a network: each reader has an object of its own.
    return JSON.parse(JSON.stringify(name.startsWith('log') ? logReceipt(chunk) : evaluateReceipt(chunk))) as T;
  }

  async getBytes(_: string, key: string): Promise<{ bytes: Buffer; etag: string } | undefined> {
    if (!key.startsWith(areaOf('manifest', RUN))) return undefined;
    const part = Number.parseInt(key.slice(key.lastIndexOf('/') + 1), 10);
    const pieces: string[] = [];
    const end = Math.min(this.chunks, (part + 1) * PART_CHUNKS);
    for (let chunk = part * PART_CHUNKS; chunk < end; chunk += 1) pieces.push(`${JSON.stringify(lineOf(chunk))}\n`);
    return { bytes: Buffer.from(pieces.join('')), etag: '' };
  }

  async putText(_: string, key: string, text: string): Promise<void> {
    this.written.set(key, text);
  }

  putJson(_: string, key: string, value: unknown): Promise<void> {
    return this.putText(_, key, JSON.stringify(value));
  }

  #plan(part: number): PlanReceipt {
    const chunks = Math.min(PART_CHUNKS, this.chunks - part * PART_CHUNKS);
    return {
      contract: CONTRACT,
      part,
      outcome: 'planned',
      objects: chunks / FILE_CHUNKS,
      chunks,
      lines: chunks * LINES,
      bytes: chunks * LINES,
      scorers: SCORERS,
      more: (part + 1) * PART_CHUNKS < this.chunks,
      manifest: workKeys.manifest(RUN, part, ''),
      options: { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' },
      input: {},
      warnings: ['the same for each part'],
    };
  }
}

function lineOf(chunk: number): ManifestLine {
  const file = Math.floor(chunk / FILE_CHUNKS);
  const key = `endpoint/AllTraffic/2026/11/20/10/${String(file).padStart(8, '0')}.jsonl`;
  const place = { bucket: 'captures', key, etag: `${file}`.padStart(32, '0'), start: 0, end: 9_999, firstLine: 1 };
  const ranges = [{ ...place, lines: LINES, objectTimeMs: 0 }];
  return { contract: CONTRACT, chunk, experimentId: '7', lines: LINES, ranges };
}

const attempt = (chunk: number) => ({
  ...{ run: RUN, chunk, attempt: 0, requestId: `r${chunk}` },
  ...{ startedAt: '2026-11-20T10:00:00Z', endedAt: '2026-11-20T10:01:00Z', ok: true },
});

function logReceipt(chunk: number): LogReceipt {
  const counts = { ...NO_LOG_COUNTS, lines: LINES, traced: LINES, written: LINES };
  const receipt: LogReceipt = { step: 'log', ...attempt(chunk), counts, quarantineReasons: {} };
  const error = { name: 'MlflowUnavailable', message: 'It was away for a while.' };
  return isFailed(chunk) ? { ...receipt, ok: false, error } : receipt;
}

/** Captures of an hour are in this number of chunks. */
const HOUR_CHUNKS = 1_000;

function qualityOf(chunk: number): QualityCounts {
  const hour = new Date(Date.UTC(2026, 0, 1) + Math.floor(chunk / HOUR_CHUNKS) * 3_600_000).toISOString().slice(0, 13);
  const sample = { 1: { captures: LINES, values: { yes: LINES - 1, no: 1 } } };
  const scorers = Object.fromEntries(Array.from({ length: SCORERS }, (_, n) => [`scorer_${n}`, sample]));
  const cell = { captures: LINES, inputTokens: 1, outputTokens: 1, judgeUsd: 0.25, scorers };
  return { [hour]: { Blue: cell, Green: cell } };
}

function evaluateReceipt(chunk: number): EvaluateReceipt {
  const verdicts = Array.from({ length: SCORERS }, (_, n) => [`scorer_${n}`, { yes: LINES - 1, no: 1 }]);
  return {
    step: 'evaluate',
    ...attempt(chunk),
    scorers: SCORERS,
    evaluatedTraces: LINES,
    counts: { ...NO_VERDICT_COUNTS, newVerdicts: LINES * SCORERS },
    failedRecorded: 0,
    quality: qualityOf(chunk),
    reasons: {},
    verdicts: Object.fromEntries(verdicts),
    spend: { calls: LINES, inputTokens: 40_000, outputTokens: 15_000, usd: 0.25 },
    log: logReceipt(chunk),
  };
}
