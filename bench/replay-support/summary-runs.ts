/** Runs SummarizeReplay's bundle on many shards, which are copies of a shard that was really sent. */

import type { SummarizeReplayResult } from '../../src/core/contract/replay.ts';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import type { ShardResult } from '../../src/replay/cloud/shard/shard-result.ts';
import { SHARD_FILES, type StoredPlan } from '../../src/replay/cloud/work-bucket/stored-plan.ts';
import { REPLIES_FILE } from '../../src/replay/compare/replies-file.ts';
import { MAX_INPUTS } from '../../src/replay/results/inputs.ts';
import { FILES } from '../../src/replay/results/result-set.ts';
import { type SideReport, WORK } from '../support/bench-stack.ts';
import { execution, type MeasuredFunctions } from './replay-functions.ts';

export const SHARDS = 10;
/** Time to S3's first byte within a region. */
export const DISTANCE_MS = 30;
/** Each of the many shards is small. Together they have a fifth of the data of ten full shards. */
const MANY_SHARE = 5;
const BYTES_PER_MEGABYTE = 1e6;

/** A kind of merged file, and how the lines of each further copy differ. */
interface Kind {
  file: string;
  /** Records of each shard. */
  records: number;
  copyOf(line: string, place: { shard: number; cycle: number; ordinal: number }): string;
}

/** Digits of a time in nanoseconds before the fraction of its millisecond. */
const MS_DIGITS = 13;
const END_KEY = '"request_end_ns":';
/** Duration of one cycle of the copied lines. */
const CYCLE_MS = 20_000;

/** Shifts the end of a copied line a little, so that the lines of all shards alternate. */
function laterEnd(line: string, { shard, cycle }: { shard: number; cycle: number }): string {
  const at = line.indexOf(END_KEY) + END_KEY.length;
  const ms = Number(line.slice(at, at + MS_DIGITS)) + cycle * CYCLE_MS + shard;
  return `${line.slice(0, at)}${ms}${line.slice(at + MS_DIGITS)}`;
}

/** Gives a copied line another position in the window and a separate conversation, for ten shards. */
function otherPlace(line: string, { shard, ordinal }: { shard: number; ordinal: number }): string {
  const [, , ...payload] = line.split('\t');
  const session = ordinal * SHARDS + shard;
  const turn = { session, turnIndex: 0, conversationId: `event-${session}` };
  return `${session}\t${JSON.stringify(turn)}\t${payload.join('\t')}`;
}

const KINDS = (records: number): Kind[] => [
  { file: FILES.records, records, copyOf: laterEnd },
  { file: SHARD_FILES.inputs, records: Math.ceil(records / 2), copyOf: otherPlace },
  { file: REPLIES_FILE, records: Math.ceil(records / 2), copyOf: (line) => line },
];

export interface MergeRun {
  file: string;
  shards: number;
  /** S3 had the latency of the real one. */
  distant: boolean;
  bytes: number;
  /** MB (10^6 bytes) per second. */
  rate: number;
  megabytes: number;
}

export interface SummaryRuns {
  merges: MergeRun[];
  /** MB/s of the emulator when the records are only copied. */
  copyRate: number;
  /** Only figures and report. */
  figures: { shards: number; distant: boolean; seconds: number; megabytes: number; resultBytes: number }[];
}

/**
 * Measures the summaries.
 *
 * @param sent run of a shard that was sent with `compare`
 * @param records records of each of the ten shards; half as many for inputs and replies
 * @param many number of shards of a replay that only has figures
 */
