/** Chunks that are split into parts because a function was killed on them: the results of the parts add up. */
import { hash } from 'node:crypto';
import type { CaptureRange, ChunkProgress, ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { QuarantineEntry } from '../../../src/core/contract/receipts.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { isCodeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { NewAssessment, StoredTrace } from '../../../src/mlflow/types.ts';
import { type PreparedChunk, prepareChunk } from '../../../src/monitoring/batch/prepare.ts';
import { lineId } from '../../../src/monitoring/chunk/ranges.ts';
import { evaluateChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import type { EvaluateDependencies } from '../../../src/monitoring/evaluate/types.ts';
import { logChunk } from '../../../src/monitoring/log/log-chunk.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { memoryWriting } from '../../doubles/memory-table.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { verdict } from '../../helpers/mlflow-traces.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';
import { captureOf, jsonSide } from '../captures/arbitraries.ts';

const environment = testEnvironment();

const chat = (content: string): string => {
  const request = jsonSide('INPUT', { messages: [{ role: 'user', content }] }, 'plain');
  const reply = {
    choices: [{ index: 0, message: { role: 'assistant', content: `${content}?` }, finish_reason: 'stop' }],
  };
  return JSON.stringify(captureOf(request, jsonSide('OUTPUT', reply, 'plain')));
};
const traceIdOf = (line: string): string => `tr-${hash('sha256', `7\n${line}`).slice(0, 32)}`;

function chunkOf(lines: readonly string[]) {
  const storage = new MemoryStorage();
  const request = (progress: ChunkProgress): ChunkRequest => chunkRequest(storage, lines, { progress });
  const quarantine = (): Promise<Partial<QuarantineEntry>[]> => storage.getJsonLines('', workKeys.quarantine('run', 0));
  return { storage, request, quarantine };
}

describe('the log step', () => {
  const mlflow = useScriptedMlflow();
  const lines = [chat('a'), 'no json', chat('deadly'), 'none either'];
  const deps = (storage: MemoryStorage) => ({
    storage: storage.storage,
    store: mlflow.store,
    environment,
    requestId: 'r',
    ...memoryWriting(),
  });

  test('keeps the quarantined lines of earlier parts, and replaces those of the same part', async () => {
    const { storage, request, quarantine } = chunkOf(lines);
    // The first attempt is killed after it has written its quarantine, before its traces.
    await logChunk(request({ bounds: [], kills: 0 }), deps(storage));
    mlflow.server.taken.clear();
    const first = await logChunk(request({ bounds: [], kills: 1 }), deps(storage));
    expect(first).toMatchObject({
      part: { from: 0, to: 2, kills: 1 },
      counts: { lines: 2, traced: 1, quarantined: 1 },
    });
    const killer = await logChunk(request({ bounds: [2, 4], kills: 2 }), deps(storage));
    expect(killer).toMatchObject({ counts: { lines: 1, quarantined: 1 }, quarantineReasons: { FunctionKilled: 1 } });
    await logChunk(request({ bounds: [3, 4], kills: 0 }), deps(storage));
    expect(await quarantine()).toMatchObject([
      { line: 2, reason: { name: 'NotJson' } },
      { line: 3, reason: { name: 'FunctionKilled' }, base64: Buffer.from(lines[2] ?? '').toString('base64') },
      { line: 4, reason: { name: 'NotJson' } },
    ]);
  });

  test('counts a line as traced if it killed the function after its trace was written', async () => {
    const { storage, request, quarantine } = chunkOf(lines);
    mlflow.server.taken.set(traceIdOf(lines[2] ?? ''), 1);
    const { counts } = await logChunk(request({ bounds: [2, 4], kills: 2 }), deps(storage));
    expect(counts).toMatchObject({ lines: 1, traced: 1, alreadyThere: 1, quarantined: 0 });
    expect(await quarantine()).toEqual([]);
  });

  test('quarantines the lines that a direct invocation leaves out', async () => {
    const { storage, request, quarantine } = chunkOf(lines);
    const byHand = { ...request({ bounds: [], kills: 0 }), leaveOut: [3] };
    expect((await logChunk(byHand, deps(storage))).counts).toMatchObject({ traced: 1, quarantined: 3 });
    expect((await quarantine())[1]).toMatchObject({ line: 3, reason: { name: 'LeftOut' } });
  });
});

describe('the evaluation', () => {
  const lines = [chat('a'), chat('deadly'), chat('b'), chat('c')];
  const scorers = scorersFor({ guidelines: {} }).filter(isCodeScorer);

  function evaluation() {
    const chunk = chunkOf(lines);
    const written: NewAssessment[] = [];
    const traces = new Map(
      lines.map((line): [string, StoredTrace] => {
        const traceId = traceIdOf(line);
        return [traceId, { traceId, state: 'OK', assessments: [] }];
      }),
    );
    const store = {
      getTraces: async (_: string, ids: string[]) => new Map([...traces].filter(([id]) => ids.includes(id))),
      writeAssessments: async (_: StoredTrace, assessments: NewAssessment[]) => {
        written.push(...assessments);
        return { written: assessments.map(({ assessmentId }) => assessmentId), alreadyThere: [] };
      },
    };
    const common = { storage: chunk.storage.storage, store, scorers, environment, judge: { sourceId: 'judge' } };
    const deps = { ...common, always: () => undefined, requestId: 'r', ...memoryWriting() };
    const of = (progress: ChunkProgress, reevaluate = false) => {
      const request = chunk.request(progress);
      const options = { ...request.options, reevaluate };
      return evaluateChunk({ ...request, options }, deps as unknown as EvaluateDependencies);
    };
    return { ...chunk, traces, written, of };
  }

  test('records an error per scorer for a line that killed the function alone, and judges the others', async () => {
    const { of, written } = evaluation();
    const receipts = [
      await of({ bounds: [], kills: 2 }),
      await of({ bounds: [1, 2, 4], kills: 1 }),
      await of({ bounds: [2, 4], kills: 0 }),
    ];
    expect(receipts.map(({ traced, part }) => ({ traced, part }))).toEqual([
      { traced: 1, part: { from: 0, to: 1, kills: 2 } },
      { traced: 1, part: { from: 1, to: 2, kills: 1 } },
      { traced: 2, part: { from: 2, to: 4, kills: 0 } },
    ]);
    for (const { counts, traced } of receipts) {
      const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
      expect(total).toBe(traced * scorers.length);
    }
    expect(receipts[1]).toMatchObject({ counts: { failed: scorers.length }, failedRecorded: scorers.length });
    const killed = written.filter(({ error }) => error !== undefined);
    expect(killed).toHaveLength(scorers.length);
    expect(new Set(killed.map(({ traceId, error }) => `${traceId} ${error?.code}`))).toEqual(
      new Set([`${traceIdOf(lines[1] ?? '')} FunctionKilled`]),
    );
  });

  test('keeps the verdicts of a line that killed the function, even if the others are judged again', async () => {
    const { of, traces, written } = evaluation();
    // Every line has the verdicts of another run.
    for (const { traceId, assessments } of traces.values()) {
      for (const { name } of scorers) assessments.push({ ...verdict(traceId, name), valid: true });
    }
    const killed = await of({ bounds: [1, 2, 4], kills: 1 }, true);
    expect(killed).toMatchObject({ traced: 1, counts: { alreadyThere: scorers.length, failed: 0 } });
    expect(written).toEqual([]);
    const others = await of({ bounds: [2, 4], kills: 0 }, true);
    expect(others.counts).toMatchObject({ alreadyThere: 0, failed: 0 });
    expect(written.length).toBeGreaterThan(0);
  });
});

test('the parts of a chunk share one file of batch requests, ask once about a line in two parts, and have a deposit each', async () => {
  const lines = [chat('a'), chat('b'), chat('deadly'), chat('a')];
  const { storage, request } = chunkOf(lines);
  const dropped: string[] = [];
  const limit = {
    setAside: async () => true,
    dropDeposit: async (name: string) => void dropped.push(name),
    closeWithDeposit: async (name: string) => ({ name, scopes: ['day'] }),
  };
  const store = {
    getTraces: async () =>
      new Map(lines.map((line) => [traceIdOf(line), { traceId: traceIdOf(line), assessments: [] }])),
  };
  const batch = { ...connectBatchJudge(environment), requestId: 'r' };
  const common = { storage: storage.storage, store, scorers: scorersFor(), environment, always: () => undefined };
  const prepare = (progress: ChunkProgress): Promise<PreparedChunk> =>
    prepareChunk(request(progress), { ...common, limit, ...batch } as unknown as Parameters<typeof prepareChunk>[1]);

  await prepare({ bounds: [], kills: 1 });
  await prepare({ bounds: [2, 4], kills: 2 });
  await prepare({ bounds: [3, 4], kills: 0 });
  // The function was killed before its reply: the repeated call replaces what the first one left.
  const prepared = await prepare({ bounds: [3, 4], kills: 0 });
  const names = ['batch/run/0', 'batch/run/0/3'];
  const [whole] = request({ bounds: [], kills: 0 }).chunk.ranges;
  const start = Buffer.byteLength(`${lines[0]}\n${lines[1]}\n`);
  expect(prepared).toMatchObject({ records: 2, held: [], killed: [lineId({ ...(whole as CaptureRange), start })] });
  expect(prepared.deposits.map(({ name }) => name)).toEqual([names[0], 'batch/run/0/2', names[1]]);
  expect(dropped).toEqual([names[0], 'batch/run/0/2', names[1], names[1]]);
  const { text = '' } = (await storage.getText('', workKeys.batchRequests('run', 0))) ?? {};
  const ids = text
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { recordId: string }).recordId);
  expect(new Set(ids)).toEqual(new Set(prepared.ids));
  expect(new Set(lines.map((line) => prepared.asked[traceIdOf(line)]))).toEqual(new Set([...ids, undefined]));
});
