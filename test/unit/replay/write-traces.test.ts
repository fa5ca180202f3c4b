/** Writing the exchanges of a replay as traces, each with the verdict on its reply. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exchangeLine, exchangeTraceId } from '../../../src/captures/trace/exchange.ts';
import { assessmentIdOf } from '../../../src/captures/trace/ids.ts';
import type { TraceRecord } from '../../../src/captures/trace/types.ts';
import type { ExchangeFacts } from '../../../src/captures/types.ts';
import { PAIRWISE_SCORER } from '../../../src/judge/pairwise.ts';
import type { NewAssessment } from '../../../src/mlflow/types.ts';
import type { JudgedReply } from '../../../src/replay/compare/judge-replies.ts';
import { JUDGED_FILE } from '../../../src/replay/compare/with-captured.ts';
import { EXCHANGES_FILE } from '../../../src/replay/publish/exchanges.ts';
import { exchangeTraces, mlflowRemarks, REFUSED_FILE } from '../../../src/replay/publish/write-traces.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { captureOf, jsonSide } from '../captures/arbitraries.ts';

const experiment = { id: '7', name: 'replays', artifactLocation: '' };
const RUN = 'replay-1';
const idOf = (name: string): string => exchangeTraceId(experiment.id, RUN, name);

const exchange = (name: string, line: number): string => {
  const facts: ExchangeFacts = {
    ...{ requestId: name, run: RUN, target: 'e', startMs: 0, endMs: 1, scheduledMs: 0, status: 200 },
    ...{ file: 'captured.jsonl', line },
  };
  const messages = [{ role: 'user', content: name }];
  return exchangeLine(facts, captureOf(jsonSide('INPUT', { messages }, 'plain'), undefined));
};

const judged = (request_id: string, more: Partial<JudgedReply> = {}): JudgedReply => ({
  ...{ key: `${request_id}:1`, request_id, judge: 'bedrock:/m', verdict: 'worse', rationale: 'So it is.', usd: 0.002 },
  ...more,
});

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'write-traces-'));
});
afterEach(() => rm(directory, { recursive: true }));

/** What each call of `writeTraces` was given. */
interface Call {
  traces: readonly TraceRecord[];
  assessments: ReadonlyMap<string, readonly NewAssessment[]> | undefined;
}

async function written(names: readonly string[], verdicts?: readonly JudgedReply[], memory = new MemoryTraces()) {
  const text = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');
  await writeFile(join(directory, EXCHANGES_FILE), text(names.map((name, i) => exchange(name, i + 1))));
  if (verdicts) {
    await writeFile(join(directory, JUDGED_FILE), text(verdicts.map((verdict) => JSON.stringify(verdict))));
  }
  const calls: Call[] = [];
  const client = {
    writeTraces: (...[of, traces, assessments]: Parameters<MemoryTraces['writeTraces']>) => {
      calls.push({ traces, assessments });
      return memory.writeTraces(of, traces, assessments);
    },
  };
  const traces = exchangeTraces(client, experiment, 'mlflow-run', RUN, directory);
  const failure = await traces.write(verdicts !== undefined).catch((error: unknown) => error);
  return { result: traces.result, calls, memory, failure };
}

const refused = async (): Promise<unknown[]> =>
  (await readFile(join(directory, REFUSED_FILE), 'utf8'))
    .split('\n')
    .flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));

