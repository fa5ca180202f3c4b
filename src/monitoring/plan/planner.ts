/**
 * Plans a run: the execution's input → byte ranges of capture lines → a manifest in the work bucket.
 *
 * A part is what one Lambda can plan in its time; the state machine runs a part's chunks, then plans the next one.
 */

import type { BackfillInput, RunOptions } from '../../contract/input.ts';
import type { PlanRequest, PlanResult } from '../../contract/payloads.ts';
import type { CostEstimate, FailedFile, PlanReceipt } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import { assertModelLives, type ModelCheck } from '../../judge/model-check.ts';
import type { TraceStore } from '../../mlflow/types.ts';
import type { LambdaEnvironment } from '../../settings/environment.ts';
import { PermanentError, toNamedError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { ManifestWriter } from '../manifest-writer.ts';
import { addEstimates } from '../summary.ts';
import { backfillObjects, objectOf, overwrittenSince } from './capture-objects.ts';
import { claimObject, type IsRunning } from './claim.ts';
import { type CostEstimator, estimateRange } from './dry-run.ts';
import { type ParsedInput, parseInput, runOptions } from './input.ts';
import { failedFiles, optionsOfRun, retryChunks } from './retry-source.ts';
import { type PlannedUnit, single, unitsOfObjects, unitsOfRetry } from './units.ts';

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

/** So many files that fail in one part are no fault of theirs. */
const MAX_FAILED_FILES = 1_000;

/** What an earlier execution of the same name has left is older than this; clocks differ by less. */
const NAME_MARGIN_MS = 3_600_000;

/** @throws PermanentError by name for input that cannot be planned; RetryableError when S3 or MLflow are away. */
export async function planCaptures(request: PlanRequest, deps: PlannerDependencies): Promise<PlanResult> {
  const parsed = parseInput(request.input);
  const warnings: string[] = [];
  const options = await optionsFor(parsed, deps, warnings);
  if (request.part === 0) await assertNameUnused(request, deps);
  if (options.evaluate && !options.dryRun) deps.assertJudgeAffordable(options);
  const check = options.evaluate && request.part === 0 ? await deps.checkJudgeModel() : undefined;
  // A dry run asks no judge: it says what a run would meet.
  if (!options.dryRun) assertModelLives(check);
  if (check !== undefined) warnings.push(check.message);
  const plan = new Part(request, deps, options, { warnings, judgeModelEnding: check !== undefined });
  return options.dryRun ? plan.estimate(parsed) : plan.write(parsed);
}

/** A retry is the earlier run again: its options hold where the retry's input is silent. */
async function optionsFor(parsed: ParsedInput, deps: PlannerDependencies, warnings: string[]): Promise<RunOptions> {
  const options = runOptions(parsed.input, { sampleRate: deps.environment.EVALUATION_SAMPLE_RATE });
  if (parsed.kind !== 'retry') return options;
  const { retry } = parsed.input;
  const { budgetUsd, answersOf, ...original } = await optionsOfRun(deps.storage, deps.environment.WORK_BUCKET, retry);
  const said = Object.fromEntries(
    Object.entries(parsed.input).filter(([name, value]) => name !== 'retry' && value !== undefined),
  ) as Partial<RunOptions>;
  // What the earlier run's own budget held back, the same budget would hold back again.
  const isNewBudget = retry.what === 'held' && budgetUsd !== undefined;
  if (isNewBudget && said.budgetUsd === undefined) {
    warnings.push(
      `The budget of ${retry.run}, ${budgetUsd} dollars, is not taken over: the daily budget holds, and "budgetUsd" where the retry has one`,
    );
  }
  return {
    ...original,
    dryRun: false,
    ...(isNewBudget || budgetUsd === undefined ? {} : { budgetUsd }),
    ...(original.reevaluate ? { continues: [...(original.continues ?? []), retry.run] } : {}),
    // What was answered then is not paid again, unless it is to be judged anew.
    ...(said.reevaluate && !original.reevaluate ? {} : { answersOf: answersOf ?? retry.run }),
    ...said,
  };
}

/** Names may be used again after 90 days, while lines that the earlier execution put into quarantine still lie there. */
async function assertNameUnused({ run }: PlanRequest, { storage, environment }: PlannerDependencies): Promise<void> {
  const bucket = environment.WORK_BUCKET;
  for (const prefix of [workKeys.runPrefix(run.name), workKeys.quarantinePrefix(run.name)]) {
    for await (const { key, lastModifiedMs } of storage.list(bucket, prefix)) {
      if (lastModifiedMs >= Date.parse(run.startTime) - NAME_MARGIN_MS) continue;
      throw new PermanentError(
        'RunNameTaken',
        'The work bucket still holds what an earlier execution of that name left',
        {
          got: run.name,
          expected: 'an execution name that no quarantined lines belong to',
          where: `s3://${bucket}/${key}`,
        },
      );
    }
  }
}

/** What a person must know of the run. */
interface Known {
  warnings: string[];
  judgeModelEnding: boolean;
}

/** One part of one run while it is planned. */
class Part {
  readonly #request: PlanRequest;
  readonly #deps: PlannerDependencies;
  readonly #options: RunOptions;
  readonly #known: Known;
  readonly #failed: FailedFile[] = [];
  readonly #totals = { objects: 0, chunks: 0, lines: 0, bytes: 0 };

  constructor(request: PlanRequest, deps: PlannerDependencies, options: RunOptions, known: Known) {
    this.#request = request;
    this.#deps = deps;
    this.#options = options;
    this.#known = known;
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
    const { storage, environment, createEstimator, estimateSizes } = this.#deps;
    const estimator = createEstimator(this.#options);
    // A long file's chunks that there is no time to decode.
    const rest = { captures: 0, bytes: 0 };
    const units = await this.#units(parsed, false);
    if ('duplicateOf' in units) return this.#finish('duplicate', null, units);
    const cursor = await this.#consume(units.units, async (unit) => {
      for (const chunk of unit.chunks) {
        this.#count(chunk);
        if (!this.#options.evaluate) continue;
        if (this.#deps.remainingMs() < FINISH_RESERVE_MS) {
          rest.captures += chunk.lines;
          rest.bytes += chunk.end - chunk.start + 1;
          continue;
        }
        try {
          await estimateRange(storage, chunk, environment, this.#options, estimator);
        } catch (error) {
          if (!(error instanceof PermanentError)) throw error;
          this.#fail({ ...chunk, error: toNamedError(error) });
          return;
        }
      }
    });
    const decoded = estimator.result();
    if (rest.captures === 0) return this.#finish('dryRun', cursor, { estimate: decoded });
    const estimate = addEstimates(estimateSizes(this.#options, rest), decoded);
    estimate.basis = `${decoded.basis}; for want of time ${rest.captures} lines by their size alone`;
    return this.#finish('dryRun', cursor, { estimate });
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
      const overwritten = overwrittenSince(parsed.input, object);
      if (overwritten !== undefined) this.#known.warnings.push(overwritten);
      const holder = claim
        ? await claimObject(storage, environment.WORK_BUCKET, object, run, this.#options, isRunning)
        : undefined;
      if (holder !== undefined) return { duplicateOf: holder.name };
      return { units: unitsOfObjects(storage, single(object), limits) };
    }
    if (parsed.kind === 'backfill') {
      const input: BackfillInput = parsed.input;
      const objects = backfillObjects(storage, scope, input, this.#options.window, cursor);
      return { units: unitsOfObjects(storage, objects, limits) };
    }
    const { retry } = parsed.input;
    const chunks = retryChunks(storage, environment.WORK_BUCKET, parsed.input, this.#options);
    const files = retry.what === 'failed' ? failedFiles(storage, environment.WORK_BUCKET, retry.run) : none();
    return { units: unitsOfRetry(storage, chunks, files, Number(cursor ?? 0), limits) };
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
      // The next part has all of a Lambda's time for it; where it was this part's first, it had that.
      if (unit.outOfTime && cursor !== null) return cursor;
      if (unit.failed !== undefined) this.#fail(unit.failed);
      else await take(unit);
      this.#totals.objects += 1;
      cursor = unit.cursor;
    }
    return null;
  }

  /** Names the file, and goes on. */
  #fail({ bucket, key, versionId, etag, error }: FailedFile): void {
    if (this.#failed.length === MAX_FAILED_FILES) throw new PermanentError(error.name, error.message);
    this.#failed.push({ bucket, key, versionId, etag, error });
  }

  /** What a person may have meant otherwise: an input that stands for nothing. */
  #nothingFound(outcome: PlanResult['outcome'], cursor: string | null): string[] {
    const { part, input } = this.#request;
    if (part > 0 || cursor !== null || outcome === 'duplicate' || this.#totals.objects > 0) return [];
    return [`The input matches no capture file and nothing to retry: ${JSON.stringify(input)}`];
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
    const warnings = [...this.#known.warnings, ...this.#nothingFound(outcome, cursor)];
    const receipt: PlanReceipt = {
      part,
      outcome,
      ...this.#totals,
      scorers: this.#deps.scorers,
      more: cursor !== null,
      options: this.#options,
      input,
      ...(warnings.length === 0 ? {} : { warnings }),
      ...(this.#known.judgeModelEnding ? { judgeModelEnding: true as const } : {}),
      ...(this.#failed.length === 0 ? {} : { failedFiles: this.#failed }),
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

async function* none(): AsyncGenerator<never> {}
