/** Writes the predictions of a chunk to the index, in a compressed file for each hour. */
import { createHash } from 'node:crypto';
import { gunzipSync, gzipSync } from 'node:zlib';
import { capturePathOf, HOUR_MS } from '../../captures/files/capture-path.ts';
import type { Capture, CaptureFormat, LinePlace } from '../../captures/types.ts';
import type { Storage } from '../../core/aws/storage.ts';
import type { PredictionRow } from '../../core/contract/ground-truth.ts';
import type { QualityCell } from '../../core/contract/quality.ts';
import { truthKeys } from '../../core/contract/work-keys.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { logger } from '../../core/process/logging.ts';
import { ownFault } from '../../core/process/own-fault.ts';
import { timeOf, withinTime } from '../../core/process/within-time.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { addCell, nameOf, numberCounts } from '../../quality/cell.ts';
import { hourOf } from '../../quality/tally.ts';
import { predictedNumber } from '../label-value.ts';
import { type MaskSettings, maskedPrediction } from '../masked.ts';
import { predictionRows } from './predictions.ts';

/** A file consists of gzip members, each of so much text. Characters. */
const MEMBER_CHARS = 256 * 1024;
const DIGEST_CHARS = 16;
/** Two thirds of the time of zlib's default, for hardly more bytes. */
const LEVEL = 3;

/** Predictions of an hour on their way into a file of the index. They are compressed as they come. */
export class HourFile {
  readonly #members: Buffer[] = [];
  readonly #hash = createHash('sha256');
  #open = '';

  add(row: PredictionRow): void {
    // Readers look for the id at the beginning of the line.
    const { id, ...rest } = row;
    this.#open += `${JSON.stringify({ id, ...rest })}\n`;
    if (this.#open.length >= MEMBER_CHARS) this.#close();
  }

  #close(): void {
    this.#hash.update(this.#open);
    this.#members.push(gzipSync(this.#open, { level: LEVEL }));
    this.#open = '';
  }

  /** Ends the file. @returns its bytes and the digest of its content; `undefined` without rows */
  end(): { body: Buffer; digest: string } | undefined {
    if (this.#open !== '') this.#close();
    if (this.#members.length === 0) return undefined;
    return { body: Buffer.concat(this.#members), digest: this.#hash.digest('hex').slice(0, DIGEST_CHARS) };
  }

  /** Returns a file without the rows of these traces. */
  without(traces: { has(traceId: string): boolean }): HourFile {
    if (this.#open !== '') this.#close();
    const left = new HourFile();
    for (const member of this.#members) {
      for (const line of gunzipSync(member).toString().split('\n')) {
        const row = line === '' ? undefined : (JSON.parse(line) as PredictionRow);
        if (row !== undefined && !traces.has(row.traceId)) left.add(row);
      }
    }
    return left;
  }
}

/** The formats of tabular endpoints. */
const WITHOUT_TEXT: ReadonlySet<CaptureFormat> = new Set(['tabular-csv', 'tabular-json', 'jsonlines', 'json']);

/** Counts each prediction by its name, and those that write a number as well: all rows of a column together say what they are. */
function predictionCounts(rows: readonly PredictionRow[], { kind }: GroundTruthSettings): QualityCell['predictions'] {
  const cell: QualityCell = {};
  for (const { prediction } of rows) {
    const { scores = [], classes } = prediction;
    const likeliest = scores.indexOf(Math.max(...scores));
    const value = prediction.value ?? (scores.length > 0 ? (classes?.[likeliest] ?? String(likeliest)) : undefined);
    if (value === undefined) continue;
    const number = kind === 'classes' ? undefined : predictedNumber(value);
    const numbers = number === undefined ? {} : { numbers: numberCounts(number) };
    addCell(cell, { predictions: { ...numbers, classes: { [nameOf(String(value))]: 1 } } });
  }
  return cell.predictions;
}

type IndexSettings = MaskSettings & Pick<LambdaEnvironment, 'SAGEMAKER_ENDPOINT_NAME'>;

/** A capture may name any time. Those of further hours are kept in the hour of their file. */
const MAX_HOURS = 24;
const WRITES_AT_ONCE = 8;

/**
 * Add every capture of the chunk that is to have a trace, in the order of the lines: another attempt then writes the same files
 * again, and nothing is there twice. Memory is that of the compressed rows, some 60 bytes each.
 */
export class PredictionIndex {
  readonly #environment: IndexSettings;
  /** By hours since 1970. */
  readonly #hours = new Map<number, HourFile>();

  constructor(environment: IndexSettings) {
    this.#environment = environment;
  }

  /**
   * Adds what a label could be compared with. A capture that this fails for has a trace nevertheless.
   *
   * @returns the predictions of a capture without text, as the counts have them
   */
  add(capture: Capture, traceId: string, place: LinePlace): QualityCell['predictions'] | undefined {
    const { GROUND_TRUTH: settings, SAGEMAKER_ENDPOINT_NAME: endpointName } = this.#environment;
    const isCounted = WITHOUT_TEXT.has(capture.format);
    if (settings.days === 0 && (!isCounted || capture.isApart)) return undefined;
    const rowsOf = () =>
      predictionRows(capture, traceId, { key: place.key, endpointName }, settings).map((row) =>
        maskedPrediction(row, this.#environment),
      );
    try {
      const rows = withinTime(timeOf(capture), rowsOf);
      const file = rows.length === 0 || settings.days === 0 ? undefined : this.#fileOf(capture, place);
      for (const row of rows) file?.add(row);
      return isCounted ? predictionCounts(rows, settings) : undefined;
    } catch (error) {
      const fault = ownFault(error);
      if (fault === undefined) throw error;
      logger.warn('A prediction could not be read, and no label will find it', { traceId, fault });
      return undefined;
    }
  }

  #fileOf(capture: Capture, place: LinePlace): HourFile {
    const own = Math.floor(capture.inferenceTimeMs / HOUR_MS);
    const hasRoom = this.#hours.has(own) || this.#hours.size < MAX_HOURS;
    const hour = hasRoom ? own : Math.floor((capturePathOf(place.key).hourMs ?? place.objectTimeMs) / HOUR_MS);
    const file = this.#hours.get(hour) ?? new HourFile();
    this.#hours.set(hour, file);
    return file;
  }

  /**
   * Writes a file for each hour.
   *
   * @param refused traces that were not written after all
   * @throws the errors of the storage
   */
  async write(
    storage: Storage,
    bucket: string,
    refused: { size: number; has(traceId: string): boolean } = new Set<string>(),
  ): Promise<void> {
    await forEachConcurrently(WRITES_AT_ONCE, this.#hours, async ([hour, all]) => {
      const file = (refused.size > 0 ? all.without(refused) : all).end();
      if (file === undefined) return;
      const key = truthKeys.chunkIndex(hourOf(hour * HOUR_MS), file.digest);
      await storage.putBytes(bucket, key, { body: file.body, type: 'application/gzip' });
    });
  }
}