test('each verdict goes with its trace, in one call', async () => {
  const { result, calls, failure } = await written(['a', 'b', 'c'], [judged('c'), judged('a', { usd: null })]);
  expect(failure).toBeUndefined();
  expect(calls).toHaveLength(1);
  expect(calls[0]?.traces.map(({ traceId, sourceRun }) => [traceId, sourceRun])).toEqual(
    ['a', 'b', 'c'].map((name) => [idOf(name), 'mlflow-run']),
  );
  const traceIds = [...(calls[0]?.assessments ?? [])].map(([id, all]) => [id, ...all.map(({ traceId }) => traceId)]);
  expect(traceIds.flat()).toEqual(['a', 'a', 'c', 'c'].map(idOf));
  const { name, version } = PAIRWISE_SCORER;
  expect(calls[0]?.assessments?.get(idOf('c'))).toEqual([
    expect.objectContaining({
      assessmentId: assessmentIdOf(idOf('c'), name, version, 'bedrock:/m'),
      ...{ name, sourceType: 'LLM_JUDGE', sourceId: 'bedrock:/m', value: 'worse', rationale: 'So it is.' },
      metadata: {
        'mlflow.assessment.scorerName': name,
        'mlflow.assessment.scorerVersion': version,
        'mlflow.assessment.judgeCost': '0.002',
      },
    }),
  ]);
  // An unknown price is left out rather than written as 0.
  const [unpriced] = calls[0]?.assessments?.get(idOf('a')) ?? [];
  expect(Object.keys(unpriced?.metadata ?? {})).not.toContain('mlflow.assessment.judgeCost');
  expect(result).toEqual({ traces: 3, refused: 0, assessments: { written: 2, missing: 0 } });
  expect(mlflowRemarks(result)).toEqual([]);
});

test.each<[string, Partial<JudgedReply>, { code: string; message: string }]>([
  [
    'the judge’s error',
    { error: { code: 'JudgeReplyUnreadable', message: 'no JSON' } },
    { code: 'JudgeReplyUnreadable', message: 'no JSON' },
  ],
  ['an error that says so', {}, { code: 'NO_VERDICT', message: expect.any(String) }],
])('a pair without a verdict has %s', async (_, more, error) => {
  const { rationale: _words, ...failed } = judged('a', { verdict: 'failed', ...more });
  const { calls } = await written(['a'], [failed]);
  const [assessment] = calls[0]?.assessments?.get(idOf('a')) ?? [];
  expect(assessment).toMatchObject({ error });
  expect(Object.keys(assessment ?? {})).not.toEqual(expect.arrayContaining(['value']));
});

test('a replay without a judge has no assessments', async () => {
  const { result, calls } = await written(['a']);
  expect(calls[0]?.assessments).toEqual(new Map());
  expect(result).toEqual({ traces: 1, refused: 0 });
});

test('lists what MLflow refuses with the request, and counts its verdict as missing', async () => {
  const memory = new MemoryTraces();
  memory.refuses.add(idOf('b'));
  // This trace is written, but MLflow does not take its verdict.
  memory.refusesAssessmentsOf.add(idOf('c'));
  const verdicts = [judged('a'), judged('b'), judged('c'), judged('without an exchange')];
  const { result } = await written(['a', 'b', 'c', 'd'], verdicts, memory);
  expect(result).toEqual({ traces: 3, refused: 1, assessments: { written: 1, missing: 3 } });
  expect(await refused()).toEqual([
    {
      ...{ trace_id: idOf('b'), event_id: 'event', request_id: 'b', file: 'captured.jsonl', line: 2 },
      reason: { name: 'MlflowRefused', message: 'no' },
    },
  ]);
  expect(mlflowRemarks(result)).toEqual([
    'Traces that MLflow refused: 1, listed in refused-traces.jsonl',
    'Verdicts that MLflow does not have: 3, listed in judged.jsonl',
  ]);
});

test('sends many exchanges in batches, and reports what was written before MLflow failed', async () => {
  const names = Array.from({ length: 450 }, (_, i) => `r${i}`);
  const { result, calls } = await written(names);
  expect(calls.map(({ traces }) => traces.length)).toEqual([200, 200, 50]);
  expect(result.traces).toBe(450);

  const memory = new MemoryTraces();
  const { writeTraces } = memory;
  let left = 1;
  memory.writeTraces = async (...args) => {
    if (left-- > 0) return writeTraces(...args);
    throw new Error('MLflow is away');
  };
  const cut = await written(names, [judged('r0'), judged('r449')], memory);
  expect(cut.failure).toMatchObject({ message: 'MLflow is away' });
  expect(cut.result).toEqual({ traces: 200, refused: 0, assessments: { written: 1, missing: 1 } });
});
