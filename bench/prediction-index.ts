/**
 * Measures what the index of predictions costs: its share of the processor time of LogTraces and of EvaluateTraces without a judge,
 * over captures of several kinds, with a real MLflow server and an emulated S3; and its bytes for each id.
 *
 * `--records N` captures of each kind (1,500).
 */
import { randomUUID } from 'node:crypto';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { destroyClients } from '../bin/operate/aws-clients.ts';
import type { Log } from '../local/python/python-environment.ts';
import { emulatedClients } from '../local/servers/emulated-clients.ts';
import { startMiniStack } from '../local/servers/ministack.ts';
import { startMlflowServer } from '../local/servers/mlflow-server.ts';
import { Storage } from '../src/core/aws/storage.ts';
import type { CaptureRange, ChunkRequest } from '../src/core/contract/payloads.ts';
import { truthKeys } from '../src/core/contract/work-keys.ts';
import { PredictionIndex } from '../src/ground-truth/index/prediction-index.ts';
import { isCodeScorer, scorersFor } from '../src/judge/scorers/scorer-set.ts';
import { createMlflowClient, type MlflowClient } from '../src/mlflow/client.ts';
import { CHUNK_BOUNDS } from '../src/monitoring/chunk/chunk-bounds.ts';
import { evaluateChunk, logChunk } from '../src/monitoring/evaluate/evaluate-chunk.ts';
import { memoryWriting } from '../test/doubles/memory-table.ts';
import { scriptedJudge } from '../test/doubles/scripted-judge.ts';
import { chunkOf } from '../test/helpers/chunk-request.ts';
import { testEnvironment } from '../test/helpers/test-environment.ts';
import { numberFlag } from './support/flags.ts';
import { chatRecord } from './support/records.ts';
import { atMost, type BenchResult, machine, median, round } from './support/result.ts';

const BUCKET = 'bench-index';
/** The smallest chunk for which the bytes are promised. */
const SMALL_CHUNK = 100;
const MOST_PERCENT = 3;
const MOST_BYTES = 80;
const MOST_BYTES_A_VALUE = 10;

const side = (mode: string, type: string, data: string) => ({
  observedContentType: type,
  mode,
  data,
  encoding: type === 'text/csv' ? 'CSV' : 'JSON',
});

function record(type: string, input: string, output: string): string {
  return JSON.stringify({
    captureData: { endpointInput: side('INPUT', type, input), endpointOutput: side('OUTPUT', type, output) },
    eventMetadata: { eventId: randomUUID(), inferenceTime: new Date().toISOString() },
    eventVersion: '0',
  });
}

const AGES = ['18-29', '30-44', '45-59', '60+'];
const TOWNS = ['Leeds', 'York', 'Hull'];
const pick = (list: readonly string[]): string => list[Math.floor(Math.random() * list.length)] as string;
const features = (): string => `${pick(AGES)},${pick(TOWNS)},${Math.random()},${Math.random() * 100}`;
const json = (prediction: unknown): string =>
  record(
    'application/json',
    JSON.stringify({ instances: [{ age: pick(AGES), town: pick(TOWNS), spend: Math.random() * 1000, visits: 7 }] }),
    JSON.stringify({ predictions: [prediction] }),
  );
const shares = (count: number): number[] => {
  const weights = Array.from({ length: count }, () => Math.random());
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
};

interface Kind {
  line(n: number): string;
  /** Ids of a line. */
  ids?: number;
  /** Probabilities and groups of an id. */
  values?: number;
  groups?: string[];
  /** Its share of CPU is measured, and not only its bytes. */
  isTimed?: true;
}

