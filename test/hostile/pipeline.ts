/**
 * Runs lines through the log step and the evaluate step in this process, with the real MLflow client against a server that
 * accepts everything, and a judge with scripted answers.
 */
import { Readable } from 'node:stream';
import { scanChunks } from '../../src/captures/lines/chunks.ts';
import { traceIdOf } from '../../src/captures/trace/ids.ts';
import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import type { EvaluateReceipt, LogReceipt, QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { connectBatchJudge } from '../../src/judge/connect.ts';
import { createJudgeOver } from '../../src/judge/judge-capture.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { emptySpend } from '../../src/judge/spend.ts';
import type { Ask, JudgeTransport } from '../../src/judge/transports/transport.ts';
import type { ModelAnswer } from '../../src/judge/types.ts';
import { createMlflowClient } from '../../src/mlflow/client.ts';
import { assessmentJson } from '../../src/mlflow/trace-json.ts';
import type { NewAssessment, StoredTrace } from '../../src/mlflow/types.ts';
import { prepareChunk } from '../../src/monitoring/batch/prepare.ts';
import { evaluateChunk, logChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';
import { memoryWriting } from '../doubles/memory-table.ts';
import { startScriptedMlflow } from '../doubles/scripted-mlflow.ts';
import { chunkOf } from '../helpers/chunk-request.ts';
import { testEnvironment } from '../helpers/test-environment.ts';
import type { ServerReply } from './arbitraries.ts';

const EXPERIMENT = '7';
const KEY = 'fern-house/AllTraffic/2026/11/20/10/hostile.jsonl';
const RUN = 'hostile';

// The default of the stack. It decides how heavy a line may be.
process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE ??= '1024';

const environment = testEnvironment({ WORK_BUCKET: 'b', DATA_CAPTURE_S3_PREFIX: 'fern-house/' });

/** Storage that returns files in pieces, like a network. */
class Files extends MemoryStorage {
  override async read(
    object: { key: string; etag: string },
    range?: { start: number; end?: number },
  ): Promise<Readable> {
    const bytes = this.objects.get(object.key) ?? Buffer.alloc(0);
    const all = bytes.subarray(range?.start ?? 0, (range?.end ?? bytes.length - 1) + 1);
    return Readable.from(
      (function* () {
        for (let at = 0; at < all.length; at += 65_536) yield all.subarray(at, at + 65_536);
      })(),
    );
  }
}

/** Returns a well-formed answer of the judge. */
export function goodAnswer({ schema }: Ask): string {
  const questions = schema.properties as Record<string, { properties: { value: { enum?: string[]; type: string } } }>;
  const firstOf = ({ enum: words, type }: { enum?: string[]; type: string }) =>
    words?.[0] ?? (type === 'boolean' ? true : 1);
  return JSON.stringify(
    Object.fromEntries(
      Object.entries(questions).map(([name, { properties }]) => [
        name,
        { rationale: 'So.', value: firstOf(properties.value) },
      ]),
    ),
  );
}

export interface PipelineOptions {
  /** The version of MLflow: from 3.17 on traces are sent by OTLP, before as files. */
  version?: '3.17.2' | '3.10.1';
  /** Replaces the reply to one request. */
  mlflow?: ServerReply;
  /** Replaces the well-formed answer. */
  answer?: (ask: Ask) => Partial<ModelAnswer>;
}

export interface PipelineOutcome {
  log: LogReceipt;
  evaluate: EvaluateReceipt;
  /** Quarantined lines, by line number. */
  quarantine: Map<number, QuarantineEntry>;
  /** Verdicts and error assessments by trace. */
  assessments: Map<string, NewAssessment[]>;
  /** Trace ids by line number. */
  ids: string[];
  batchRecords: number;
}

/** @throws the error that stopped the whole chunk, which no line may cause */
export async function throughPipeline(lines: readonly Buffer[], options: PipelineOptions = {}) {
  const server = await startScriptedMlflow({ version: options.version ?? '3.17.2' });
  const store = createMlflowClient({ trackingUri: server.url });
  try {
    const storage = new Files();
    const bytes = Buffer.concat(lines.flatMap((line) => [line, Buffer.from('\n')]));
    storage.objects.set(KEY, bytes);
    const object = await storage.head('b', KEY);
    const ids = lines.map((line) => traceIdOf(EXPERIMENT, line));
    server.expect(ids);
    const { mlflow } = options;
    if (mlflow !== undefined) {
      const { ordinal, status, contentType, body } = mlflow;
      const instead = { kind: 'reply', status, headers: { 'content-type': contentType }, body } as const;
      server.fault((_, request) => (request === ordinal ? instead : undefined));
    }
    // One chunk of any size, because these tests are not about the planner’s chunks.
    const bounds = { maxLines: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY };
    const { value: chunk } = await scanChunks(Readable.from([bytes]), bounds).next();
    if (chunk === undefined) throw new Error('the file has no lines');
    const request: ChunkRequest = {
      run: RUN,
      chunk: chunkOf([{ bucket: 'b', key: KEY, etag: object?.etag ?? '', objectTimeMs: 0, ...chunk }], {
        experimentId: EXPERIMENT,
      }),
      options: { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' },
      attempt: 0,
    };
    const common = { storage: storage.storage, environment, requestId: 'r', ...memoryWriting() };
    const log = await logChunk(request, { ...common, store });
    const entries = ((await storage.getText('', workKeys.quarantine(RUN, 0)))?.text ?? '').split('\n');
    const quarantine = new Map(
      entries
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as QuarantineEntry)
        .map((entry) => [entry.line, entry]),
    );

    const transport: JudgeTransport = {
      sourceId: 'test:/judge',
      userSet: new Set(),
      send: async (ask) => ({
        text: goodAnswer(ask),
        stop: 'end',
        stopReason: 'end_turn',
        usage: { inputTokens: 1000, outputTokens: 100 },
        ...options.answer?.(ask),
      }),
    };
    const assessments = new Map<string, NewAssessment[]>();
    const evaluation = {
      ...common,
      scorers: scorersFor(),
      always: () => undefined,
      remainingMs: () => 900_000,
      store: {
        ...store,
        getTraces: async (_: string, wanted: readonly string[]) => {
          const stored = (traceId: string): StoredTrace => ({ traceId, state: 'OK', assessments: [] });
          return new Map(wanted.filter((id) => server.taken.has(id)).map((id) => [id, stored(id)]));
        },
        writeAssessments: async ({ traceId }: StoredTrace, news: readonly NewAssessment[]) => {
          for (const assessment of news) JSON.stringify(assessmentJson(assessment));
          assessments.set(traceId, [...(assessments.get(traceId) ?? []), ...news]);
          return { written: news.map(({ assessmentId }) => assessmentId), alreadyThere: [] };
        },
      },
    };
    const price = ({ inputTokens, outputTokens }: ModelAnswer['usage']) => (inputTokens * 3 + outputTokens * 15) / 1e6;
    const judge = createJudgeOver(transport, { price });
    const traced = { ...request, chunk: { ...request.chunk, traced: true as const } };
    const evaluate = await evaluateChunk(traced, { ...evaluation, judge });
    const prepared = await prepareChunk(
      { ...request, run: `${RUN}-batch`, phase: 'prepare' },
      {
        ...evaluation,
        judge,
        askCanary: async () => emptySpend(),
        record: connectBatchJudge(environment).record,
        maxCostUsd: () => 0.01,
      },
    );
    return { log, evaluate, quarantine, assessments, ids, batchRecords: prepared.records };
  } finally {
    store.close();
    await server.stop();
  }
}

/**
 * Asserts that hostile lines did not affect the good ones.
 *
 * @param ordinals the indexes of the good lines
 * @throws Error with the violated expectation
 */
export function assertGoodOnesWhole(
  { log, evaluate, quarantine, assessments, ids }: PipelineOutcome,
  ordinals: readonly number[],
): void {
  const fail = (what: string): never => {
    throw new Error(what);
  };
  const { lines, traced, quarantined, outsideWindow } = log.counts;
  if (lines !== traced + quarantined + outsideWindow)
    fail(`lines are not accounted for: ${JSON.stringify(log.counts)}`);
  const { scorers, counts, log: { counts: { traced: owed } = log.counts } = {} } = evaluate;
  const told = Object.values(counts).reduce((total, count) => total + count, 0);
  if (told !== owed * scorers) fail(`verdicts are not accounted for: ${JSON.stringify({ ...counts, owed, scorers })}`);
  for (const { reason } of quarantine.values()) {
    if (!/^[A-Z]\w+$/.test(reason.name)) fail(`a reason without a name: ${JSON.stringify(reason)}`);
  }
  for (const ordinal of ordinals) {
    const entry = quarantine.get(ordinal + 1);
    if (entry !== undefined)
      fail(`good line ${ordinal + 1} is in quarantine: ${entry.reason.name}: ${entry.reason.message}`);
    const verdicts = assessments.get(ids[ordinal] as string) ?? [];
    const errors = verdicts
      .filter(({ error }) => error !== undefined)
      .map(({ name, error }) => `${name}: ${error?.message}`);
    if (verdicts.length === 0 || errors.length > 0)
      fail(`good line ${ordinal + 1}: ${verdicts.length} verdicts, ${errors.join('; ')}`);
  }
}
