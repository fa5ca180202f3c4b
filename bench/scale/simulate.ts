/**
 * Simulates the pipeline: files arrive, are collected for a window, are planned as one run, and are judged and written in
 * chunks, while the account's quotas are shared by all of it. The times of the product's own work and the numbers of its
 * calls are measured (measured.json); its bounds and retries are read from its code (product.ts).
 */
import { Random } from '../../src/core/values/random.ts';
import { LIST_PRICES } from '../support/list-prices.ts';
import { Clock, Places, Rate, Times } from './engine.ts';
import { predict, type Shape } from './explain.ts';
import {
  CALLS,
  type Measured,
  PLANNING_REQUESTS,
  PROCESSOR_MB,
  type Role,
  S3_SECONDS,
  STEP_SECONDS,
} from './measured.ts';
import {
  CALLS_AT_ONCE,
  CHUNK_LINES,
  isEnoughForPart,
  JUDGED_CAPTURE,
  OBJECTS_AT_ONCE,
  RANGES_AT_ONCE,
  type Refusals,
  TABLE_REFUSED_SECONDS,
  THROTTLED_RETRY,
  tableWait,
  WINDOW_MS,
  waitAfterRefusal,
} from './product.ts';

/** What an account bears. */
export interface Quotas {
  lambda: number;
  mlflowPerSecond: number;
  judgeCallsPerMinute: number;
  judgeTokensPerMinute: number;
  /** How much an output token counts against it. */
  outputBurndown: number;
  startsPerSecond: number;
  transitionsPerSecond: number;
  openMapRuns: number;
  /** Write units of the DynamoDB table, and of the partition with the items that all functions write. */
  tableWritesPerSecond: number;
  partitionWritesPerSecond: number;
  /** Of the work bucket, as if its keys had one prefix. */
  s3WritesPerSecond: number;
}

export interface Load {
  /** Captures a second, on average. */
  perSecond: number;
  capturesPerFile: number;
  /** Seconds during which files arrive; 0 for a backfill. */
  seconds: number;
  /** Three times the average for ten minutes, every two hours. */
  bursts: boolean;
  /** How long the simulation continues after the last file. Default: until the backfill has ended. */
  drainSeconds?: number;
  /** Files that are there at the beginning and are processed by one execution. */
  backfillFiles: number;
}

export interface Choices {
  windowSeconds: number;
  maxConcurrency: number;
  memoryMb: number;
  timeoutSeconds: number;
  /** Share of the captures that is judged. */
  sampleRate: number;
  /** Chunks in progress over all runs, and calls of the judge; 0 for no such gate. */
  maxFunctions: number;
  judgeConcurrency: number;
  judgeSeconds: number;
  /** Messages that the starter gets at once, and pollers that each collect their own. */
  filesPerStart: number;
  pollers: number;
}

export interface Scenario {
  quotas: Quotas;
  load: Load;
  choices: Choices;
}

/** How far each quota was used: its share while there was work, and the longest wait for it. */
export interface QuotaUse {
  name: string;
  share: number;
  waitSeconds: number;
}

export interface Outcome {
  /** Captures that were planned, and those of them that have their traces and verdicts. */
  captures: number;
  done: number;
  runs: number;
  chunks: number;
  /** Chunks that used up their retries. */
  failed: number;
  calls: Record<(typeof CALLS)[number], number>;
  invocations: number;
  gbSeconds: number;
  /** Seconds from the file to its traces and verdicts. */
  times: Times;
  /** Most captures that had arrived and were not done. */
  backlog: number;
  /** Longest time from the end of a burst until the backlog was as before it. `NaN`: it never was. */
  recoverySeconds: number;
  /** When the last capture was done. */
  endSeconds: number;
  quotas: QuotaUse[];
  dollars: number;
  judgeDollars: number;
}

