/**
 * Chunks with the same lines at the same time: of runs over copies, over a file that grew, and of one run. Each trace is written once, one
 * verdict of each scorer is in force, and the rows of all chunks together say what MLflow has; also where functions are killed.
 */
import type { Receipt } from '../../src/core/contract/receipts.ts';
import { Random } from '../../src/core/values/random.ts';
import { isJudgeScorer, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { noRows } from '../../src/ledger/tables.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import { evaluateChunk, logChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { chunkState } from '../../src/monitoring/receipts.ts';
import { cellsOf, sumOfCells } from '../../src/quality/counts-store.ts';
import { foldRows } from '../../src/quality/fold.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';
import { MemoryTable, memoryLimits } from '../doubles/memory-table.ts';
import { MemoryTraces } from '../doubles/memory-traces.ts';
import { scriptedJudge } from '../doubles/scripted-judge.ts';
import { chunkRequest } from '../helpers/chunk-request.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import { ledgerRows } from '../helpers/ledger-rows.ts';
import { testEnvironment } from '../helpers/test-environment.ts';

const SCORERS = scorersFor().filter(isJudgeScorer).slice(0, 2);
const LINES = Array.from({ length: 14 }, (_, n) => chatLine(`n${n}`));
const GROWN = [...LINES, ...Array.from({ length: 4 }, (_, n) => chatLine(`new${n}`))];

let random: Random;
const pause = async (): Promise<void> => {
  for (let rounds = random.below(4); rounds > 0; rounds -= 1) await new Promise((resolve) => setImmediate(resolve));
};

beforeEach(() => {
  random = new Random(7);
  const real = Math.random;
  // Whoever waits, waits up to 10 ms.
  jest.spyOn(Math, 'random').mockImplementation(() => real() / 100);
});
afterEach(() => jest.restoreAllMocks());

/** The requests of a function, which may be killed at any of them: before it is made, or before its reply has come. */
class Life {
  left: number;
  readonly #underWay: Promise<unknown>[] = [];
  constructor(requests: number) {
    this.left = requests;
  }
  async #pass<T>(request: () => Promise<T>): Promise<T> {
    await pause();
    this.left -= 1;
    const reply = this.left > 0 || (this.left === 0 && random.below(2) === 0) ? request() : undefined;
    this.#underWay.push(Promise.allSettled([reply]));
    if (reply !== undefined && this.left > 0) return reply;
    // What the servers got, they do.
    await Promise.all(this.#underWay);
    throw new Error('killed');
  }
  of<T extends object>(server: T, names: readonly (keyof T)[]): T {
    const passed = names.map((name) => [
      name,
      (...given: unknown[]) => this.#pass(() => Object(server[name])(...given)),
    ]);
    return { ...server, ...Object.fromEntries(passed) };
  }
}

type Work = { run: string; lines?: string[]; chunk?: number; reevaluate?: boolean; judged?: boolean };

/** A stack whose functions are killed up to `kills` times each. */
class Stack {
  readonly table = new MemoryTable();
  readonly store = new MemoryTraces();
  readonly states: ReturnType<typeof chunkState>[] = [];
  readonly rows = noRows();
  readonly kills: number;
  #owners = 0;

  constructor(kills: number) {
    this.kills = kills;
    this.store.between = pause;
  }

  /** Attempts the chunk until it succeeds, as Step Functions does. */
  async process({ run, lines = LINES, chunk = 0, reevaluate = false, judged = true }: Work): Promise<void> {
    const memory = new MemoryStorage();
    const { storage } = memory;
    const request = chunkRequest(memory, lines, { run }, chunk);
    const options = { ...request.options, reevaluate };
    for (let attempt = 0; ; attempt += 1) {
      const life = new Life(attempt < this.kills ? 1 + random.below(150) : Number.POSITIVE_INFINITY);
      memory.putBytes = async (...given) => {
        if (life.left <= 0) throw new Error('killed');
        await MemoryStorage.prototype.putBytes.apply(memory, given);
      };
      this.#owners += 1;
      const requestId = `owner-${this.#owners}`;
      const send = (command: never): Promise<unknown> => this.table.send(command);
      const table = new LimitsTable(life.of({ send }, ['send']) as never, 't');
      const store = life.of(this.store, ['getTraces', 'writeTraces', 'writeAssessments']);
      const deps = { storage, store, table, environment: testEnvironment(), requestId, remainingMs: () => 900_000 };
      const judge = { ...scriptedJudge(), scorers: SCORERS, always: () => undefined, answers: memoryLimits() };
      const attempted = { ...request, options, attempt };
      const work = () => (judged ? evaluateChunk(attempted, { ...deps, ...judge }) : logChunk(attempted, deps));
      try {
        const receipt: Receipt = await work();
        if (life.left > 0) {
          const { captures, verdicts } = await ledgerRows(storage, 'work');
          this.rows.captures.push(...captures);
          this.rows.verdicts.push(...verdicts);
          this.states.push(chunkState([receipt]));
          return;
        }
      } catch (error) {
        if (life.left > 0) throw error;
      }
      // A minute later.
      for (const item of this.table.items.values()) if (item.owner?.S === requestId) item.until = { N: '1' };
    }
  }

  /** Processes all at once. @returns what MLflow has, and what the rows and the receipts say of these and all before */
  async race(works: readonly Work[]) {
    await Promise.all(works.map((work) => this.process(work)));
    let newVerdicts = 0;
    for (const { evaluate } of this.states) newVerdicts += evaluate.done?.counts.newVerdicts ?? 0;
    const { captures = 0, scorers = {} } = sumOfCells(cellsOf(foldRows(this.rows, { measures: [] })));
    const samples = Object.values(scorers[SCORERS[0]?.name ?? ''] ?? {});
    const counted = samples.flatMap(({ values }) => Object.values(values ?? {})).reduce((sum, count) => sum + count, 0);
    const traces = await this.store.getTraces('', [...this.store.assessments.keys()]);
    const all = [...traces.values()].flatMap((trace) =>
      trace.assessments.map((one) => ({ ...one, of: trace.traceId })),
    );
    const inForce = all.filter(({ valid }) => valid).map(({ of, name }) => `${of} ${name}`);
    return {
      posts: [this.store.posts.length, new Set(this.store.posts).size],
      captures,
      counted,
      newVerdicts,
      inForce: [inForce.length, new Set(inForce).size],
      inMlflow: all.length,
    };
  }
}

/** What is right for lines of which each was written once, and judged by so many runs that replace the verdicts of those before. */
const right = (lines: number, judged = 1) => ({
  posts: [lines, lines],
  captures: lines,
  counted: judged > 0 ? lines : 0,
  newVerdicts: 2 * lines * judged,
  inForce: judged > 0 ? [2 * lines, 2 * lines] : [0, 0],
  inMlflow: 2 * lines * judged,
});
const times = (count: number, work: (index: number) => Work): Work[] =>
  Array.from({ length: count }, (_, n) => work(n));

describe.each([
  [8, 0],
  [32, 0],
  [8, 3],
  [32, 2],
])('%i chunks at once, each killed up to %i times,', (count, kills) => {
  test('of one run over a file and its copies', async () => {
    const stack = new Stack(kills);
    expect(await stack.race(times(count, (chunk) => ({ run: 'run', chunk })))).toEqual(right(14));
    const again = times(count, (chunk) => ({ run: 're', chunk, reevaluate: true }));
    expect(await stack.race(again)).toEqual(right(14, 2));
  });

  test('of runs over copies, of which some only trace, judge later, and re-evaluate', async () => {
    const stack = new Stack(kills);
    expect(await stack.race(times(count, (n) => ({ run: `run-${n}`, judged: false })))).toEqual(right(14, 0));
    expect(await stack.race(times(count, (n) => ({ run: `judge-${n}` })))).toEqual(right(14));
    const again = times(count, (n) => ({ run: `re-${n}`, reevaluate: true }));
    expect(await stack.race(again)).toEqual(right(14, 1 + count));
  });

  test('of runs of events over a file that grew, and of runs with two copies each', async () => {
    const stack = new Stack(kills);
    const events = times(count, (n) => ({ run: `files-${n}`, lines: n % 2 === 0 ? LINES : GROWN }));
    expect(await stack.race(events)).toEqual(right(18));
    const again = times(count, (n) => ({ run: `re-${n >> 1}`, chunk: n & 1, lines: GROWN, reevaluate: true }));
    expect(await stack.race(again)).toEqual(right(18, 1 + count / 2));
  });
});
