/** Lines that kill the function. The test does the work of the state machine: after a kill it starts the next attempt. */

import type { DynamoDBClient, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import { MOST_KILLERS, MOST_KILLS } from '../../../src/core/contract/execution.ts';
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { EvaluateReceipt, LogReceipt, QuarantineEntry } from '../../../src/core/contract/receipts.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { connectBatchJudge } from '../../../src/judge/connect.ts';
import { askedOf, isCodeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { LimitsTable } from '../../../src/limits/table.ts';
import { prepareChunk } from '../../../src/monitoring/batch/prepare.ts';
import { AnswerTable } from '../../../src/monitoring/evaluate/answer-table.ts';
import { evaluateChunk, logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable, memoryLimits } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { scriptedJudge } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const environment = testEnvironment();
const idOf = (line: string): string => traceIdOf('7', Buffer.from(line));
const linesOf = (count: number): string[] => Array.from({ length: count }, (_, n) => chatLine(`line ${n}`));

/** A chunk in memory, with a function that may be killed by any of its requests: from then on it does nothing more. */
class Rig {
  readonly memory = new MemoryStorage();
  readonly store = new MemoryTraces();
  readonly lines: readonly string[];
  readonly #step: (request: ChunkRequest, rig: Rig) => Promise<unknown>;
  /** Returns whether the function is killed when it writes this trace, or verdicts on it. */
  kills: (traceId: string, attempt: number) => boolean = () => false;
  /** The end of the time of each attempt, from now. */
  leftMs: (attempt: number) => number = () => 900_000;
  attempts = 0;
  readonly #table = new MemoryTable();
  #kill = (): void => {};

  constructor(lines: readonly string[], step: (request: ChunkRequest, rig: Rig) => Promise<unknown>) {
    this.lines = lines;
    this.#step = step;
    const { writeTraces, writeAssessments } = this.store;
    this.store.writeTraces = async (experiment, traces, assessmentsOf) => {
      for (const { traceId } of traces) await this.survive(traceId);
      return writeTraces(experiment, traces, assessmentsOf);
    };
    this.store.writeAssessments = async (trace, assessments) => {
      await this.survive(trace.traceId);
      return writeAssessments(trace, assessments);
    };
  }

  get deps() {
    const attempt = this.attempts;
    const remainingMs = () => this.leftMs(attempt);
    // One id for all attempts, so that the next one need not wait until the locks of a killed one end.
    const given = { storage: this.memory.storage, store: this.store, environment, requestId: 'r' };
    // What is left of a killed attempt gets no further.
    const send = (command: UpdateItemCommand) =>
      attempt === this.attempts ? this.#table.send(command) : new Promise(() => undefined);
    const table = new LimitsTable({ send } as unknown as DynamoDBClient, 'table');
    return { ...given, table, answers: memoryLimits(), remainingMs };
  }

  /** Lets the function go on, unless it is killed here. */
  async survive(traceId: string): Promise<void> {
    if (!this.kills(traceId, this.attempts)) return;
    this.#kill();
    await new Promise(() => {});
  }

  /** Runs attempts until one is not killed. @returns what the last one returned */
  async run<T>(more: Partial<ChunkRequest> = {}): Promise<T> {
    for (let kills = 0; kills <= MOST_KILLS; kills += 1) {
      this.attempts += 1;
      const killed = new Promise<'killed'>((resolve) => {
        this.#kill = () => resolve('killed');
      });
      const request = chunkRequest(this.memory, this.lines, { progress: { kills }, ...more });
      const work = this.#step(request, this);
      work.catch(() => undefined);
      const result = await Promise.race([work, killed]);
      if (result !== 'killed') return result as T;
    }
    throw new Error('The state machine gives up');
  }

  quarantine = async () =>
    (await this.memory.getJsonLines<QuarantineEntry>('', workKeys.quarantine('run', 0))).map(
      ({ line, reason }) => `${line} ${reason.name}`,
    );
}

const log = (request: ChunkRequest, { deps }: Rig) => logChunk(request, deps);
const scorers = scorersFor({ guidelines: {} });
const evaluate = (request: ChunkRequest, { deps }: Rig) =>
  evaluateChunk(request, {
    ...deps,
    judge: scriptedJudge().judge,
    scorers: scorers.filter(isCodeScorer),
    always: () => undefined,
  });

describe.each([
  ['LogTraces', log],
  ['EvaluateTraces', evaluate],
])('%s', (_, step) => {
  test('quarantines a line that kills it, with one attempt after the first kill and one for the rest', async () => {
    const rig = new Rig([...linesOf(5), 'no JSON', ...linesOf(9).slice(5)], step);
    const deadly = idOf(rig.lines[3] ?? '');
    rig.kills = (traceId) => traceId === deadly;
    const receipt = await rig.run<LogReceipt | EvaluateReceipt>();
    expect(rig.attempts).toBe(3);
    expect((receipt.step === 'log' ? receipt : receipt.log)?.counts).toMatchObject({
      lines: 10,
      traced: 8,
      quarantined: 2,
    });
    expect(await rig.quarantine()).toEqual(['4 FunctionKilled', '6 NotJson']);
    expect(new Set(rig.store.posts)).toEqual(new Set(rig.lines.filter((_, n) => n !== 3 && n !== 5).map(idOf)));
    expect(rig.store.posts).toHaveLength(8);
  });

  test('quarantines as many as one attempt each can find, and fails by name with one more', async () => {
    const lines = linesOf(30);
    const deadly = (most: number) =>
      new Set(
        lines
          .filter((_, n) => n % 2 === 1)
          .slice(0, most)
          .map(idOf),
      );
    const few = new Rig(lines, step);
    few.kills = (traceId) => deadly(MOST_KILLERS).has(traceId);
    await few.run();
    expect([few.attempts, (await few.quarantine()).length]).toEqual([MOST_KILLERS + 2, MOST_KILLERS]);
    const many = new Rig(lines, step);
    many.kills = (traceId) => deadly(MOST_KILLERS + 1).has(traceId);
    await expect(many.run()).rejects.toMatchObject({ name: 'FunctionKilledTooOften' });
  });

  test('blames no line when the host fails once', async () => {
    const rig = new Rig(linesOf(4), step);
    rig.kills = (_, attempt) => attempt === 1;
    await rig.run();
    expect([rig.attempts, rig.store.posts.length, await rig.quarantine()]).toEqual([2, 4, []]);
  });

  test('blames no line for the end of its time: it ends itself, and the next attempt continues there', async () => {
    const rig = new Rig(linesOf(4), step);
    rig.kills = (_, attempt) => attempt === 1;
    rig.leftMs = (attempt) => (attempt === 2 && rig.store.posts.length >= 2 ? 30_000 : 900_000);
    await expect(rig.run()).rejects.toMatchObject({ name: 'ChunkOutOfTime' });
    expect(rig.store.posts).toHaveLength(2);
    await rig.run({ progress: { kills: 1 }, attempt: 1 });
    expect([rig.store.posts.length, await rig.quarantine()]).toEqual([4, []]);
  });

  test('blames no line if it was ended at the end of its time', async () => {
    const rig = new Rig(linesOf(4), step);
    const second = idOf(rig.lines[1] ?? '');
    rig.leftMs = (attempt) => (attempt === 2 ? 60_000 : 900_000);
    rig.kills = (traceId, attempt) => attempt === 1 || (attempt === 2 && traceId === second);
    const now = Date.now;
    jest.spyOn(Date, 'now').mockImplementation(() => now() + (rig.attempts > 2 ? 70_000 : 0));
    await rig.run();
    expect([rig.attempts, rig.store.posts.length, await rig.quarantine()]).toEqual([3, 4, []]);
    jest.restoreAllMocks();
  });
});

test('a line that was traced and kills the evaluation gets an error per scorer, and the others are judged', async () => {
  const rig = new Rig(linesOf(6), evaluate);
  const deadly = idOf(rig.lines[3] ?? '');
  for (const line of rig.lines) rig.store.assessments.set(idOf(line), []);
  let isLeftAlone = false;
  const { writeAssessments } = rig.store;
  rig.store.writeAssessments = async (trace, assessments) => {
    isLeftAlone = assessments.some(({ error }) => error?.code === 'FunctionKilled');
    return writeAssessments(trace, assessments);
  };
  rig.kills = (traceId) => traceId === deadly && !isLeftAlone;
  const receipt = await rig.run<EvaluateReceipt>();
  const count = askedOf(scorers.filter(isCodeScorer)).length;
  expect(rig.attempts).toBe(4);
  expect(receipt).toMatchObject({ log: { counts: { traced: 6 } }, counts: { failed: count }, failedRecorded: count });
  const errors = (rig.store.assessments.get(deadly) ?? []).map(({ error }) => error?.code);
  expect(errors).toEqual(Array.from({ length: count }, () => 'FunctionKilled'));
});

const { acquireForJob } = AnswerTable.prototype;

test('a line that kills the preparation of a batch is left out there, and in quarantine after it', async () => {
  const lines = linesOf(4);
  const deadly = idOf(lines[1] ?? '');
  const prepare = (request: ChunkRequest, rig: Rig) => {
    jest.spyOn(AnswerTable.prototype, 'acquireForJob').mockImplementation(async function (this: AnswerTable, ...of) {
      await rig.survive(of[1]);
      return acquireForJob.apply(this, of);
    });
    const deps = { ...rig.deps, scorers, always: () => undefined, ...connectBatchJudge(environment) };
    return prepareChunk(request, deps as unknown as Parameters<typeof prepareChunk>[1]);
  };
  const rig = new Rig(lines, (request, one) => (request.phase === 'prepare' ? prepare : evaluate)(request, one));
  rig.kills = (traceId) => traceId === deadly;
  expect(await rig.run({ phase: 'prepare' })).toMatchObject({ records: 3 });
  expect(rig.attempts).toBe(4);
  await rig.run({ phase: 'apply', progress: { kills: 0 } });
  expect([rig.attempts, await rig.quarantine()]).toEqual([5, ['2 FunctionKilled']]);
});
