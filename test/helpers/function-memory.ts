/**
 * Measures the memory of a function as deployed (its bundle, its flags, the settings of malloc) and of its child processes.
 * S3, MLflow and the judge are doubles.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleFunctions } from '../../lib/bundle-functions.ts';
import { nodeOptions } from '../../lib/settings/function-environment.ts';
import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import type { LogReceipt } from '../../src/core/contract/receipts.ts';
import { SMALL_MALLOC } from '../../src/core/process/malloc.ts';
import { type StandInJudge, startStandInJudge } from '../doubles/faulty-judge/server.ts';
import { type Behavior, type MisbehavingServer, startMisbehavingServer } from '../doubles/misbehaving-server.ts';
import { chunkOf } from './chunk-request.ts';

export type Step = 'log' | 'evaluate';

export interface MemoryRun {
  /** The highest resident memory of the function’s process and its children together. */
  peakMb: number;
  /** The highest resident memory of the children. */
  childMb: number;
  seconds: number;
  /** The counts of the receipt of a success; `undefined` if the process was killed or the handler threw. */
  counts: Record<string, number> | undefined;
  /** The names of the reasons of quarantined lines. */
  quarantined: string[];
  /** The ends of the requests that wrote traces, which contain their notes. */
  written: string;
}

const SAMPLE_MS = 4;
const KIB = 1024;
const FOLDERS = { log: 'log-traces', evaluate: 'evaluate-traces' };
/** Invokes the handler once. */
const DRIVER = `const { handler } = await import(process.env.BUNDLE);
await handler(JSON.parse(process.env.REQUEST), { awsRequestId: 'r', getRemainingTimeInMillis: () => 840_000 });
process.exit(0);`;

const EMPTY_LISTING = '<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>';

const json = (value: unknown): Behavior => ({ kind: 'reply', status: 200, body: JSON.stringify(value) });

/** Returns the ids of the traces in a request: in protobuf, field 1 of each span is its trace's id, and field 2 its own. */
function traceIdsOf(body: Buffer): string[] {
  const ids: string[] = [];
  const before = Buffer.from([0x0a, 16]);
  for (let at = body.indexOf(before); at >= 0; at = body.indexOf(before, at + 1)) {
    if (body[at + 18] === 0x12 && body[at + 19] === 8) ids.push(`tr-${body.toString('hex', at + 2, at + 18)}`);
  }
  return ids;
}

export class FunctionMemory {
  readonly #server: MisbehavingServer;
  readonly #judge: StandInJudge;
  readonly #bundles = mkdtempSync(join(tmpdir(), 'function-memory-'));
  #file = Buffer.alloc(0);
  #quarantine = '';
  #receipt: Pick<LogReceipt, 'ok' | 'counts'> | undefined;
  #written: string[] = [];
  /** The ids of the traces that were posted, and of those whose spans came. */
  readonly #posted = new Set<string>();
  readonly #stored = new Set<string>();

  static async start(): Promise<FunctionMemory> {
    return new FunctionMemory(await startMisbehavingServer(), await startStandInJudge());
  }

