/**
 * Plans a run: the execution's input → byte ranges of capture lines → a manifest in the work bucket.
 *
 * A part is what one Lambda can plan in its time; the state machine runs a part's chunks, then plans the next one.
 */
import type { LambdaEnvironment } from '../common/environment.ts';
import { PermanentError } from '../common/errors.ts';
import type { Storage } from '../common/storage.ts';
import {
  type BackfillInput,
  type CostEstimate,
  type PlanReceipt,
  type PlanRequest,
  type PlanResult,
  type RunOptions,
  workKeys,
} from '../contract.ts';
import { assertModelLives, type ModelCheck } from '../judge/model-check.ts';
import type { TraceStore } from '../mlflow/types.ts';
import { backfillObjects, objectOf } from './capture-objects.ts';
import { claimObject, type IsRunning } from './claim.ts';
import { type CostEstimator, estimateRange } from './dry-run.ts';
import { type ParsedInput, parseInput, runOptions } from './input.ts';
import { ManifestWriter } from './manifest-writer.ts';
import { optionsOfRun, retryChunks } from './retry-source.ts';
import { type PlannedUnit, single, unitsOfChunks, unitsOfObjects } from './units.ts';

export interface PlannerDependencies {
  storage: Storage;
  store: Pick<TraceStore, 'resolveExperiment'>;
  environment: LambdaEnvironment;
  isRunning: IsRunning;
  /** Number of scorers in force. */
  scorers: number;
  /** Throws when the run must not start, e.g. a budget is set and the judge's price is not known. */
  assertJudgeAffordable(options: RunOptions): void;
  /** What a person must know of the judge's model, e.g. that it ends soon; `undefined`: nothing. */
  checkJudgeModel(): Promise<ModelCheck | undefined>;
  createEstimator(options: RunOptions): CostEstimator;
  /** What a part may cost, by its lines and bytes alone: there is no time to decode what is about to run. */
  estimateSizes(options: RunOptions, sizes: { captures: number; bytes: number }): CostEstimate;
  /** Milliseconds until the Lambda is ended. */
  remainingMs(): number;
}

/** Kept back to finish the manifest's upload and the plan's receipt. */
const FINISH_RESERVE_MS = 30_000;

/** A part is ended here at the latest: with some 300 bytes a line its manifest stays under 10 MB. */
const MAX_PART_CHUNKS = 30_000;

/** @throws PermanentError by name for input that cannot be planned; RetryableError when S3 or MLflow are away. */
export async function planCaptures(request: PlanRequest, deps: PlannerDependencies): Promise<PlanResult> {
  const parsed = parseInput(request.input);
  const options = await optionsFor(parsed, deps);
  if (options.evaluate && !options.dryRun) deps.assertJudgeAffordable(options);
  const check = options.evaluate && request.part === 0 ? await deps.checkJudgeModel() : undefined;
  // A dry run asks no judge: it says what a run would meet.
  if (!options.dryRun) assertModelLives(check);
  const plan = new Part(request, deps, options, check === undefined ? [] : [check.message]);
  return options.dryRun ? plan.estimate(parsed) : plan.write(parsed);
}

/** A retry is the earlier run again: its options hold where the retry's input is silent. */
async function optionsFor(parsed: ParsedInput, deps: PlannerDependencies): Promise<RunOptions> {
  const options = runOptions(parsed.input, { sampleRate: deps.environment.EVALUATION_SAMPLE_RATE });
  if (parsed.kind !== 'retry') return options;
  const original = await optionsOfRun(deps.storage, deps.environment.WORK_BUCKET, parsed.input.retry.run);
  const said = Object.fromEntries(
    Object.entries(parsed.input).filter(([name, value]) => name !== 'retry' && value !== undefined),
  ) as Partial<RunOptions>;
  // A run is made again for what it left undone, not judged anew, unless the retry asks for it.
  return { ...original, reevaluate: false, dryRun: false, ...said };
}

/** One part of one run while it is planned. */
class Part {
  readonly #request: PlanRequest;
  readonly #deps: PlannerDependencies;
  readonly #options: RunOptions;
  readonly #warnings: readonly string[];
  readonly #totals = { objects: 0, chunks: 0, lines: 0, bytes: 0 };

  constructor(request: PlanRequest, deps: PlannerDependencies, options: RunOptions, warnings: readonly string[]) {
    this.#request = request;
    this.#deps = deps;
    this.#options = options;
    this.#warnings = warnings;
  }