export const BURST = { every: 7200, seconds: 600, factor: 3 };
/** Map children that Step Functions starts in a second: Standard executions. */
const CHILDREN_PER_SECOND = 100;
/** Captures of a chunk that are written together while others are being judged. */
const FINISH_RESERVE_SECONDS = 60;
/** What planning keeps of its time to finish. */
const PLAN_RESERVE_SECONDS = 30;
/** A backfill is given so long. */
const MOST_SECONDS = 7 * 86_400;
const SAMPLE_SECONDS = 60;

/** Captures that arrived together. */
interface Group {
  at: number;
  files: number;
  captures: number;
}

interface Chunk {
  /** Whether it is one of several of its run, which claim each question. */
  claims: boolean;
  groups: Group[];
  files: number;
  captures: number;
}

export function simulate(scenario: Scenario, measured: Measured): Outcome {
  const simulation = new Simulation(scenario, measured);
  simulation.run();
  return simulation.outcome();
}

class Simulation {
  readonly #clock = new Clock();
  readonly #random = new Random(1);
  readonly #scenario: Scenario;
  readonly #measured: Measured;
  readonly #lambda: Places;
  readonly #permits: Places;
  readonly #mapRuns: Places;
  readonly #mlflow: Rate;
  readonly #judgeCalls: Rate;
  readonly #judgeTokens: Rate;
  readonly #starts: Rate;
  readonly #transitions: Rate;
  readonly #table: Rate;
  readonly #partition: Rate;
  readonly #s3: Rate;
  readonly #times = new Times();
  readonly #bursts: { before: number; end: number; recovered: number }[] = [];
  #waiting: Group[] = [];
  #counts = { runs: 0, files: 0, chunks: 0, captures: 0, claimed: 0 };
  #retries = 0;
  /** Invocations that found no permit; and those of a window and the one before it. */
  #returns = 0;
  #refusals = { window: 0, before: 0, now: 0 };
  #failed = 0;
  #invocations = 0;
  #gbSeconds = 0;
  #chunkSeconds = 0;
  #arrived = 0;
  #done = 0;
  #backlog = 0;
  #end = 0;

  constructor(scenario: Scenario, measured: Measured) {
    this.#scenario = scenario;
    this.#measured = measured;
    const { quotas, choices } = scenario;
    const clock = this.#clock;
    this.#lambda = new Places(clock, quotas.lambda);
    this.#permits = new Places(clock, choices.maxFunctions || Number.POSITIVE_INFINITY);
    this.#mapRuns = new Places(clock, quotas.openMapRuns);
    this.#mlflow = new Rate(clock, quotas.mlflowPerSecond);
    this.#judgeCalls = new Rate(clock, quotas.judgeCallsPerMinute / 60, quotas.judgeCallsPerMinute / 60);
    this.#judgeTokens = new Rate(clock, quotas.judgeTokensPerMinute / 60, quotas.judgeTokensPerMinute / 60);
    this.#starts = new Rate(clock, quotas.startsPerSecond);
    this.#transitions = new Rate(clock, quotas.transitionsPerSecond);
    this.#table = new Rate(clock, quotas.tableWritesPerSecond);
    this.#partition = new Rate(clock, quotas.partitionWritesPerSecond);
    this.#s3 = new Rate(clock, quotas.s3WritesPerSecond);
  }

  run(): void {
    const { load, choices } = this.#scenario;
    if (load.backfillFiles > 0) {
      const captures = load.backfillFiles * load.capturesPerFile;
      this.#arrived = captures;
      this.#plan([{ at: 0, files: load.backfillFiles, captures }]);
    } else {
      this.#arrive(0, 0);
      if (choices.windowSeconds > 0) this.#clock.at(choices.windowSeconds, () => this.#closeWindow());
      this.#sample();
    }
    this.#clock.run(load.drainSeconds === undefined ? MOST_SECONDS : load.seconds + load.drainSeconds);
  }