const KINDS: Record<string, Kind> = {
  number: { line: () => record('text/csv', features(), String(Math.random())), isTimed: true },
  class: { line: () => json({ predicted_label: pick(['fern', 'moss', 'ivy']) }) },
  text: { line: (n) => chatRecord(n).replace(/"eventId":"[^"]*"/, `"eventId":"${randomUUID()}"`), isTimed: true },
  'number with 2 groups': {
    line: () => record('text/csv', features(), String(Math.random())),
    groups: ['0', '1'],
    values: 2,
  },
  '5 probabilities': { line: () => json({ probabilities: shares(5) }), values: 5 },
  '20 rows a call': {
    line: () => {
      const rows = (cell: () => string) => Array.from({ length: 20 }, cell).join('\n');
      return record(
        'text/csv',
        rows(features),
        rows(() => String(Math.random())),
      );
    },
    ids: 20,
    isTimed: true,
  },
};

/** CPU of this thread: not of those that compile, collect garbage or wait for the network meanwhile. */
function secondsSince(since: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(since);
  return (user + system) / 1e6;
}

/** Returns a function that gives the CPU seconds of the index since its last call. */
function watchIndex(): () => number {
  const { add, write } = PredictionIndex.prototype;
  let seconds = 0;
  PredictionIndex.prototype.add = function (...args) {
    const since = process.threadCpuUsage();
    const predictions = add.apply(this, args);
    seconds += secondsSince(since);
    return predictions;
  };
  // Nothing else is going on at the end of a part.
  PredictionIndex.prototype.write = async function (...args) {
    const since = process.threadCpuUsage();
    await write.apply(this, args);
    seconds += secondsSince(since);
  };
  return () => {
    const spent = seconds;
    seconds = 0;
    return spent;
  };
}

interface Bench {
  storage: Storage;
  store: MlflowClient;
  environment: ReturnType<typeof testEnvironment>;
  experimentId: string;
}

async function requestOf(storage: Storage, name: string, experimentId: string, lines: string[]): Promise<ChunkRequest> {
  const key = `${name}/AllTraffic/2026/11/20/10/captures.jsonl`;
  await storage.putText(BUCKET, key, `${lines.join('\n')}\n`);
  const object = await storage.head(BUCKET, key);
  if (object === undefined) throw new Error(`The captures are missing; where: ${key}`);
  const { etag, size, lastModifiedMs: objectTimeMs } = object;
  const range: CaptureRange = {
    bucket: BUCKET,
    key,
    etag,
    objectTimeMs,
    start: 0,
    end: size - 1,
    firstLine: 1,
    lines: lines.length,
  };
  const options = { evaluate: true, reevaluate: false, sampleRate: 0, dryRun: false, judge: 'converse' as const };
  return { run: name, chunk: chunkOf([range], { experimentId }), options, attempt: 0 };
}

const STEPS = {
  LogTraces: (request: ChunkRequest, { storage, store, environment }: Bench) =>
    logChunk(request, { storage, store, environment, requestId: 'bench', ...memoryWriting() }),
  EvaluateTraces: (request: ChunkRequest, { storage, store, environment }: Bench) =>
    evaluateChunk(request, {
      ...{ storage, store, environment, requestId: 'bench', ...memoryWriting() },
      judge: scriptedJudge().judge,
      scorers: scorersFor().filter(isCodeScorer),
      always: () => undefined,
    }),
};

/** Returns the bytes of the index that were written since the last call. */
async function bytesOfIndex(storage: Storage, known: Set<string>): Promise<number> {
  let bytes = 0;
  for await (const { key, size } of storage.list(BUCKET, truthKeys.indexPrefix)) {
    if (!known.has(key)) bytes += size;
    known.add(key);
  }
  return bytes;
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const records = numberFlag(flags, 'records', 1500);
  const [ministack, mlflow] = await Promise.all([startMiniStack({ log }), startMlflowServer({ log })]);
  const clients = emulatedClients(ministack);
  const store = createMlflowClient({ trackingUri: mlflow.url });
  try {
    await clients.s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const storage = new Storage(clients.s3);
    const { id: experimentId } = await store.resolveExperiment('bench-index');
    return await measure({ storage, store, experimentId }, records, log);
  } finally {
    store.close();
    destroyClients(clients);
    await Promise.all([mlflow.stop(), ministack.stop()]);
  }
}

async function measure(parts: Omit<Bench, 'environment'>, records: number, log: Log): Promise<BenchResult> {
  const spentByIndex = watchIndex();
  const known = new Set<string>();
  const ours: BenchResult['ours'] = {};
  const checks: BenchResult['checks'] = [];
  for (const [kind, { line, ids = 1, values = 0, groups = [], isTimed }] of Object.entries(KINDS)) {
    const environment = testEnvironment({ WORK_BUCKET: BUCKET, GROUND_TRUTH: JSON.stringify({ groups }) });
    const bench = { ...parts, environment };
    const chunkOfLines = (name: string, count: number) =>
      requestOf(
        bench.storage,
        name,
        bench.experimentId,
        Array.from({ length: count }, (_, n) => line(n)),
      );
    await STEPS.LogTraces(await chunkOfLines(`${kind}-small`, SMALL_CHUNK), bench);
    const bytes = (await bytesOfIndex(bench.storage, known)) / SMALL_CHUNK / ids;
    log(`${kind}: ${bytes.toFixed(1)} bytes an id`);
    ours[`${kind}: bytes an id`] = round(bytes, 1);
    checks.push(atMost(`${kind}: bytes an id`, bytes, MOST_BYTES + values * MOST_BYTES_A_VALUE));
    for (const [step, work] of isTimed ? Object.entries(STEPS) : []) {
      // The first captures of a process cost more, with or without an index.
      await work(await chunkOfLines(`${step}-${kind}-first`, CHUNK_BOUNDS.maxLines), bench);
      spentByIndex();
      const measured: number[] = [];
      for (let done = 0; done < records; done += CHUNK_BOUNDS.maxLines) {
        const request = await chunkOfLines(`${step}-${kind}-${done}`, Math.min(CHUNK_BOUNDS.maxLines, records - done));
        const since = process.threadCpuUsage();
        await work(request, bench);
        measured.push(spentByIndex() / secondsSince(since));
      }
      await bytesOfIndex(bench.storage, known);
      // Garbage of all the work may be collected during that of the index.
      const share = median(measured);
      log(`${step}, ${kind}: ${measured.map((one) => (one * 100).toFixed(2)).join(', ')}% of CPU`);
      ours[`${step}, ${kind}: % of CPU`] = round(share * 100);
      checks.push(atMost(`${step}, ${kind}: % of CPU`, share * 100, MOST_PERCENT));
    }
  }
  return {
    name: 'prediction-index',
    ratio: round(Math.min(...checks.map(({ value, target }) => Number(target.slice(3)) / value))),
    ours,
    peer: {
      '% of CPU allowed': MOST_PERCENT,
      'bytes allowed': MOST_BYTES,
      'bytes allowed a value': MOST_BYTES_A_VALUE,
    },
    machine: machine(),
    versions: { node: process.version },
    checks,
    notes: [
      'ratio: the limit over the figure that is nearest to it',
      `bytes: of a chunk of ${SMALL_CHUNK} captures with random UUIDs; CPU: of the main thread, the median of chunks of ${CHUNK_BOUNDS.maxLines}`,
    ],
  };
}
