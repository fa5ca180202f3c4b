/**
 * Chunks with the same lines at the same time: of runs over copies, over a file that grew, and of one run. Each trace is written once, one
 * verdict of each scorer is in force, and the receipts of all chunks together say what MLflow has; also where functions are killed.
 */
import type { ChunkRequest } from '../../../src/core/contract/payloads.ts';
import type { QualityCounts } from '../../../src/core/contract/quality.ts';
import type { Receipt } from '../../../src/core/contract/receipts.ts';
import { Random } from '../../../src/core/values/random.ts';
import { isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { LimitsTable } from '../../../src/limits/table.ts';
import { evaluateChunk, logChunk } from '../../../src/monitoring/evaluate/evaluate-chunk.ts';
import { qualityOfChunk } from '../../../src/monitoring/rebuild-counts.ts';
import { emptyChunkState, foldReceipt } from '../../../src/monitoring/receipts.ts';
import { addTree } from '../../../src/quality/count-tree.ts';
import { cellsOf, sumOfCells } from '../../../src/quality/counts-store.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { MemoryTable } from '../../doubles/memory-table.ts';
import { MemoryTraces } from '../../doubles/memory-traces.ts';
import { scriptedJudge } from '../../doubles/scripted-judge.ts';
import { chunkRequest } from '../../helpers/chunk-request.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';

const SCORERS = scorersFor().filter(isJudgeScorer).slice(0, 2);
const LINES = Array.from({ length: 14 }, (_, n) => chatLine(`n${n}`));
const GROWN = [...LINES, ...Array.from({ length: 4 }, (_, n) => chatLine(`new${n}`))];
const KILLED = 'killed';

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

/** A function, which may be killed at any of its requests: before it is made, or before its reply has come. */
class Life {
  #left: number;
  readonly #underWay: Promise<unknown>[] = [];
  readonly killed = Promise.withResolvers<never>();
  owner = 0;
  constructor(requests: number) {
    this.#left = requests;
    this.killed.promise.catch(() => undefined);
  }
  pass = async <T>(request: () => Promise<T>): Promise<T> => {
    await pause();
    this.#left -= 1;
    if (this.#left > 0) {
      const reply = request();
      this.#underWay.push(reply.catch(() => undefined));
      return reply;
    }
    if (this.#left === 0) {
      // What the servers got, they do.
      await Promise.all([...this.#underWay, random.below(2) === 0 && request().catch(() => undefined)]);
      this.killed.reject(new Error(KILLED));
    }
    throw new Error(KILLED);
  };
  /** Its requests pass through this life. */
  of<T extends object>(server: T): T {
    return new Proxy(server, {
      get: (target, name) => {
        const found: unknown = Reflect.get(target, name);
        if (typeof found !== 'function') return found;
        return (...given: unknown[]) => this.pass(async () => found.apply(target, given));
      },
    });
  }
}

interface Work {
  run: string;
  lines?: readonly string[];
  chunk?: number;
  reevaluate?: boolean;
  judged?: boolean;
}

/** A stack whose functions are killed up to `kills` times each. */
class Stack {
  readonly table = new MemoryTable();
  readonly store = new MemoryTraces();
  readonly states = new Map<string, ReturnType<typeof emptyChunkState>>();
  readonly kills: number;
  #owners = 0;

  constructor(kills = 0) {
    this.kills = kills;
    this.store.between = pause;
  }

  /** Attempts the chunk until it succeeds, as Step Functions does. */
  async process({ run, lines = LINES, chunk = 0, reevaluate = false, judged = true }: Work): Promise<void> {
    const storage = new MemoryStorage();
    const request = chunkRequest(storage, lines, { run }, chunk);
    const options = { ...request.options, reevaluate };
    for (let attempt = 0; ; attempt += 1) {
      const life = new Life(attempt < this.kills ? 1 + random.below(150) : Number.POSITIVE_INFINITY);
      const ended = await Promise.race([
        this.#attempt({ ...request, options, attempt }, storage, life, judged),
        life.killed.promise,
      ])
        .then(() => true)
        .catch((error: Error) => {
          if (error.message !== KILLED) throw error;
        });
      if (ended) return;
      // A minute later.
      for (const item of this.table.items.values()) {
        if (item.owner?.S === `owner-${life.owner}`) item.until = { N: '1' };
      }
    }
  }

  async #attempt(request: ChunkRequest, { storage }: MemoryStorage, life: Life, judged: boolean): Promise<void> {
    this.#owners += 1;
    life.owner = this.#owners;
    const { judge } = scriptedJudge();
    const deps = {
      storage,
      store: life.of(this.store),
      table: new LimitsTable(life.of(this.table.client), 't'),
      environment: testEnvironment(),
      requestId: `owner-${this.#owners}`,
      remainingMs: () => 900_000,
    };
    const receipt: Receipt = judged
      ? await evaluateChunk(request, { ...deps, judge, scorers: SCORERS, always: () => undefined })
      : await logChunk(request, deps);
    const key = `${request.run} ${request.chunk.chunk}`;
    const state = this.states.get(key) ?? emptyChunkState();
    foldReceipt(state, receipt);
    this.states.set(key, state);
  }

  /** Processes all at once. @returns what MLflow has, and what the receipts say of these and all before */
  async race(works: readonly Work[]) {
    await Promise.all(works.map((work) => this.process(work)));
    const total: QualityCounts = {};
    let newVerdicts = 0;
    for (const state of this.states.values()) {
      addTree(total, qualityOfChunk(state) ?? {});
      newVerdicts += state.evaluate.done?.counts.newVerdicts ?? 0;
    }
    const { captures = 0, scorers = {} } = sumOfCells(cellsOf(total));
    const counted = SCORERS.map(({ name }) => {
      const values: Record<string, number> = {};
      for (const sample of Object.values(scorers[name] ?? {})) addTree(values, sample.values ?? {});
      return Object.values(values).reduce((sum, count) => sum + count, 0);
    });
    const traces = await this.store.getTraces('', [...this.store.assessments.keys()]);
    const inForce = [...traces.values()].flatMap(({ traceId, assessments }) =>
      assessments.filter(({ valid }) => valid).map(({ name }) => `${traceId} ${name}`),
    );
    return {
      posts: [this.store.posts.length, new Set(this.store.posts).size],
      captures,
      counted,
      newVerdicts,
      inForce: [inForce.length, new Set(inForce).size],
      inMlflow: [...this.store.assessments.values()].flat().length,
    };
  }
}

/** What is right for lines of which each was written once, and judged by so many runs that replace the verdicts of those before. */
const right = (lines: number, judged = 1) => ({
  posts: [lines, lines],
  captures: lines,
  counted: SCORERS.map(() => (judged > 0 ? lines : 0)),
  newVerdicts: 2 * lines * judged,
  inForce: judged > 0 ? [2 * lines, 2 * lines] : [0, 0],
  inMlflow: 2 * lines * judged,
});
const times = (count: number, work: (index: number) => Work): Work[] =>
  Array.from({ length: count }, (_, n) => work(n));

describe.each([
  [2, 0],
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