  /** Captures a second at a time of the day. */
  #rateAt(second: number): number {
    const { perSecond, bursts } = this.#scenario.load;
    if (!bursts) return perSecond;
    const share = BURST.seconds / BURST.every;
    const base = (1 - share * BURST.factor) / (1 - share);
    return perSecond * (this.#inBurst(second) ? BURST.factor : base);
  }

  #inBurst(second: number): boolean {
    return second % BURST.every >= BURST.every - BURST.seconds;
  }

  /** @param rest captures that were not enough for a file yet */
  #arrive(second: number, rest: number): void {
    const { load, choices } = this.#scenario;
    if (second >= load.seconds) return;
    const have = rest + this.#rateAt(second);
    const files = Math.floor(have / load.capturesPerFile + 1e-9);
    if (files > 0) {
      const group = { at: second, files, captures: files * load.capturesPerFile };
      this.#arrived += group.captures;
      if (choices.windowSeconds > 0) this.#waiting.push(group);
      else for (let n = 0; n < files; n += 1) this.#start([{ at: second, files: 1, captures: load.capturesPerFile }]);
    }
    this.#clock.at(second + 1, () => this.#arrive(second + 1, have - files * load.capturesPerFile));
  }

  /** Every poller hands over what it collected, at most this number of files at once. */
  #closeWindow(): void {
    const { load, choices } = this.#scenario;
    const groups = this.#waiting;
    this.#waiting = [];
    const files = groups.reduce((sum, group) => sum + group.files, 0);
    const starts = Math.min(files, Math.max(choices.pollers, Math.ceil(files / choices.filesPerStart)));
    for (const part of divide(groups, starts)) this.#start(part);
    const next = this.#clock.now + choices.windowSeconds;
    if (this.#clock.now < load.seconds) this.#clock.at(next, () => this.#closeWindow());
  }

  #start(groups: Group[]): void {
    const { windowSeconds } = this.#scenario.choices;
    const go = () => this.#clock.at(this.#starts.take(1) + STEP_SECONDS, () => this.#plan(groups));
    if (windowSeconds === 0) go();
    else this.#invoke('starter', shapeOf(groups, 1), go);
  }

  #plan(groups: Group[]): void {
    const shape = shapeOf(groups, 1);
    this.#counts.runs += 1;
    this.#counts.files += shape.files;
    this.#counts.captures += shape.captures;
    this.#write({ runs: 1, files: 0, chunks: 0, captures: 0 });
    const chunks = chunksOf(groups);
    for (const chunk of chunks) chunk.claims = chunks.length > 1;
    if (chunks.length > 1) this.#counts.claimed += shape.captures * this.#scenario.choices.sampleRate;
    const parts = this.#partsOf(chunks);
    const plan = (part: number, then: () => void): void => {
      const own = parts[part] ?? [];
      const files = own.reduce((sum, chunk) => sum + chunk.files, 0);
      const captures = own.reduce((sum, chunk) => sum + chunk.captures, 0);
      this.#invoke('planner', { runs: 1, files: 0, chunks: own.length, captures }, then, files * this.#planningOf());
    };
    const run = (part: number): void => {
      const own = parts[part];
      if (own === undefined) {
        this.#summarize(shape);
        return;
      }
      const isLast = part === parts.length - 1;
      let left = isLast ? 1 : 2;
      const ended = (): void => {
        left -= 1;
        if (left === 0) run(part + 1);
      };
      this.#map(own, ended);
      if (!isLast) plan(part + 1, ended);
    };
    plan(0, () => run(0));
  }

  /** Divides chunks into the parts that are planned one after the other, each beside the work on the part before it. */
  #partsOf(chunks: readonly Chunk[]): Chunk[][] {
    const { timeoutSeconds, maxFunctions } = this.#scenario.choices;
    const most = timeoutSeconds - PLAN_RESERVE_SECONDS;
    const parts: Chunk[][] = [];
    let [part, seconds] = [[] as Chunk[], 0];
    for (const [n, chunk] of chunks.entries()) {
      const { files, captures } = chunk;
      part.push(chunk);
      seconds += this.#seconds('planner', { runs: 0, files: 0, chunks: 1, captures }) + files * this.#planningOf();
      const isEnough = isEnoughForPart(parts.length, part.length, seconds * 1000, maxFunctions);
      if (n < chunks.length - 1 && !isEnough && seconds < most) continue;
      parts.push(part);
      [part, seconds] = [[], 0];
    }
    return parts;
  }

  /** One child for each chunk, at most `MAX_CONCURRENCY` at a time. A single chunk needs no Map. */
  #map(chunks: Chunk[], then: () => void): void {
    const { maxConcurrency } = this.#scenario.choices;
    this.#counts.chunks += chunks.length;
    if (chunks.length === 1) {
      this.#chunk(chunks[0] as Chunk, then);
      return;
    }
    this.#mapRuns.takeOrWait(() => {
      let [next, left] = [0, chunks.length];
      const startNext = (): void => {
        const chunk = chunks[next];
        next += 1;
        if (chunk === undefined) return;
        this.#chunk(chunk, () => {
          left -= 1;
          if (left > 0) startNext();
          else {
            this.#mapRuns.leave();
            then();
          }
        });
      };
      for (let n = 0; n < Math.min(maxConcurrency, chunks.length); n += 1) {
        this.#clock.after(n / CHILDREN_PER_SECOND, startNext);
      }
    });
  }

  /** A function that finds no permit ends at once, and Step Functions waits before it invokes again. */
  #chunk(chunk: Chunk, then: () => void, waited = 0, settled = 0): void {
    if (this.#permits.take()) {
      const end = () => {
        this.#permits.leave();
        then();
      };
      const refused = (from: number) => {
        this.#permits.leave();
        this.#returns += 1;
        const wait = tableWait(waited, () => this.#random.next());
        this.#clock.after(wait, () => this.#chunk(chunk, then, wait, from));
      };
      this.#process(chunk, settled, 0, end, refused);
      return;
    }
    this.#returns += 1;
    this.#spent(STEP_SECONDS);
    const wait = waitAfterRefusal(waited, this.#refused(), () => this.#random.next());
    this.#clock.after(STEP_SECONDS + wait, () => this.#chunk(chunk, then, wait, settled));
  }

  /** Counts who found no permit, in windows as the product does. */
  #refused(): Refusals {
    const ms = this.#clock.now * 1000;
    const window = Math.floor(ms / WINDOW_MS);
    const { window: last, now, before } = this.#refusals;
    const moved = window === last ? { now, before } : { now: 0, before: window === last + 1 ? now : 0 };
    this.#refusals = { window, before: moved.before, now: moved.now + 1 };
    return { ...this.#refusals, elapsedMs: ms - window * WINDOW_MS };
  }

  /**
   * Judges and writes a chunk in rounds of as many captures as calls are in flight. If the next answer would come after the
   * function's time, it ends, and another continues: the answers are kept.
   *
   * @param refused called in place of `then` when DynamoDB refuses writes for longer than the function repeats them
   */
  #process(chunk: Chunk, settled: number, attempt: number, then: () => void, refused: (settled: number) => void): void {
    const { choices } = this.#scenario;
    if (!this.#lambda.take()) {
      this.#retry(attempt, () => this.#process(chunk, settled, attempt + 1, then, refused), then);
      return;
    }
    const begun = this.#clock.now;
    const shape = { runs: 0, files: chunk.files, chunks: 1, captures: chunk.captures };
    const work = this.#seconds('processor', shape) + this.#seconds('evaluator', shape);
    const reading = (chunk.files / RANGES_AT_ONCE) * S3_SECONDS;
    const fixed = this.#callsOf('mlflow', { runs: 0, files: chunk.files, chunks: 1, captures: 0 });
    const each = this.#callsOf('mlflow', { runs: 0, files: 0, chunks: 0, captures: 1 });
    const deadline = begun + choices.timeoutSeconds - FINISH_RESERVE_SECONDS;
    let written = this.#mlflow.take(fixed);
    let [computed, pending, told] = [begun, 0, begun];
    /** The seconds since it was last asked for them. */
    const since = (): number => {
      const seconds = this.#clock.now - told;
      told = this.#clock.now;
      return seconds;
    };
    const leave = (next: () => void): void => {
      this.#write({ runs: 0, files: 0, chunks: 0, captures: 0, seconds: since() });
      this.#lambda.leave();
      this.#spent(this.#clock.now - begun);
      this.#chunkSeconds += this.#clock.now - begun;
      next();
    };
    const round = (from: number): void => {
      // Captures that are not judged wait for no answer.
      const atOnce = choices.sampleRate > 0 ? Math.ceil(this.#callsAtOnce / choices.sampleRate) : chunk.captures;
      const many = Math.min(atOnce, chunk.captures - from);
      if (many <= 0) {
        const end = Math.max(written, computed, this.#clock.now);
        if (pending > 0 || end > this.#clock.now) this.#clock.at(end, () => round(from));
        else leave(then);
        return;
      }
      const judged = many * choices.sampleRate;
      const behind = Math.max(this.#judgeTokens.behind, this.#judgeCalls.behind, this.#mlflow.behind);
      if (this.#clock.now + behind + choices.judgeSeconds > deadline && from > settled) {
        leave(() => this.#clock.after(Math.min(behind, 300), () => this.#process(chunk, from, 0, then, refused)));
        return;
      }
      if (Math.max(this.#table.behind, this.#partition.behind) > TABLE_REFUSED_SECONDS) {
        leave(() => refused(from));
        return;
      }
      const traced = this.#write({
        runs: 0,
        chunks: from === 0 ? 1 : 0,
        files: (chunk.files * many) / chunk.captures,
        captures: many,
        claimed: chunk.claims ? judged : 0,
        seconds: since(),
      });
      const asked =
        judged > 0
          ? Math.max(traced, this.#judgeCalls.take(judged), this.#judgeTokens.take(judged * this.#tokens))
          : traced;
      const answered = asked + (judged > 0 ? choices.judgeSeconds : 0);
      // The function's own work on these answers runs beside the next calls, but not beside its work on others.
      computed = Math.max(computed, answered) + (work * many) / chunk.captures;
      const ready = computed;
      pending += 1;
      this.#clock.at(ready, () => {
        const end = this.#mlflow.take(many * each);
        written = Math.max(written, end);
        pending -= 1;
        this.#clock.at(end, () => this.#settle(chunk, from, many));
      });
      this.#clock.at(answered, () => round(from + many));
    };
    this.#clock.after(STEP_SECONDS + reading, () => round(settled));
  }

  /** The calls that a function may have in flight now: its share of all of the stack's. */
  get #callsAtOnce(): number {
    const { judgeConcurrency } = this.#scenario.choices;
    if (judgeConcurrency === 0 || !this.#isJudged) return CALLS_AT_ONCE;
    return Math.max(1, Math.min(CALLS_AT_ONCE, Math.floor(judgeConcurrency / Math.max(1, this.#permits.taken))));
  }

  /** Makes the writes of a shape. @returns when the last is made */
  #write(shape: Shape): number {
    // Each capture and file has items of its own.
    const shared = { ...shape, files: 0, captures: 0, claimed: 0 };
    return Math.max(
      this.#table.take(this.#callsOf('dynamodbWriteUnit', shape)),
      this.#partition.take(this.#callsOf('dynamodbWriteUnit', shared)),
      this.#s3.take(this.#callsOf('s3Write', shape)),
    );
  }

  get #tokens(): number {
    const { inputTokens, outputTokens } = JUDGED_CAPTURE;
    return inputTokens + outputTokens * this.#scenario.quotas.outputBurndown;
  }

  /** The captures of a chunk from `from` on have their traces and verdicts. */
  #settle({ groups }: Chunk, from: number, many: number): void {
    let before = 0;
    for (const group of groups) {
      const own = Math.min(from + many, before + group.captures) - Math.max(from, before);
      if (own > 0) this.#times.add(this.#clock.now - group.at, own);
      before += group.captures;
    }
    this.#done += many;
    this.#end = Math.max(this.#end, this.#clock.now);
  }

  #summarize(shape: Shape): void {
    this.#invoke('summarizer', shape, () => undefined);
    const transitions = this.#callsOf('stateTransition', shape);
    this.#transitions.take(transitions);
  }

  /** Invokes a function that needs no quota but its own place. */
  #invoke(role: Role, shape: Shape, then: () => void, more = 0, attempt = 0): void {
    if (!this.#lambda.take()) {
      // A queue hands its messages over again for days; Step Functions gives up.
      const next = role === 'starter' ? 0 : attempt + 1;
      this.#retry(attempt, () => this.#invoke(role, shape, then, more, next), then);
      return;
    }
    const seconds = STEP_SECONDS + more + this.#seconds(role, shape);
    this.#clock.after(seconds, () => {
      this.#lambda.leave();
      this.#spent(seconds);
      then();
    });
  }

  #retry(attempt: number, again: () => void, failed: () => void): void {
    if (attempt >= THROTTLED_RETRY.maxAttempts) {
      this.#failed += 1;
      failed();
      return;
    }
    this.#retries += 1;
    this.#clock.after(THROTTLED_RETRY.seconds(attempt) * this.#random.next(), again);
  }

  #spent(seconds: number): void {
    this.#invocations += 1;
    this.#gbSeconds += seconds * (this.#scenario.choices.memoryMb / 1024);
  }

  get #isJudged(): boolean {
    return this.#scenario.choices.sampleRate > 0;
  }

  #seconds(role: Role, shape: Shape): number {
    const { seconds, secondsUnjudged } = this.#measured;
    return predict((this.#isJudged ? seconds : secondsUnjudged)[role], shape);
  }

  /** Seconds for each file: many requests are in flight, so either the processor or S3 is what planning waits for. */
  #planningOf(): number {
    const { load, choices } = this.#scenario;
    const kind = load.backfillFiles > 0 ? 'backfill' : 'list';
    const working = this.#measured.planning[kind] / Math.min(1, choices.memoryMb / PROCESSOR_MB);
    return Math.max(working, (PLANNING_REQUESTS[kind] * S3_SECONDS) / OBJECTS_AT_ONCE);
  }

  #callsOf(kind: (typeof CALLS)[number], shape: Shape): number {
    const { calls, callsUnjudged } = this.#measured;
    return predict((this.#isJudged ? calls : callsUnjudged)[kind], shape);
  }

  /** Looks at the backlog, and at how it recovers from bursts. */
  #sample(): void {
    const { now } = this.#clock;
    const { load } = this.#scenario;
    const backlog = this.#arrived - this.#done;
    this.#backlog = Math.max(this.#backlog, backlog);
    const last = this.#bursts.at(-1);
    if (load.bursts && this.#inBurst(now) && (last === undefined || now > last.end)) {
      const end = now - (now % BURST.every) + BURST.every;
      this.#bursts.push({ before: backlog, end, recovered: Number.NaN });
    }
    for (const burst of this.#bursts) {
      const isBack = backlog <= burst.before * 1.2 + 1;
      if (now >= burst.end && Number.isNaN(burst.recovered) && isBack) burst.recovered = now;
    }
    if (now < load.seconds || backlog > 0) this.#clock.after(SAMPLE_SECONDS, () => this.#sample());
  }

  outcome(): Outcome {
    const { load, choices } = this.#scenario;
    const calls = Object.fromEntries(
      CALLS.map((kind) => [kind, this.#callsOf(kind, { ...this.#counts, seconds: this.#chunkSeconds })]),
    ) as Outcome['calls'];
    // A wait, the choice before it, and the task again.
    calls.stateTransition += this.#retries + 3 * this.#returns;
    const infrastructure =
      CALLS.reduce((sum, kind) => sum + (kind === 'mlflow' ? 0 : calls[kind] * LIST_PRICES[kind]), 0) +
      this.#gbSeconds * LIST_PRICES.lambdaGbSecond +
      this.#invocations * LIST_PRICES.lambdaRequest;
    const recoveries = this.#bursts
      .filter(({ end }) => end <= load.seconds)
      .map(({ end, recovered }) => recovered - end);
    const busy = Math.max(1, this.#end);
    const rate = (name: string, { share, longest }: Rate): QuotaUse => ({ name, share, waitSeconds: longest });
    return {
      captures: this.#counts.captures,
      done: this.#done,
      runs: this.#counts.runs,
      chunks: this.#counts.chunks,
      failed: this.#failed,
      calls,
      invocations: this.#invocations,
      gbSeconds: this.#gbSeconds,
      times: this.#times,
      backlog: this.#backlog,
      recoverySeconds:
        recoveries.length === 0 ? 0 : Math.max(...recoveries.map((each) => (Number.isNaN(each) ? Infinity : each))),
      endSeconds: this.#end,
      quotas: [
        { name: 'functions', share: this.#lambda.used / (this.#lambda.limit * busy), waitSeconds: 0 },
        rate('MLflow requests', this.#mlflow),
        rate('judge calls', this.#judgeCalls),
        rate('judge tokens', this.#judgeTokens),
        rate('StartExecution', this.#starts),
        rate('state transitions', this.#transitions),
        rate('DynamoDB writes', this.#table),
        rate('DynamoDB writes of one partition', this.#partition),
        rate('S3 writes', this.#s3),
        { name: 'open Map Runs', share: this.#mapRuns.used / (this.#mapRuns.limit * busy), waitSeconds: 0 },
      ],
      dollars: infrastructure,
      judgeDollars: this.#done * choices.sampleRate * JUDGED_CAPTURE.usd,
    };
  }
}

const shapeOf = (groups: readonly Group[], chunks: number): Shape => ({
  runs: 1,
  chunks,
  files: groups.reduce((sum, group) => sum + group.files, 0),
  captures: groups.reduce((sum, group) => sum + group.captures, 0),
});

/** Divides groups into parts of about as many files each, in their order. */
function divide(groups: readonly Group[], parts: number): Group[][] {
  const files = groups.reduce((sum, group) => sum + group.files, 0);
  const divided: Group[][] = [];
  let [part, inPart, left] = [[] as Group[], 0, parts];
  let rest = files;
  for (const group of groups) {
    let remaining = group.files;
    while (remaining > 0) {
      const size = Math.ceil(rest / left);
      const take = Math.min(remaining, size - inPart);
      part.push({ at: group.at, files: take, captures: (group.captures / group.files) * take });
      [inPart, remaining] = [inPart + take, remaining - take];
      if (inPart < size) continue;
      divided.push(part);
      [part, rest, left, inPart] = [[], rest - inPart, left - 1, 0];
    }
  }
  if (part.length > 0) divided.push(part);
  return divided;
}

/** Packs captures into chunks of at most this number of lines, over the files. */
function chunksOf(groups: readonly Group[]): Chunk[] {
  const chunks: Chunk[] = [];
  let chunk: Chunk = { claims: false, groups: [], files: 0, captures: 0 };
  for (const group of groups) {
    let remaining = group.captures;
    while (remaining > 0) {
      const take = Math.min(remaining, CHUNK_LINES - chunk.captures);
      const files = (group.files * take) / group.captures;
      chunk.groups.push({ at: group.at, files, captures: take });
      chunk.files += files;
      chunk.captures += take;
      remaining -= take;
      if (chunk.captures < CHUNK_LINES) continue;
      chunks.push(chunk);
      chunk = { claims: false, groups: [], files: 0, captures: 0 };
    }
  }
  if (chunk.captures > 0) chunks.push(chunk);
  return chunks;
}
