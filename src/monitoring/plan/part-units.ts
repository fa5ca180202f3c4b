/** Finds the units of a part of a run, and gives each its chances to be judged. */
import { backfillObjects, fileOf } from '../../captures/files/capture-objects.ts';
import type { ObjectFacts } from '../../core/aws/storage.ts';
import type { BackfillInput, RunOptions } from '../../core/contract/input.ts';
import type { PlanRequest } from '../../core/contract/payloads.ts';
import { areaOf } from '../../core/contract/work-keys.ts';
import { inOrder } from '../../core/process/concurrency.ts';
import { captureScope } from '../../judge/capture-scope.ts';
import { fileFinder, listedFiles } from './find-files.ts';
import { isOwnNumber, type ParsedInput } from './input.ts';
import { FINISH_RESERVE_MS } from './part-bounds.ts';
import { unitsOfRetry } from './retry-source.ts';
import type { PlannerDependencies } from './types.ts';
import { OBJECTS_AT_ONCE, type PlannedUnit, unitsOfFiles, unitsOfObjects } from './units.ts';

export class PartUnits {
  readonly #parsed: ParsedInput;
  readonly request: PlanRequest;
  readonly deps: PlannerDependencies;
  readonly options: RunOptions;
  /** The run judges a number of captures of its own. */
  readonly isOwn: boolean;

  constructor(parsed: ParsedInput, request: PlanRequest, deps: PlannerDependencies, options: RunOptions) {
    this.#parsed = parsed;
    this.request = request;
    this.deps = deps;
    this.options = options;
    this.isOwn = isOwnNumber(parsed.kind, options);
  }

  /** Finds the units after the cursor. @param warnings receives warnings for a person */
  async find(warnings: string[]): Promise<AsyncIterable<PlannedUnit>> {
    const { evaluate, sampleRate, dryRun } = this.options;
    const units = await this.#units(warnings);
    if (!evaluate || sampleRate !== undefined) return units;
    const how = this.isOwn ? 'keep' : dryRun ? 'look' : 'decide';
    // Each decision counts for the next one.
    return inOrder(this.isOwn ? OBJECTS_AT_ONCE : 1, units, async (unit) => {
      // Ranges of a retried chunk have their chances.
      await this.deps.chances.give(unit.ranges, how);
      return unit;
    });
  }

  async #units(warnings: string[]): Promise<AsyncIterable<PlannedUnit>> {
    const { storage, environment } = this.deps;
    const { WORK_BUCKET: workBucket } = environment;
    const [parsed, options] = [this.#parsed, this.options];
    const cursor = this.request.cursor || undefined;
    const remainingMs = () => this.deps.remainingMs() - FINISH_RESERVE_MS;
    if (parsed.kind === 'replay') {
      const exchanges = { bucket: workBucket, prefix: areaOf('replayExchanges', options.replay?.run ?? '') };
      const objects = backfillObjects(storage, exchanges, exchanges, undefined, cursor);
      return unitsOfObjects(storage, objects, remainingMs);
    }
    if (parsed.kind === 'backfill') return unitsOfObjects(storage, this.#objects(parsed.input, cursor), remainingMs);
    if (parsed.kind === 'retry')
      return unitsOfRetry({ storage, workBucket }, parsed.input, options, cursor, remainingMs);
    const find = fileFinder(this.deps, this.request.run, options, warnings);
    const files = parsed.kind === 'files' ? await listedFiles(parsed.input, this.deps) : [fileOf(parsed.input)];
    return unitsOfFiles(storage, files, Number(cursor ?? 0), remainingMs, find);
  }

  #objects(input: BackfillInput, after: string | undefined): AsyncGenerator<ObjectFacts> {
    const { storage, environment } = this.deps;
    return backfillObjects(storage, captureScope(environment), input, this.options.window, after);
  }

  /**
   * Returns the options with the chance that a number of the run's own gives all captures. The first part decides.
   *
   * @param found in this part
   * @param cursor of the next part; `null` if there is none
   */
  async withChance(found: { lines: number; bytes: number }, cursor: string | null): Promise<RunOptions> {
    const options = this.options;
    if (!this.isOwn || options.chance !== undefined) return options;
    const lines = found.lines * (await this.#partsLike(found.bytes, cursor));
    return { ...options, chance: await this.deps.chances.ofRun(options, found, lines) };
  }

  /** Returns how many parts like this one the run has: by the bytes, or else by the number, of the files that follow. */
  async #partsLike(bytes: number, cursor: string | null): Promise<number> {
    const parsed = this.#parsed;
    if (cursor === null) return 1;
    if (parsed.kind === 'files') return (await listedFiles(parsed.input, this.deps)).length / Number(cursor);
    if (parsed.kind !== 'backfill') return 1;
    let rest = 0;
    for await (const { size } of this.#objects(parsed.input, cursor)) rest += size;
    return 1 + rest / Math.max(1, bytes);
  }
}
