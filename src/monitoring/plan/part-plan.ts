/** Plans one part of a run: finds its capture files, cuts them into chunks, and writes the manifest or estimates the cost. */
import { randomUUID } from 'node:crypto';
import { isOfOneFile } from '../../captures/files/capture-objects.ts';
import { CONTRACT } from '../../core/contract/contract.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { ManifestLine, PlanRequest, PlanResult } from '../../core/contract/payloads.ts';
import type { FailedFile, PlanReceipt } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { RetryableError, recordedError } from '../../core/errors/errors.ts';
import { addCounts } from '../../core/values/counts.ts';
import { sum } from '../../core/values/sum.ts';
import { activeScorers } from '../../judge/active-scorers.ts';
import { estimateFromSizes } from '../../judge/pricing/estimate.ts';
import { chancesOf } from '../../judge/scorers/chances.ts';
import type { UnnumberedChunk } from '../chunk/ranges.ts';
import { stackExperiment } from '../stack-experiment.ts';
import { bytesOf, dryRunOf } from './dry-run.ts';
import { ChunkPacker } from './pack-chunks.ts';
import {
  FINISH_RESERVE_MS,
  isEnoughForPart,
  LAST_RETRIES_FROM,
  MAX_FAILED_FILES,
  MAX_LINE_BYTES,
  MAX_PART_BYTES,
  MAX_PART_CHUNKS,
  MAX_UNAVAILABLE_FILES,
} from './part-bounds.ts';
import type { PartUnits } from './part-units.ts';
import type { PlannerDependencies } from './types.ts';
import type { PlannedUnit } from './units.ts';

/** Notices about the run. */
type Notices = Pick<PlanReceipt, 'judgeModelEnding' | 'judgeError'> & { warnings: string[] };

export class PartPlan {
  readonly #units: PartUnits;
  readonly #request: PlanRequest;
  readonly #deps: PlannerDependencies;
  #options: RunOptions;
  readonly #notices: Notices;
  readonly #failed: FailedFile[] = [];
  readonly #totals = { objects: 0, chunks: 0, lines: 0, bytes: 0 };
  /** Lines × their chance to be judged. */
  #draws = 0;
  readonly #startedAtMs: number;
  /** Separates the objects of this attempt from those of other attempts at the same part. */
  readonly #attempt = randomUUID();
  #unavailable = 0;
  #manifestBytes = 0;
  /** Files that are left out, and a run that processes them. */
  readonly #duplicates: Pick<PlanReceipt, 'duplicates' | 'duplicateOf'> = {};

  constructor(units: PartUnits, notices: Notices) {
    this.#units = units;
    this.#request = units.request;
    this.#deps = units.deps;
    this.#options = units.options;
    this.#notices = notices;
    this.#startedAtMs = this.#deps.remainingMs();
  }

  /** Writes the manifest of this part. The only chunk of a run is in the receipt alone, since it needs no Map. */
  async write(): Promise<PlanResult> {
    const { storage, environment } = this.#deps;
    const { run, part, nextChunk } = this.#request;
    const id = this.#options.replay?.experimentId ?? (await this.#experimentId());
    const manifest: ManifestLine[] = [];
    const cursor = await this.#packed(id, async (chunk) => {
      manifest.push(await this.#lineOf(chunk));
    });
    const { lines, bytes } = this.#totals;
    const [first] = manifest;
    if (first === undefined) {
      // Running executions process all files of the run.
      const isDuplicate = this.#isNothing(cursor) && this.#duplicates.duplicates !== undefined;
      return this.#finish(isDuplicate ? 'duplicate' : 'empty', cursor);
    }
    const more: Partial<PlanReceipt> = { experimentId: first.experimentId };
    this.#options = await this.#units.withChance(this.#totals, cursor);
    const { evaluate, replay, judge, chance } = this.#options;
    if (evaluate && !replay) {
      const sampleRate = chance ?? this.#draws / Math.max(1, lines);
      const scorers = activeScorers(environment, judge);
      more.estimate = estimateFromSizes(environment, scorers, { judge, sampleRate }, { captures: lines, bytes });
    }
    if (nextChunk === 0 && manifest.length === 1 && cursor === null) {
      return this.#finish('planned', cursor, { ...more, chunk: first });
    }
    more.manifest = workKeys.manifest(run.name, part, this.#attempt);
    const text = manifest.map((line) => `${JSON.stringify(line)}\n`).join('');
    await storage.putText(environment.WORK_BUCKET, more.manifest, text, 'application/jsonlines');
    return this.#finish('planned', cursor, more);
  }