  private constructor(server: MisbehavingServer, judge: StandInJudge) {
    this.#server = server;
    this.#judge = judge;
    bundleFunctions(this.#bundles);
    server.rule(({ method, path, headers, body }) => {
      // Drops the bodies, which have 40 MB each.
      server.requests.length = 0;
      if (path.startsWith('/captures/')) {
        const [, from, to] = /bytes=(\d+)-(\d*)/.exec(String(headers.range)) ?? [];
        const part = this.#file.subarray(Number(from ?? 0), to ? Number(to) + 1 : undefined);
        return { kind: 'reply', status: 206, headers: { etag: '"e"' }, body: part };
      }
      if (path.startsWith('/work/')) {
        if (path.includes('list-type=2')) return { kind: 'reply', status: 200, body: EMPTY_LISTING };
        if (method !== 'PUT') return { kind: 'reply', status: 404, body: '<Error><Code>NoSuchKey</Code></Error>' };
        if (path.includes('/quarantine') || path.startsWith('/work/quarantine')) this.#quarantine = body.toString();
        if (path.includes('/receipts/')) this.#receipt = JSON.parse(body.toString());
        return { kind: 'reply', status: 200, headers: { etag: '"e"' } };
      }
      // The table, which takes everything and has nothing.
      if (headers['x-amz-target']) return json({ Attributes: {}, Responses: {} });
      if (path === '/version') return { kind: 'reply', status: 200, body: '3.17.2' };
      if (path === '/v1/traces') {
        this.#written.push(noteOf(body));
        for (const id of traceIdsOf(body)) this.#stored.add(id);
        return { kind: 'reply', status: 200 };
      }
      if (path.includes('/experiments/get')) {
        return json({ experiment: { experiment_id: '7', name: 'e', artifact_location: 'mlflow-artifacts:/7' } });
      }
      const info = (id: string) => ({
        trace_id: id,
        request_time: '2026-11-20T09:15:00Z',
        state: 'OK',
        trace_location: { mlflow_experiment: { experiment_id: '7' } },
        tags: this.#stored.has(id) ? { 'mlflow.trace.spansLocation': 'TRACKING_STORE' } : {},
      });
      if (path.endsWith('/traces/search')) {
        const { filter } = JSON.parse(body.toString()) as { filter: string };
        const ids = filter.match(/tr-[0-9a-f]+/g) ?? [];
        return json({ traces: ids.filter((id) => this.#stored.has(id) || this.#posted.has(id)).map(info) });
      }
      if (path === '/api/3.0/mlflow/traces') {
        const { trace } = JSON.parse(body.toString()) as { trace: { trace_info: { trace_id: string } } };
        this.#posted.add(trace.trace_info.trace_id);
        return json({ trace: { trace_info: info(trace.trace_info.trace_id) } });
      }
      return undefined;
    });
  }

  async stop(): Promise<void> {
    rmSync(this.#bundles, { recursive: true });
    await Promise.all([this.#server.stop(), this.#judge.close()]);
  }

  /** Invokes the function with the lines as one chunk. */
  async run(step: Step, memoryMb: number, lines: readonly string[]): Promise<MemoryRun> {
    this.#file = Buffer.from(`${lines.join('\n')}\n`);
    this.#quarantine = '';
    this.#receipt = undefined;
    this.#written = [];
    this.#stored.clear();
    this.#posted.clear();
    const place = { bucket: 'captures', key: 'file.jsonl', etag: 'e', start: 0, end: this.#file.length - 1 };
    const request: ChunkRequest = {
      run: 'run',
      chunk: chunkOf([{ ...place, firstLine: 1, lines: lines.length, objectTimeMs: 0 }]),
      options: { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' },
      attempt: 0,
    };
    const started = performance.now();
    const child = spawn(process.execPath, ['--input-type=module', '-e', DRIVER], {
      env: {
        ...SMALL_MALLOC,
        NODE_OPTIONS: nodeOptions(memoryMb),
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(memoryMb),
        AWS_REGION: 'us-east-1',
        AWS_ACCESS_KEY_ID: 'test',
        AWS_SECRET_ACCESS_KEY: 'test',
        AWS_ENDPOINT_URL: this.#server.url,
        AWS_ENDPOINT_URL_BEDROCK_RUNTIME: this.#judge.url,
        POWERTOOLS_LOG_LEVEL: 'SILENT',
        STACK_PREFIX: 'test',
        WORK_BUCKET: 'work',
        SAGEMAKER_ENDPOINT_NAME: 'fern-house',
        DATA_CAPTURE_S3_BUCKET: 'captures',
        DATA_CAPTURE_S3_PREFIX: '/',
        MLFLOW_TRACKING_URI: this.#server.url,
        MLFLOW_EXPERIMENT_NAME: 'e',
        BEDROCK_MODEL_ID: 'global.anthropic.claude-haiku-4-5-20251001-v1:0',
        EVALUATION_SAMPLE_RATE: '1',
        EVALUATION_BUDGET_USD: '0',
        BUDGET_TABLE: 'limits',
        MAX_FUNCTIONS: '0',
        BUNDLE: join(this.#bundles, FOLDERS[step], 'index.mjs'),
        REQUEST: JSON.stringify(request),
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    let [peakMb, childMb] = [0, 0];
    const timer = setInterval(() => {
      const children = childrenOf(child.pid).reduce((sum, pid) => sum + residentMb(pid), 0);
      childMb = Math.max(childMb, children);
      peakMb = Math.max(peakMb, children + residentMb(child.pid));
    }, SAMPLE_MS);
    await new Promise((resolve) => child.once('close', resolve));
    clearInterval(timer);
    // It is assigned while the function runs.
    const receipt = this.#receipt as Pick<LogReceipt, 'ok' | 'counts'> | undefined;
    return {
      peakMb: Math.round(peakMb),
      childMb: Math.round(childMb),
      seconds: Math.round((performance.now() - started) / 100) / 10,
      counts: receipt?.ok ? { ...receipt.counts } : undefined,
      quarantined: this.#quarantine
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => (JSON.parse(line) as { reason: { name: string } }).reason.name),
      written: this.#written.join('\n'),
    };
  }
}

/** Returns the end of a request, which contains the notes of its traces. */
const noteOf = (body: Buffer): string => body.subarray(-KIB * KIB).toString('latin1');

const read = (path: string): string => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // The process has ended.
    return '';
  }
};
const residentMb = (pid: number | undefined): number =>
  Number(/VmRSS:\s+(\d+)/.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) / KIB;
const childrenOf = (pid: number | undefined): number[] =>
  read(`/proc/${pid}/task/${pid}/children`).trim().split(' ').filter(Boolean).map(Number);
