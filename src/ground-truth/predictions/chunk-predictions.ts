/** The predictions of a chunk, until the outcomes of its lines are known. */

import { gunzipSync, gzipSync } from 'node:zlib';
import type { Capture, CaptureFormat, LinePlace } from '../../captures/types.ts';
import type { Work } from '../../core/aws/storage.ts';
import type { PredictionRow } from '../../core/contract/ground-truth.ts';
import { logger } from '../../core/process/logging.ts';
import { ownFault } from '../../core/process/own-fault.ts';
import { timeOf, withinTime } from '../../core/process/within-time.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { appendRows } from '../../ledger/files.ts';
import { isTraced } from '../../ledger/precedence.ts';
import { type EventColumns, eventIn, type Row } from '../../ledger/tables.ts';
import { predictedName } from '../../quality/fold.ts';
import { type MaskSettings, maskedPrediction } from '../masked.ts';
import { type PredictionRows, rowsOfPrediction } from './ledger-rows.ts';
import { predictionRows } from './predictions.ts';

/** Characters that are compressed together. */
const MEMBER_CHARS = 256 * 1024;
/** Two thirds of the time of zlib's default, for hardly more bytes. */
const LEVEL = 3;
/** Predictions that are in memory as rows at a time, and in a file. */
const PART_ROWS = 20_000;

/** The formats of tabular endpoints. */
const WITHOUT_TEXT: ReadonlySet<CaptureFormat> = new Set(['tabular-csv', 'tabular-json', 'jsonlines', 'json']);

type PredictionSettings = MaskSettings & Pick<LambdaEnvironment, 'SAGEMAKER_ENDPOINT_NAME'>;

interface Kept {
  traceId: string;
  rows: PredictionRows;
}

/** Whether it is a class or a number instead of a text. */
const hasName = ({ prediction: { value, scores } }: PredictionRow): boolean => (value ?? scores) !== undefined;

/** Predictions are compressed as they come, to some 60 bytes each. */
export class ChunkPredictions {
  readonly #settings: PredictionSettings;
  readonly #members: Buffer[] = [];
  #open = '';

  constructor(settings: PredictionSettings) {
    this.#settings = settings;
  }

  /**
   * Adds the predictions that a label could be compared with, and those that are counted. If this fails for a capture,
   * its trace is written anyway.
   *
   * @returns the number of counted predictions, if the capture is a table with predictions
   */
  add(capture: Capture, traceId: string, place: LinePlace): number | undefined {
    const { GROUND_TRUTH: settings, SAGEMAKER_ENDPOINT_NAME: endpointName } = this.#settings;
    const { days } = settings;
    const isCounted = WITHOUT_TEXT.has(capture.format);
    if (days === 0 && (!isCounted || capture.isApart)) return undefined;
    const rowsOf = () =>
      predictionRows(capture, traceId, { key: place.key, endpointName }, settings).map((row) =>
        maskedPrediction(row, this.#settings),
      );
    try {
      const rows = withinTime(timeOf(capture), rowsOf);
      const named = rows.filter(hasName);
      for (const row of days === 0 ? named : rows)
        this.#keep({ traceId, rows: rowsOfPrediction(row, days, isCounted) });
      return isCounted && named.length > 0 ? named.length : undefined;
    } catch (error) {
      const fault = ownFault(error);
      if (fault === undefined) throw error;
      logger.warn('A prediction could not be read, and no label will find it', { traceId, fault });
      return undefined;
    }
  }

  #keep(kept: Kept): void {
    this.#open += `${JSON.stringify(kept)}\n`;
    if (this.#open.length >= MEMBER_CHARS) this.#close();
  }

  #close(): void {
    if (this.#open !== '') this.#members.push(gzipSync(this.#open, { level: LEVEL }));
    this.#open = '';
  }

  /** Yields the rows of each prediction with the run's work on its trace. Leaves out predictions of lines without a trace. */
  *#all(captures: readonly Row<'captures'>[]): Generator<PredictionRows & { event: EventColumns }> {
    const traced = captures.filter(isTraced);
    const events = new Map(traced.map((row) => [row.traceId, eventIn(row)]));
    this.#close();
    for (const member of this.#members) {
      for (const line of gunzipSync(member).toString().trimEnd().split('\n')) {
        const { traceId, rows } = JSON.parse(line) as Kept;
        const event = events.get(traceId);
        if (event !== undefined) yield { ...rows, event };
      }
    }
  }

  /** Returns the counted predictions as rows of the table `inferences`. @param captures rows of this chunk */
  counted(captures: readonly Row<'captures'>[]): Row<'inferences'>[] {
    const counted: Row<'inferences'>[] = [];
    for (const { inferences: row, event } of this.#all(captures)) {
      const { index, number, isCounted } = row;
      const { traceId, precedence } = event;
      if (isCounted) counted.push({ traceId, precedence, index, number, isCounted, value: predictedName(row) });
    }
    return counted;
  }

  /** Writes the rows of both tables. @param captures rows of this chunk @throws the errors of the storage */
  async write(work: Work, captures: readonly Row<'captures'>[]): Promise<void> {
    const inferences: Row<'inferences'>[] = [];
    const ids: Row<'ids/inferences'>[] = [];
    const append = (): Promise<void> =>
      appendRows(work, { inferences: inferences.splice(0), 'ids/inferences': ids.splice(0) });
    for (const { inferences: inference, 'ids/inferences': id, event } of this.#all(captures)) {
      inferences.push({ ...event, ...inference });
      if (id !== undefined) ids.push({ ...event, ...id });
      if (inferences.length === PART_ROWS) await append();
    }
    await append();
  }
}
