/**
 * Evaluates one chunk: the judge and the code scorers assess its captures, and then their traces are written with their
 * verdicts.
 */
import { callerIds } from '../../captures/trace/build.ts';
import type { Capture } from '../../captures/types.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { EvaluateReceipt, JudgeSpend, LogReceipt } from '../../core/contract/receipts.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { ChunkPredictions } from '../../ground-truth/predictions/chunk-predictions.ts';
import { chancesOf } from '../../judge/scorers/chances.ts';
import { askedOf } from '../../judge/scorers/scorer-set.ts';
import { appendRows } from '../../ledger/files.ts';
import { type LedgerRows, noRows } from '../../ledger/tables.ts';
import { DrawnDays } from '../../limits/drawn-days.ts';
import type { StoredTrace } from '../../mlflow/types.ts';
import { observerOf } from '../../quality/observations.ts';
import { captureFacts, type Observe } from '../../quality/tally.ts';
import { type ChunkDependencies, isRepeated } from '../chunk/attempt.ts';
import { type HeavyCaptures, heavyCapturesOf } from '../chunk/heavy-captures.ts';
import { chunkOutOfTime, KILLED, LineAtWork } from '../chunk/line-at-work.ts';
import { closeLines, drawsOf, linesOf, qualityOf, verdictsOf } from '../outcomes/folds.ts';
import { LineOutcomes } from '../outcomes/line-outcome.ts';
import { rowsOf } from '../outcomes/rows.ts';
import { attemptFacts, withReceipt } from '../receipts.ts';
import { createsTraces } from '../write/sent-traces.ts';
import { AnswerTable } from './answer-table.ts';
import { CaptureAssessor, type CaptureOutcome, NOT_JUDGED } from './assess-capture.ts';
import type { PlannedWork } from './outcome-of.ts';
import { NO_TRACE_YET, pendingVerdicts } from './pending-verdicts.ts';
import { type ChunkCaptures, type HeavyLine, type ReadCapture, readCaptures } from './read-captures.ts';
import { traceEach } from './trace-each.ts';
import { type EvaluateDependencies, NO_JUDGE } from './types.ts';
import { VerdictWriter } from './verdict-writer.ts';

/**
 * Captures in progress at the same time. The judge’s own limiter decides how many calls are in flight; this number keeps
 * it busy.
 */
const CAPTURES_AT_ONCE = 48;

/** Time reserved to write the traces of the chunk, with the verdicts that there are, and the receipt. */
const FINISH_RESERVE_MS = 60_000;

/**
 * Assesses the captures of the chunk, writes them, and writes a receipt whether it succeeds or fails.
 *
 * @throws the error that stopped the chunk, by name, after the receipt is written. By then every trace is written, unless
 *   writing failed, and the next attempt does not ask again for verdicts that were answered.
 *
 * @example
 *     const receipt = await evaluateChunk(request, { ...deps, judge, scorers });
 */
export const evaluateChunk = (request: ChunkRequest, deps: EvaluateDependencies): Promise<EvaluateReceipt> =>
  withReceipt(deps, new EvaluateChunk(request, deps));

/** One attempt at a chunk. Without scorers, it only writes traces. */
class EvaluateChunk {
  readonly #request: ChunkRequest;
  readonly #deps: EvaluateDependencies;
  readonly #startedAt = new Date().toISOString();
  readonly #predictions: ChunkPredictions;
  readonly #answers: AnswerTable;
  readonly #assessor: CaptureAssessor;
  readonly #writer: VerdictWriter;
  readonly #outcomes: LineOutcomes;
  #rows: LedgerRows = noRows();
  /** Absent if the run is not counted, or no objective exists. */
  readonly #observe: Observe | undefined;
  /** The questions that killed attempts may have paid for, also if they have written the verdicts. */
  readonly #repeated = new Set<string>();
  #paidByOthers: Record<string, JudgeSpend> = {};
  /** The first failure that ends the judging. Captures in progress finish, and no further one starts. */
  #stop: unknown;
  /** The failure of the batch jobs that some answers are missing from. */
  #withoutAnswer: unknown;
  /** Whether all lines have an outcome. */
  #isLogged = false;
  /** Whether absent traces may be written. */
  readonly #mayCreate: boolean;
  readonly #judges: boolean;