  /** Writes the manifest of this part. */
  async write(parsed: ParsedInput): Promise<PlanResult> {
    const { storage, environment, store, estimateSizes } = this.#deps;
    const { run, part, nextChunk } = this.#request;
    const units = await this.#units(parsed, true);
    if ('duplicateOf' in units) return this.#finish('duplicate', null, units);
    const experiment = await store.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME);
    const manifest = new ManifestWriter(storage, environment.WORK_BUCKET, workKeys.manifest(run.name, part));
    const cursor = await this.#consume(units.units, async (unit) => {
      for (const chunk of unit.chunks) {
        const numbered = { ...chunk, chunk: nextChunk + this.#totals.chunks };
        await manifest.write({ ...numbered, experimentId: chunk.experimentId || experiment.id });
        this.#count(chunk);
      }
    });
    await manifest.close();
    if (this.#totals.chunks === 0) return this.#finish('empty', cursor);
    const { lines, bytes } = this.#totals;
    const estimate = this.#options.evaluate
      ? { estimate: estimateSizes(this.#options, { captures: lines, bytes }) }
      : {};
    return this.#finish('planned', cursor, estimate);
  }

  /** Counts, and estimates the judge's bill; writes nothing but the plan's receipt. */
  async estimate(parsed: ParsedInput): Promise<PlanResult> {
    const { storage, environment, createEstimator } = this.#deps;
    const estimator = createEstimator(this.#options);
    const units = await this.#units(parsed, false);
    if ('duplicateOf' in units) return this.#finish('duplicate', null, units);
    const cursor = await this.#consume(units.units, async (unit) => {
      for (const chunk of unit.chunks) {
        if (this.#options.evaluate) await estimateRange(storage, chunk, environment, this.#options, estimator);
        this.#count(chunk);
      }
    });
    return this.#finish('dryRun', cursor, { estimate: estimator.result() });
  }

  #count(chunk: PlannedUnit['chunks'][number]): void {
    this.#totals.chunks += 1;
    this.#totals.lines += chunk.lines;
    this.#totals.bytes += chunk.end - chunk.start + 1;
  }

  /** What the input names, from where the part before stopped; or the run that this one duplicates. */
  async #units(
    parsed: ParsedInput,
    claim: boolean,
  ): Promise<{ units: AsyncIterable<PlannedUnit> } | { duplicateOf: string }> {
    const { storage, environment, isRunning } = this.#deps;
    const scope = { bucket: environment.DATA_CAPTURE_S3_BUCKET, prefix: environment.DATA_CAPTURE_S3_PREFIX };
    const { run } = this.#request;
    const cursor = this.#request.cursor || undefined;
    const limits = {
      maxLineBytes: environment.MAX_LINE_BYTES,
      deadlineMs: () => this.#deps.remainingMs() - FINISH_RESERVE_MS,
    };
    if (parsed.kind === 'object') {
      const object = await objectOf(storage, scope, parsed.input);
      const holder = claim ? await claimObject(storage, environment.WORK_BUCKET, object, run, isRunning) : undefined;
      if (holder !== undefined) return { duplicateOf: holder.name };
      return { units: unitsOfObjects(storage, single(object), limits) };
    }
    if (parsed.kind === 'backfill') {
      const input: BackfillInput = parsed.input;
      const objects = backfillObjects(storage, scope, input, this.#options.window, cursor);
      return { units: unitsOfObjects(storage, objects, limits) };
    }
    const chunks = retryChunks(storage, environment.WORK_BUCKET, parsed.input, this.#options);
    return { units: unitsOfChunks(chunks, Number(cursor ?? 0)) };
  }

  /** @returns the cursor of the next part, `null` when the input is exhausted. */
  async #consume(
    units: AsyncIterable<PlannedUnit>,
    take: (unit: PlannedUnit) => Promise<void>,
  ): Promise<string | null> {
    let cursor: string | null = null;
    for await (const unit of units) {
      // Whether more follows is only known when it is there: a full part ends before the unit that did not fit.
      if (cursor !== null && this.#isFull()) return cursor;
      if (unit.outOfTime) {
        if (cursor !== null) return cursor;
        throw new PermanentError('CaptureFileTooLarge', 'One capture file takes longer to plan than a Lambda has', {
          got: unit.cursor,
          expected: 'a file of some tens of GB at most',
        });
      }
      await take(unit);
      this.#totals.objects += 1;
      cursor = unit.cursor;
    }
    return null;
  }

  #isFull(): boolean {
    return this.#totals.chunks >= MAX_PART_CHUNKS || this.#deps.remainingMs() < FINISH_RESERVE_MS;
  }

  async #finish(
    outcome: PlanResult['outcome'],
    cursor: string | null,
    more: Partial<PlanReceipt> = {},
  ): Promise<PlanResult> {
    const { run, part, nextChunk, input } = this.#request;
    const bucket = this.#deps.environment.WORK_BUCKET;
    const receipt: PlanReceipt = {
      part,
      outcome,
      ...this.#totals,
      scorers: this.#deps.scorers,
      more: cursor !== null,
      options: this.#options,
      input,
      ...(this.#warnings.length === 0 ? {} : { warnings: [...this.#warnings] }),
      ...more,
    };
    await this.#deps.storage.putJson(bucket, workKeys.plan(run.name, part), receipt);
    return {
      outcome,
      part,
      nextPart: part + 1,
      nextChunk: nextChunk + this.#totals.chunks,
      manifest: { bucket, key: workKeys.manifest(run.name, part) },
      options: this.#options,
      more: cursor !== null,
      cursor,
    };
  }
}
