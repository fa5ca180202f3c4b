/** Captures that are too heavy for the function: another process does with them what this one would have done. */
import type { TraceRecord } from '../../../src/captures/trace/types.ts';
import { scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { encodeSpans } from '../../../src/mlflow/encode-spans.ts';
import { evaluateChunk, logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { memoryWriting } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { scriptedJudge } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { captureLine, chatReply, chatRequest, csv, json } from '../../helpers/deployed-captures.ts';
import { storedPredictions } from '../../helpers/prediction-rows.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const environment = testEnvironment();
const TIME = '2026-11-20T10:00:00Z';
const words = 'The fern has no flowers. '.repeat(4_000);
const LINES = {
  'a chat': captureLine('chat', TIME, json(chatRequest(words)), json(chatReply('Ferns need shade.'))),
  'a long conversation': captureLine(
    'long',
    TIME,
    json({
      messages: Array.from({ length: 4_000 }, (_, n) => ({ role: n % 2 ? 'assistant' : 'user', content: `${n}` })),
    }),
    json(chatReply(words)),
  ),
  'a table': captureLine('table', TIME, csv('1\n'.repeat(9_000)), csv('2\n'.repeat(9_000))),
  'an error reply': captureLine(
    'error',
    TIME,
    json({ question: words }),
    json({ error: { code: 500, message: words } }),
  ),
  'no record': 'x'.repeat(100_000),
};

const { AWS_LAMBDA_FUNCTION_MEMORY_SIZE: before } = process.env;
afterEach(() => {
  delete process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE;
  if (before !== undefined) process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE = before;
});

class Rig {
  readonly storage = new MemoryStorage();
  readonly store = new MemoryTraces();
  readonly traces: TraceRecord[] = [];
  readonly model = scriptedJudge();
  readonly #lines: readonly string[];

  constructor(lines: readonly string[]) {
    this.#lines = lines;
    const { writeTraces, getExperiment } = this.store;
    // When the other process is about to start, there is room for it.
    this.store.getExperiment = async (id) => {
      process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE = '3008';
      return getExperiment(id);
    };
    this.store.writeTraces = async (experiment, traces, assessmentsOf) => {
      this.traces.push(...traces);
      return writeTraces(experiment, traces, assessmentsOf);
    };
  }

  async run(step: 'log' | 'evaluate') {
    const request = chunkRequest(this.storage, this.#lines);
    const deps = { storage: this.storage.storage, store: this.store, environment, requestId: 'r', ...memoryWriting() };
    if (step === 'log') return logChunk(request, deps);
    const { judge } = this.model;
    const judged = { judge, scorers: scorersFor(), always: () => undefined };
    return evaluateChunk(request, { ...deps, ...judged });
  }

  /** What the step has done, without times. */
  async outcome(step: 'log' | 'evaluate') {
    const { counts, log, quality } = { log: undefined, ...(await this.run(step)) };
    const traces = this.traces.map(({ spans, encoded, ...trace }) => ({
      ...trace,
      spans: Buffer.from(encoded ?? encodeSpans({ ...trace, spans }, 'otlp')).toString('hex'),
    }));
    const verdicts = [...this.store.assessments].map(([traceId, all]) => ({
      traceId,
      all: all.map(({ name, value, error, rationale }) => [name, value, error, rationale]),
    }));
    const rows = await storedPredictions(this.storage.storage);
    const records = this.model.asks.map(({ prompt }) => prompt.user.record.replaceAll(prompt.fence, 'fence'));
    return { counts, logged: log?.counts, quality, traces, verdicts, rows, records };
  }
}

test('MLflow’s time counts against no line', async () => {
  process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE = '171';
  const rig = new Rig([LINES['a chat'], LINES['a table']]);
  const { getExperiment } = rig.store;
  const now = performance.now.bind(performance);
  rig.store.getExperiment = async (id) => {
    jest.spyOn(performance, 'now').mockImplementation(() => now() + 61_000);
    return getExperiment(id);
  };
  await rig.run('evaluate');
  jest.restoreAllMocks();
  const notes = rig.traces.map(({ encoded }) => encoded?.includes('it needs more memory than a function'));
  expect(notes).toEqual([false, false]);
});

test.each(['log', 'evaluate'] as const)(
  'in step %s, all lines are worked on as without the other process',
  async (step) => {
    const lines = Object.values(LINES).flatMap((line) => [line, line]);
    // The least memory in which anything is decoded at all.
    process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE = '171';
    const heavy = new Rig(lines);
    const outcome = await heavy.outcome(step);
    expect(heavy.traces).toHaveLength(4);
    expect(heavy.traces.every(({ encoded }) => encoded !== undefined)).toBe(true);
    process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE = '3008';
    expect(await new Rig(lines).outcome(step)).toEqual(outcome);
  },
);