  constructor(request: ChunkRequest, deps: EvaluateDependencies, mayCreate = createsTraces(request)) {
    this.#request = request;
    this.#deps = deps;
    this.#mayCreate = mayCreate;
    this.#judges = deps.scorers.length > 0;
    this.#predictions = new ChunkPredictions(deps.environment);
    this.#answers = new AnswerTable(request, deps);
    this.#assessor = new CaptureAssessor(request.run, deps, this.#answers, this.#answers.unclaimed());
    this.#outcomes = new LineOutcomes(request, deps.environment);
    this.#writer = new VerdictWriter(request, deps, this.#outcomes);
    const scorers = this.#judges ? deps.scorers : undefined;
    this.#observe = request.options.replay ? undefined : observerOf(deps.environment, scorers);
  }

  async run(): Promise<void> {
    // Report the first failure. A reservation that is not returned expires, and later runs write missing rows.
    let failure: unknown;
    const note = (error: unknown): void => {
      failure ??= error;
    };
    await this.#evaluate().catch(note);
    await this.#writeRows().catch(note);
    await this.#report().catch(note);
    await this.#deps.limit?.close().catch(note);
    if (failure !== undefined) throw failure;
  }

  /** Writes a row for each line with a known outcome. */
  async #writeRows(): Promise<void> {
    const { storage, environment } = this.#deps;
    const work = { storage, workBucket: environment.WORK_BUCKET };
    this.#rows = rowsOf(this.#request, environment, this.#outcomes.lines);
    await this.#predictions.write(work, this.#rows.captures);
    await appendRows(work, this.#rows);
  }

