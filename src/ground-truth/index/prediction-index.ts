/** The predictions of a part of a chunk, for the index. */
import type { PredictionRow } from '../../contract/ground-truth.ts';
import { truthKeys } from '../../contract/work-keys.ts';
import { capturePathOf } from '../../formats/files/capture-path.ts';
import type { Capture, LinePlace } from '../../formats/types.ts';
import { hourOf } from '../../quality/tally.ts';
import type { LambdaEnvironment } from '../../settings/environment.ts';
import { forEachConcurrently } from '../../shared/concurrency.ts';
import type { Storage } from '../../shared/storage.ts';
import { isOutOfTime, timeOf, withinTime } from '../../shared/within-time.ts';
import { BlockPile } from './block-pile.ts';
import { putIndex, readIndex } from './index-store.ts';
import { predictionRows } from './predictions.ts';

/** A capture may claim any time. Those of further hours are kept in the hour of their file. */
const MAX_HOURS = 24;
/** Smaller captures cannot take long, and to watch the time would cost more than the work. */
const WATCHED_BYTES = 64 * 1024;
const WRITES_AT_ONCE = 8;

/**
 * Add every capture of the part that is to have a trace, in the order of the lines: another attempt then writes the same objects
 * again, and nothing is there twice. Memory is that of the compressed rows, some 45 bytes each.
 */
export class PredictionIndex {
  readonly #environment: Pick<LambdaEnvironment, 'GROUND_TRUTH' | 'SAGEMAKER_ENDPOINT_NAME'>;
  readonly #hours = new Map<string, BlockPile>();

  constructor(environment: Pick<LambdaEnvironment, 'GROUND_TRUTH' | 'SAGEMAKER_ENDPOINT_NAME'>) {
    this.#environment = environment;
  }

  add(capture: Capture, traceId: string, place: LinePlace): void {
    const { GROUND_TRUTH: settings, SAGEMAKER_ENDPOINT_NAME: endpointName } = this.#environment;
    if (settings.days === 0) return;
    const rows = () => predictionRows(capture, traceId, { key: place.key, endpointName }, settings);
    const bytes = (capture.request?.bytes ?? 0) + (capture.response?.bytes ?? 0);
    const found = bytes < WATCHED_BYTES ? rows() : rowsInTime(capture, rows);
    if (found.length === 0) return;
    const pile = this.#pileOf(capture, place);
    for (const row of found) pile.add(row);
  }

  #pileOf(capture: Capture, place: LinePlace): BlockPile {
    const { hourMs = place.objectTimeMs } = capturePathOf(place.key);
    const claimed = hourOf(capture.inferenceTimeMs);
    const hour = this.#hours.has(claimed) || this.#hours.size < MAX_HOURS ? claimed : hourOf(hourMs);
    const pile = this.#hours.get(hour) ?? new BlockPile();
    this.#hours.set(hour, pile);
    return pile;
  }

  /**
   * Writes an object for each hour.
   *
   * @param refused traces that were not written after all
   * @throws the errors of the storage
   */
  async write(
    storage: Storage,
    bucket: string,
    refused: { size: number; has(traceId: string): boolean } = new Set<string>(),
  ): Promise<void> {
    await forEachConcurrently(WRITES_AT_ONCE, this.#hours, async ([hour, pile]) => {
      const whole = pile.end();
      const content = whole && refused.size > 0 ? await without(whole.body, refused) : whole;
      if (content !== undefined)
        await putIndex(storage, bucket, truthKeys.newIndex(hour, content.digest), content.body);
    });
  }
}

/** A capture that would take too long has no rows. */
function rowsInTime(capture: Capture, rows: () => PredictionRow[]): PredictionRow[] {
  try {
    return withinTime(timeOf(capture), rows);
  } catch (error) {
    if (isOutOfTime(error)) return [];
    throw error;
  }
}

async function without(
  body: Buffer,
  refused: { has(traceId: string): boolean },
): Promise<ReturnType<BlockPile['end']>> {
  const pile = new BlockPile();
  for await (const { ids, rowAt } of readIndex(body, 'the index')) {
    for (const index of ids.keys()) {
      const row = rowAt(index);
      if (!refused.has(row.traceId)) pile.add(row);
    }
  }
  return pile.end();
}
