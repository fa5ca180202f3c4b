/**
 * Joins a million labels, of four forms and in disorder, to a million indexed predictions in an emulated S3, and measures them: the
 * time of the steps, and the memory of their process. MLflow is left out, since it takes what it takes.
 *
 * `--labels N`, `--hours N`: over how many hours the predictions are (168).
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { nodeOptions } from '../lib/settings/function-environment.ts';
import type { Log } from '../local/python/python-environment.ts';
import { emulatedClients } from '../local/servers/emulated-clients.ts';
import { startMiniStack } from '../local/servers/ministack.ts';
import { Storage } from '../src/core/aws/storage.ts';
import { SMALL_MALLOC } from '../src/core/process/malloc.ts';
import { index, prediction } from '../test/helpers/ground-truth.ts';
import type { SideInput, SideReport } from './ground-truth-support/side.ts';
import { runBundled } from './support/bundled.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, round } from './support/result.ts';

const WORK = 'work';
const LABELS = 'labels';
const PREFIX = 'truth/';
/** The default memory of a function. */
const MEMORY_MB = 1024;
/** Rows of an object of the index: some are of one chunk, most are merged. */
const OBJECT_ROWS = 20_000;
const MOST_SECONDS = 600;
const MOST_MB = 300;
const ACCURACY = 0.9;

/** Writes predictions of a class with its probability. @returns their ids, and what the true answer is */
async function indexed(storage: Storage, count: number, hours: number): Promise<[id: string, label: number][]> {
  const labels: [string, number][] = [];
  const firstSecond = Math.floor(Date.now() / 3_600_000) * 3_600 - hours * 3_600;
  for (let hour = 0; hour < hours; hour += 1) {
    const ofHour = Math.round(((hour + 1) * count) / hours) - Math.round((hour * count) / hours);
    for (let from = 0; from < ofHour; from += OBJECT_ROWS) {
      const rows = Array.from({ length: Math.min(OBJECT_ROWS, ofHour - from) }, () => {
        const [id, value] = [randomUUID(), Math.random() < 0.5 ? 0 : 1];
        labels.push([id, Math.random() < ACCURACY ? value : 1 - value]);
        return prediction(id, {
          second: firstSecond + hour * 3_600 + Math.floor(Math.random() * 3_600),
          traceId: `tr-${randomBytes(16).toString('hex')}`,
          prediction: { value, scores: [round(Math.random(), 4)] },
        });
      });
      await index(storage, rows, WORK);
    }
  }
  return labels;
}

const FORMS: Record<string, (labels: [string, number][]) => string | Buffer> = {
  'monitor.jsonl': (labels) =>
    labels
      .map(([eventId, data]) => {
        const truth = { data: String(data), encoding: 'CSV' };
        return `${JSON.stringify({ groundTruthData: truth, eventMetadata: { eventId }, eventVersion: '0' })}\n`;
      })
      .join(''),
  'lines.jsonl': (labels) => labels.map(([id, label]) => `${JSON.stringify({ id, label })}\n`).join(''),
  'table.csv': (labels) => csvOf(labels),
  'table.csv.gz': (labels) => gzipSync(csvOf(labels)),
};
const csvOf = (labels: [string, number][]): string =>
  `inference_id,label\n${labels.map(([id, label]) => `${id},${label}\n`).join('')}`;

function shuffle(items: unknown[]): void {
  for (let at = items.length - 1; at > 0; at -= 1) {
    const other = Math.floor(Math.random() * (at + 1));
    [items[at], items[other]] = [items[other], items[at]];
  }
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const count = numberFlag(flags, 'labels', 1_000_000);
  const hours = numberFlag(flags, 'hours', 168);
  const aws = await startMiniStack({ log });
  const clients = emulatedClients(aws);
  try {
    const storage = new Storage(clients.s3);
    for (const Bucket of [WORK, LABELS]) await clients.s3.send(new CreateBucketCommand({ Bucket }));
    const labels = await indexed(storage, count, hours);
    shuffle(labels);
    const forms = Object.entries(FORMS);
    for (const [at, [name, form]] of forms.entries()) {
      const own = labels.slice((at * count) / forms.length, ((at + 1) * count) / forms.length);
      await storage.putBytes(LABELS, `${PREFIX}${name}`, { body: Buffer.from(form(own)), type: 'text/plain' });
    }
    log(`${count} predictions of ${hours} hours are indexed; joining`);
    const input: SideInput = { labelBucket: LABELS, prefix: PREFIX };
    const env = { ...aws.env, ...SMALL_MALLOC, NODE_OPTIONS: nodeOptions(MEMORY_MB) };
    const report = await runBundled<SideReport>('ground-truth-support/side.ts', [JSON.stringify(input)], env);
    return result(report, count, hours);
  } finally {
    await aws.stop();
  }
}

function result(report: SideReport, count: number, hours: number): BenchResult {
  const { readSeconds, joinSeconds, measureSeconds, cpuSeconds, peakMb, compared, accuracy } = report;
  const seconds = readSeconds + joinSeconds + measureSeconds;
  return {
    ratio: round(MOST_SECONDS / seconds),
    ours: {
      'seconds to read': round(readSeconds),
      'to join': round(joinSeconds),
      'to measure': round(measureSeconds),
      'CPU seconds': round(cpuSeconds),
      'peak MB': round(peakMb, 0),
    },
    peer: { 'seconds allowed': MOST_SECONDS, 'MB allowed': MOST_MB },
    checks: [
      atLeast('labels that were compared with their prediction', compared, count),
      atMost('accuracy, distance from that of the data', Math.abs((accuracy ?? 0) - ACCURACY), 0.05),
      atMost(`${count} labels, ${count} predictions of ${hours} hours: seconds`, seconds, MOST_SECONDS),
      atMost('peak memory of the process, MB', peakMb, MOST_MB),
    ],
    notes: [
      'ratio: allowed time over used time; labels of Model Monitor, JSON Lines, CSV and gzip; nothing is written to MLflow',
    ],
  };
}