  /** Reports to the day what was judged. A run with a rate, or a number of its own, does not share the day's number. */
  async #report(): Promise<void> {
    const { sampleRate, chance } = this.#request.options;
    if (!this.#judges || sampleRate !== undefined || chance !== undefined) return;
    const terms = drawsOf(this.#request, this.#outcomes.lines);
    if (terms.judged > 0 || this.#deps.environment.EVALUATION_ALWAYS.length > 0)
      await new DrawnDays(this.#deps.table).addToday(terms);
  }

  async #evaluate(): Promise<void> {
    this.#assessor.batch = await this.#deps.openBatch?.();
    const atWork = await LineAtWork.open(this.#request, this.#deps);
    for (const question of atWork.asked) this.#repeated.add(question);
    const heavy = heavyCapturesOf(this.#request, this.#deps, this.#deps.scorers);
    await atWork.during(() => this.#process(atWork, heavy)).finally(() => heavy.close());
  }

  async #process(atWork: LineAtWork, heavy: HeavyCaptures): Promise<void> {
    const { remainingMs } = this.#deps;
    if (atWork.isTracing) await traceEach(this.#request, this.#deps, { atWork, heavy }, this.#mayCreate);
    const all = await readCaptures(this.#request, this.#deps, { heavy, atWork, outcomes: this.#outcomes });
    const { duplicates, faulty } = all;
    // Captures that are only traced are looked up when they are written.
    const judged = this.#judges ? [...all.captures, ...all.heavy] : [];
    const ids = [...judged, ...faulty].map(({ traceId }) => traceId);
    const stored = await this.#writer.existing(ids);
    const signal = AbortSignal.timeout(Math.max(1, remainingMs() - FINISH_RESERVE_MS));
    const beforeHeavy = async ({ raw }: HeavyLine): Promise<void> => {
      await this.#writer.written();
      if (atWork.isEach) await atWork.begin(raw.place);
      else atWork.checkTime();
    };
    try {
      for await (const captures of all.portions(beforeHeavy)) {
        for (const line of faulty.splice(0)) await this.#settleFaulty(line, stored.get(line.traceId));
        await this.#assessAll(this.#planned(captures, stored, atWork), signal, atWork);
      }
    } finally {
      await this.#writer.flush().finally(() => this.#outcomes.duplicates(duplicates, askedOf(this.#deps.scorers)));
    }
    this.#paidByOthers = await this.#answers.paidByOthers(this.#repeated);
    await closeLines(this.#request, this.#deps, this.#outcomes);
    this.#isLogged = true;
    const failure = this.#stop ?? this.#withoutAnswer ?? this.#writer.functionFailure;
    if (failure !== undefined) throw failure;
  }

  /** A failed batch job does not stop the chunk: other captures may already have answers. */
  #note(failure: unknown): void {
    if (failure instanceof PermanentError && WITHOUT_ANSWER.has(failure.name)) this.#withoutAnswer ??= failure;
    else this.#stop ??= failure;
  }

  /** Assesses the captures. Captures that cannot be judged now are written without the judge’s verdicts. */
  #assessAll(work: Iterable<PlannedWork>, signal: AbortSignal, atWork: LineAtWork): Promise<void> {
    return forEachConcurrently(atWork.isEach ? 1 : CAPTURES_AT_ONCE, work, async (item) => {
      if (atWork.isEach) await this.#writer.flush().then(() => atWork.begin(item.raw.place, item.question));
      const read = <T>(use: (capture: Capture) => T) =>
        this.#writer.memory.pass(item.weight, async () => use(item.read()));
      const isAsked = item.onlyTraced === undefined && this.#stop === undefined && !signal.aborted;
      const later = isAsked ? this.#assessor.askFunctions(item, read, signal) : undefined;
      await this.#writer.add(item, await this.#assess(item, signal), later);
    });
  }

  async #assess(item: PlannedWork, signal: AbortSignal): Promise<CaptureOutcome> {
    const { weight, onlyTraced } = item;
    if (onlyTraced !== undefined) return this.#assessor.errors(item, onlyTraced.message, onlyTraced.name);
    const assess = (until?: AbortSignal) =>
      this.#writer.memory.pass(weight, () => this.#assessor.assess({ ...item, capture: item.read() }, until));
    if (this.#stop === undefined && this.#writer.failure === undefined) {
      try {
        signal.throwIfAborted();
        const outcome = await assess(signal);
        this.#note(outcome.failure);
        return outcome;
      } catch (error) {
        this.#note(signal.aborted ? chunkOutOfTime(this.#request, error) : error);
      }
    }
    // Without a signal, captures do not wait for the judge.
    return item.stored === undefined ? assess() : NOT_JUDGED;
  }

  /**
   * Plans each capture when it is requested, so that the judge gets the first captures immediately. Removes captures
   * from the list, so that written captures do not stay in memory, where predictions are kept.
   */
  *#planned(
    captures: ReadCapture[],
    stored: ReadonlyMap<string, StoredTrace>,
    atWork: LineAtWork,
  ): Generator<PlannedWork> {
    for (let next = captures.shift(); next !== undefined; next = captures.shift()) {
      if (!this.#judges) atWork.checkTime();
      yield* this.#plan(next, stored);
    }
  }

  /**
   * Decides which work a capture still needs. Captures that need neither judge nor scorer nor trace are settled here.
   */
  #plan(line: ReadCapture, allStored: ReadonlyMap<string, StoredTrace>): PlannedWork[] {
    const { scorers, always } = this.#deps;
    const { options, run } = this.#request;
    const { traceId, notTraffic } = line;
    const capture = line.read();
    const isAsked = isRepeated(this.#request) && this.#judges;
    const question = isAsked ? this.#assessor.questionOf({ traceId, capture }) : undefined;
    const stored = allStored.get(traceId);
    const others = isAsked ? this.#assessor.functionQuestions(capture, { ...line, stored }, scorers) : [];
    for (const each of question === undefined ? [] : [question, ...others]) this.#repeated.add(each);
    const isAbsent = stored === undefined && this.#mayCreate;
    const rule = () => always(capture, line.raw.place.key);
    const view = { capture, timeMs: this.#assessor.timeMsOf(capture), rule, notTraffic };
    const pending = pendingVerdicts(traceId, view, isAbsent ? NO_TRACE_YET : stored, scorers, this.#howOf(line), run);
    // A window may be taken back.
    const isServing = notTraffic === undefined || notTraffic.by === 'window';
    const isKept = isServing && !options.replay && (stored !== undefined || !this.#request.chunk.traced);
    const rows = isKept ? this.#predictions.add(capture, traceId, line.raw.place) : undefined;
    const facts = captureFacts(capture, notTraffic, rows);
    const caller = callerIds(capture, isServing);
    const work = { ...line, pending, stored, facts, caller, question };
    if (isAbsent || stored !== undefined) return [work];
    this.#settleMissing(work);
    return [];
  }

  /** Returns the options of a line: its chances are those of its file. */
  #howOf({ range }: Pick<Line, 'range'>) {
    const { options, chunk } = this.#request;
    return { ...options, chances: chancesOf(options, chunk.ranges[range]) };
  }

  /** Settles a line whose trace a person has deleted. */
  #settleMissing({ range, raw, traceId, facts, pending }: Line & Pick<PlannedWork, 'facts' | 'pending'>): void {
    const { settled: scorers, beyond } = pending;
    this.#outcomes.lines.push({ range, place: raw.place, traceId, facts, outcome: 'missing', scorers, beyond });
  }

  /**
   * Settles a line that must not be decoded because it kills the function: if it has a trace, each scorer without a verdict
   * gets an error, else it is quarantined.
   */
  async #settleFaulty(line: Line, stored: StoredTrace | undefined): Promise<void> {
    if (stored === undefined && this.#mayCreate) return this.#outcomes.quarantine(line, KILLED);
    const how = { ...this.#howOf(line), reevaluate: false };
    const pending = pendingVerdicts(line.traceId, undefined, stored, this.#deps.scorers, how, this.#request.run);
    if (stored === undefined) return this.#settleMissing({ ...line, pending });
    const read = (): never => {
      throw new Error('A line that kills the function was decoded');
    };
    const outcome = this.#assessor.errors({ ...line, pending }, KILLED.message, KILLED.name);
    await this.#writer.add({ ...line, weight: 0, read, pending, stored }, outcome);
  }

  receipt(failure: unknown): EvaluateReceipt {
    const { batch, spend } = this.#assessor;
    return {
      step: 'evaluate',
      ...attemptFacts(this.#request, this.#deps.requestId, this.#startedAt, failure),
      scorers: askedOf(this.#deps.scorers).length,
      ...verdictsOf(this.#outcomes.lines),
      ...this.#quality(),
      spend,
      ...(Object.keys(this.#paidByOthers).length === 0 ? {} : { paidByOthers: this.#paidByOthers }),
      ...(batch === undefined ? {} : { batchSpend: batch.spend }),
      ...(Object.keys(batch?.refused ?? {}).length === 0 ? {} : { batchRefused: batch?.refused }),
      log: this.#logReceipt(this.#isLogged ? undefined : failure),
    };
  }

  /** Returns the receipt of an attempt that only writes traces. */
  logReceipt(failure: unknown): LogReceipt {
    return { ...this.#logReceipt(failure), ...this.#quality() };
  }

  #quality(): Pick<LogReceipt, 'quality' | 'series' | 'failures'> {
    const { captures, verdicts } = this.#rows;
    const inferences = this.#predictions.counted(captures);
    return qualityOf(this.#outcomes.lines, { captures, verdicts, inferences }, this.#observe);
  }

  #logReceipt(failure: unknown): LogReceipt {
    const facts = attemptFacts(this.#request, this.#deps.requestId, this.#startedAt, failure);
    return { step: 'log', ...facts, ...linesOf(this.#outcomes) };
  }
}

type Line = ChunkCaptures['faulty'][number];

/** The errors of a capture whose batch job ended without an answer. */
const WITHOUT_ANSWER = new Set(['JudgeBatchFailed', 'JudgeBatchRefused']);

/**
 * Writes only the missing traces, and a receipt whether it succeeds or fails. @throws the error that stopped the chunk
 */
export function logChunk(request: ChunkRequest, deps: ChunkDependencies): Promise<LogReceipt> {
  // Nothing is asked, so that no table of answers is used.
  const chunk = new EvaluateChunk(request, { ...deps, ...NO_JUDGE, answers: deps.table }, true);
  return withReceipt(deps, { run: () => chunk.run(), receipt: (failure) => chunk.logReceipt(failure) });
}