  async #experimentId(): Promise<string> {
    const { id, notice } = await stackExperiment(this.#deps.store, this.#deps.environment);
    if (notice !== undefined) this.#notices.warnings.push(notice);
    return id;
  }

  /** Packs the units into chunks. @returns the cursor of the next part; `null` when the input is exhausted */
  async #packed(experimentId: string, consume: (chunk: UnnumberedChunk) => Promise<void>): Promise<string | null> {
    const packer = new ChunkPacker();
    const add = async (chunk: UnnumberedChunk | undefined): Promise<void> => {
      if (chunk === undefined) return;
      await consume(chunk);
      this.#draws += sum(chunk.ranges.map((range) => range.lines * chancesOf(this.#options, range).sample));
      addCounts(this.#totals, { chunks: 1, lines: chunk.lines, bytes: bytesOf(chunk) });
    };
    const units = await this.#units.find(this.#notices.warnings);
    const cursor = await this.#consume(units, async (unit) => {
      for (const range of unit.ranges) await add(packer.add(range, unit.experimentId || experimentId));
      await add(unit.chunk);
    });
    await add(packer.close());
    return cursor;
  }

  /** Returns the next line of the manifest. The ranges of a chunk of many files are a separate object. */
  async #lineOf(chunk: UnnumberedChunk): Promise<ManifestLine> {
    const ordinal = this.#request.nextChunk + this.#totals.chunks;
    const numbered = { ...chunk, contract: CONTRACT, chunk: ordinal };
    const length = Buffer.byteLength(JSON.stringify(numbered));
    this.#manifestBytes += Math.min(length, MAX_LINE_BYTES);
    if (length <= MAX_LINE_BYTES) return numbered;
    const rangesIn = workKeys.ranges(this.#request.run.name, ordinal, this.#attempt);
    await this.#deps.storage.putJson(this.#deps.environment.WORK_BUCKET, rangesIn, chunk.ranges);
    return { ...numbered, ranges: [], rangesIn };
  }

  /** Counts the lines, and estimates the cost of the judge. Writes only the receipt of the plan. */
  async estimate(): Promise<PlanResult> {
    const dryRun = dryRunOf(this.#deps, this.#units.isOwn ? { ...this.#options, sampleRate: 1 } : this.#options);
    const cursor = await this.#packed('none', async (chunk) => {
      if (!this.#options.evaluate) return;
      for (const { range, error } of await dryRun.add(chunk)) this.#fail({ ...range, error });
    });
    this.#options = await this.#units.withChance(this.#totals, cursor);
    return this.#finish('dryRun', cursor, { estimate: dryRun.result(this.#options.chance) });
  }

  /** @returns the cursor of the next part; `null` when the input is exhausted */
  async #consume(
    units: AsyncIterable<PlannedUnit>,
    consume: (unit: PlannedUnit) => Promise<void>,
  ): Promise<string | null> {
    let cursor: string | null = null;
    for await (const unit of units) {
      // Only a further unit proves that there is a next part: a full part ends before the unit that did not fit.
      if (cursor !== null && this.#isFull()) return cursor;
      // The next part has the whole time of a Lambda for this unit. The first unit of this part already had that time.
      if (unit.outOfTime && cursor !== null) return cursor;
      cursor = unit.cursor;
      if (unit.passedOver) continue;
      if (unit.duplicateOf !== undefined) {
        this.#duplicates.duplicates = (this.#duplicates.duplicates ?? 0) + 1;
        this.#duplicates.duplicateOf ??= unit.duplicateOf;
        continue;
      }
      if (unit.unavailable !== undefined) this.#doWithout(unit.unavailable);
      if (unit.failed !== undefined) this.#fail(unit.failed);
      else await consume(unit);
      this.#totals.objects += 1;
    }
    return null;
  }

  /** Records the file as failed; planning continues with the others. */
  #fail({ bucket, key, versionId, etag, error }: FailedFile): void {
    if (this.#failed.length === MAX_FAILED_FILES) throw recordedError(error);
    this.#failed.push({ bucket, key, versionId, etag, error });
  }

  /** @throws the failure, if a retry of the part may read the file, or if too many files have failed */
  #doWithout(failure: RetryableError): void {
    this.#unavailable += 1;
    const isLast = (this.#request.attempt ?? 0) >= LAST_RETRIES_FROM;
    if (!isLast || this.#unavailable > MAX_UNAVAILABLE_FILES) throw failure;
  }

  #isNothing(cursor: string | null): boolean {
    return this.#request.part === 0 && cursor === null && this.#totals.objects === 0;
  }

  #isFull(): boolean {
    // After this many archived files, the next part continues. Their receipts stay small.
    if (this.#failed.length === MAX_FAILED_FILES && this.#failed.every(({ error }) => isOfOneFile(error))) {
      return true;
    }
    const { chunks } = this.#totals;
    const leftMs = this.#deps.remainingMs();
    const isLong = chunks >= MAX_PART_CHUNKS || this.#manifestBytes >= MAX_PART_BYTES;
    if (isLong || leftMs < FINISH_RESERVE_MS) return true;
    // During a dry run, no chunks run.
    if (this.#options.dryRun) return false;
    const { MAX_FUNCTIONS } = this.#deps.environment;
    return isEnoughForPart(this.#request.part, chunks, this.#startedAtMs - leftMs, MAX_FUNCTIONS);
  }

  async #finish(
    outcome: PlanResult['outcome'],
    cursor: string | null,
    more: Partial<PlanReceipt> = {},
  ): Promise<PlanResult> {
    const { part, nextChunk, input } = this.#request;
    const { warnings, ...notices } = this.#notices;
    // Probably a mistake.
    if (this.#isNothing(cursor) && outcome !== 'duplicate')
      warnings.push(`The input matches no capture file and nothing to retry: ${JSON.stringify(input)}`);
    const receipt = await this.#agreed({
      contract: CONTRACT,
      part,
      outcome,
      ...this.#totals,
      scorers: this.#options.replay ? 1 : this.#deps.scorers,
      more: cursor !== null,
      ...(cursor === null ? {} : { cursor }),
      options: this.#options,
      input,
      ...this.#duplicates,
      ...(warnings.length === 0 ? {} : { warnings }),
      ...notices,
      ...(this.#failed.length === 0 ? {} : { failedFiles: this.#failed }),
      ...more,
    });
    const { chunk, manifest: key } = receipt;
    return {
      outcome: receipt.outcome,
      part,
      nextPart: part + 1,
      nextChunk: nextChunk + receipt.chunks,
      options: receipt.options,
      more: receipt.more,
      cursor: receipt.cursor ?? null,
      ...(key === undefined ? {} : { manifest: { bucket: this.#deps.environment.WORK_BUCKET, key } }),
      ...(chunk === undefined ? {} : { chunk }),
    };
  }

  /**
   * Step Functions retries a function if it has lost the connection to it, and the function may still be running. Their
   * plans differ, because a part also ends by time. So the first attempt to end counts for all.
   */
  async #agreed(receipt: PlanReceipt): Promise<PlanReceipt> {
    const { storage, environment } = this.#deps;
    const { WORK_BUCKET: bucket } = environment;
    const key = workKeys.plan(this.#request.run.name, this.#request.part);
    if ((await storage.putJsonIf(bucket, key, receipt)) !== undefined) return receipt;
    const first = await storage.getJson<PlanReceipt>(bucket, key);
    if (first !== undefined) return first;
    const where = `s3://${bucket}/${key}`;
    throw new RetryableError('StorageUnavailable', 'Another attempt is writing the plan of this part', { where });
  }
}
