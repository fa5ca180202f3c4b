/** Runs PlanReplay's bundle on an hour of captures with gigabytes of data. */
import type { ReplayPlanResult } from '../../src/core/contract/replay.ts';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import { CAPTURES, ENDPOINT } from '../support/bench-stack.ts';
import { execution, type MeasuredFunctions } from './replay-functions.ts';
import { CAPTURES_KEY } from './shard-runs.ts';

const FILES = 16;
/** Captured times within one hour. */
const PER_SECOND = 190;
const PREFIX = `${ENDPOINT}/AllTraffic/2026/11/20/11/`;
const FIRST_MS = Date.parse('2026-11-20T11:00:00Z');
const BYTES_PER_MEGABYTE = 1e6;

/** Returns a unique question or answer of 60 words. */
const text = (n: number): string => {
  const words = Array.from({ length: 60 }, (_, i) => WORDS[(n * 7 + i * 13 + (n >> (i % 8))) % WORDS.length]);
  return `[#${String(n).padStart(7, '0')}] ${words.join(' ')}`;
};
const WORDS =
  'the model answers every captured question in order and says why an endpoint that was slow before is faster now'.split(
    ' ',
  );

/** Returns a chat. Every fourth one continues the previous one. */
function line(n: number): string {
  const question = { role: 'user', content: text(n) };
  const messages =
    n % 4 === 3
      ? [{ role: 'user', content: text(n - 1) }, { role: 'assistant', content: text(n) }, question]
      : [question];
  const reply = {
    choices: [{ index: 0, message: { role: 'assistant', content: text(n + 1) }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 66, completion_tokens: 60, total_tokens: 126 },
  };
  const side = (mode: string, data: object) => ({
    observedContentType: 'application/json',
    mode,
    data: JSON.stringify(data),
    encoding: 'JSON',
  });
  const time = new Date(FIRST_MS + Math.floor(n / PER_SECOND) * 1000).toISOString().replace('.000Z', 'Z');
  return JSON.stringify({
    captureData: {
      endpointInput: side('INPUT', { model: 'my-model', messages, max_tokens: 64 }),
      endpointOutput: side('OUTPUT', reply),
    },
    eventMetadata: { eventId: `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`, inferenceTime: time },
    eventVersion: '0',
  });
}

export interface PlanRun {
  bytes: number;
  records: number;
  shards: number;
  seconds: number;
  /** MB (10^6 bytes) per second. */
  rate: number;
  /** MB/s of the emulator when a part of the same data is only read. */
  readRate: number;
  megabytes: number;
  laterTurns: number;
}

export async function planRun(functions: MeasuredFunctions, records: number): Promise<PlanRun> {
  const each = Math.ceil(records / FILES);
  const keyOf = (file: number): string => `${PREFIX}${String(file).padStart(2, '0')}-00-000-bench.jsonl`;
  let bytes = 0;
  await functions.putAll(
    CAPTURES,
    Array.from({ length: FILES }, (_, file) => ({
      key: keyOf(file),
      body: () => {
        const body = Buffer.from(`${Array.from({ length: each }, (_, i) => line(file * each + i)).join('\n')}\n`);
        bytes += body.length;
        return body;
      },
    })),
  );
  const readRate = await bareRate(functions, CAPTURES, [keyOf(0), keyOf(1)]);
  const input = { source: { prefix: PREFIX }, target: { endpoint: ENDPOINT } };
  const { seconds, maxRssMb, result } = await functions.call('plan-replay', { input, run: execution('large') }, '');
  const { shards } = result as unknown as ReplayPlanResult;
  const plan = await functions.json<{ captures: { records: number } }>(replayKeys.plan('large'));
  if (plan.captures.records !== each * FILES) {
    throw new Error(`Records are missing; got: ${plan.captures.records}; expected: ${each * FILES}`);
  }
  const schedule = await functions.text(replayKeys.schedule('large', 0));
  return {
    bytes,
    records: each * FILES,
    shards,
    seconds,
    rate: bytes / BYTES_PER_MEGABYTE / seconds,
    readRate,
    megabytes: maxRssMb,
    laterTurns: schedule.split('"t":[1,').length - 1,
  };
}

/** Measures making and writing a schedule without the cost of reading: it repeats the captures of one shard. */
export async function scheduleRun(
  functions: MeasuredFunctions,
  repeat: number,
): Promise<{ requests: number; seconds: number; megabytes: number }> {
  const input = { source: { prefix: CAPTURES_KEY }, target: { endpoint: ENDPOINT }, repeat };
  const { seconds, maxRssMb } = await functions.call('plan-replay', { input, run: execution('repeated') }, '');
  const { requests } = await functions.json<{ requests: number }>(replayKeys.plan('repeated'));
  return { requests, seconds, megabytes: maxRssMb };
}

/** Measures a process that only reads these objects, MB/s. */
async function bareRate(functions: MeasuredFunctions, bucket: string, keys: readonly string[]): Promise<number> {
  const script = new URL('bare-s3.ts', import.meta.url).pathname;
  const { seconds, result } = await functions.run([script, bucket, ...keys]);
  return Number(result.bytes) / BYTES_PER_MEGABYTE / seconds;
}