export async function summarizeRuns(
  functions: MeasuredFunctions,
  sent: string,
  records: number,
  many: number,
): Promise<SummaryRuns> {
  const prefix = replayKeys.shardPrefix(sent, 0);
  const result = await functions.json<ShardResult>(`${prefix}${SHARD_FILES.result}`);
  const runs: SummaryRuns = { merges: [], copyRate: Number.NaN, figures: [] };
  const distant = await functions.distantS3(DISTANCE_MS);
  const resultBytes = Buffer.byteLength(JSON.stringify(result));
  const figures = async (shards: number, storage?: string): Promise<void> => {
    const name = `figures-${shards}${storage ? '-distant' : ''}`;
    await putShards(functions, sent, name, shards, result);
    const { seconds, maxRssMb } = await summarize(functions, name, storage);
    runs.figures.push({ shards, distant: storage !== undefined, seconds, megabytes: maxRssMb, resultBytes });
  };
  const figuresSeconds = (shards: number, distant: boolean): number =>
    runs.figures.find((one) => one.shards === shards && one.distant === distant)?.seconds ?? Number.NaN;
  const merge = async (kind: Kind, shards: number, storage?: string): Promise<string[]> => {
    const name = `merge-${kind.file}-${shards}${storage ? '-distant' : ''}`;
    await putShards(functions, sent, name, shards, result, kind.file === REPLIES_FILE);
    const lines = (await functions.text(`${prefix}${kind.file}`)).trimEnd().split('\n');
    const keys = Array.from({ length: shards }, (_, shard) => `${replayKeys.shardPrefix(name, shard)}${kind.file}`);
    let bytes = 0;
    const body = (shard: number) => (): Buffer => {
      const made = copies(lines, kind, shard);
      bytes += made.length;
      return made;
    };
    await functions.putAll(
      WORK,
      keys.map((key, shard) => ({ key, body: body(shard) })),
    );
    const { seconds, maxRssMb } = await summarize(functions, name, storage);
    const away = storage !== undefined;
    const rate = bytes / BYTES_PER_MEGABYTE / (seconds - figuresSeconds(shards, away));
    runs.merges.push({ file: kind.file, shards, distant: away, bytes, rate, megabytes: maxRssMb });
    return keys;
  };
  const [ofRecords, ...others] = KINDS(records);
  if (!ofRecords) throw new Error('The shard left no records to merge');
  try {
    await figures(SHARDS);
    const keys = await merge(ofRecords, SHARDS);
    runs.copyRate = await bareRate(functions, 'copy', WORK, keys.slice(0, 2));
    for (const kind of others) await merge(kind, SHARDS);
    const fewer = Math.ceil(records / MANY_SHARE);
    for (const shards of [SHARDS, many]) {
      await figures(shards, distant.url);
      await merge({ ...ofRecords, records: Math.ceil((fewer * SHARDS) / shards) }, shards, distant.url);
    }
  } finally {
    await distant.process.stop();
  }
  return runs;
}

function copies(lines: readonly string[], { records, copyOf }: Kind, shard: number): Buffer {
  const texts: string[] = [];
  for (let ordinal = 0; ordinal < records; ordinal++) {
    const cycle = Math.floor(ordinal / lines.length);
    texts.push(copyOf(lines[ordinal % lines.length] ?? '', { shard, cycle, ordinal }));
  }
  return Buffer.from(`${texts.join('\n')}\n`);
}

/** Writes a plan with a number of shards, each with the figures of the one that was sent. */
async function putShards(
  functions: MeasuredFunctions,
  sent: string,
  name: string,
  count: number,
  result: ShardResult,
  compare = false,
): Promise<void> {
  const plan = await functions.json<StoredPlan>(replayKeys.plan(sent));
  const [own] = plan.shards;
  if (!own) throw new Error(`The plan of ${sent} has no shard`);
  const shards = Array.from({ length: count }, (_, shard) => ({ ...own, shard, stripe: shard }));
  // The excess over the limit of inputs.json would be left out, which is not a failure here.
  const requests = Math.min(own.requests * count, MAX_INPUTS);
  const whole: StoredPlan = { ...plan, run: name, compare, shards, requests };
  await functions.put(WORK, replayKeys.plan(name), JSON.stringify(whole));
  await functions.putAll(
    WORK,
    shards.map(({ shard }) => ({
      key: `${replayKeys.shardPrefix(name, shard)}${SHARD_FILES.result}`,
      body: () => JSON.stringify({ ...result, shard }),
    })),
  );
}

async function summarize(functions: MeasuredFunctions, name: string, storage?: string): Promise<SideReport> {
  const report = await functions.call('summarize-replay', { run: execution(name) }, '', storage);
  const { ok, error, cause } = report.result as unknown as SummarizeReplayResult;
  if (!ok) throw new Error(`${name} was not summarized; got: ${error}: ${cause}`);
  const own = await functions.json<{ left_out?: object[] }>(`${replayKeys.resultPrefix(name)}${FILES.replay}`);
  if (own.left_out) throw new Error(`${name}: files were left out; got: ${JSON.stringify(own.left_out)}`);
  return report;
}

/** Measures a process that only reads or copies these objects, MB/s. */
export async function bareRate(
  functions: MeasuredFunctions,
  mode: 'read' | 'copy',
  bucket: string,
  keys: readonly string[],
): Promise<number> {
  const script = new URL('bare-s3.ts', import.meta.url).pathname;
  const { seconds, result } = await functions.run([script, mode, bucket, ...keys]);
  return Number(result.bytes) / BYTES_PER_MEGABYTE / seconds;
}
