/** Reads a label file as a stream: Model Monitor's records, other JSON Lines, or CSV with named columns, each also as gzip. */
import { isUtf8 } from 'node:buffer';
import type { Label, LabelFault } from '../../contract/ground-truth.ts';
import { type ScannedLine, scanPieces } from '../../formats/lines/scan-lines.ts';
import { charsetOfMark } from '../../formats/payload/charset.ts';
import { cellOf } from '../../formats/payload/csv.ts';
import type { GroundTruthSettings } from '../../settings/ground-truth-setting.ts';
import { PermanentError } from '../../shared/errors.ts';
import { gunzipped } from '../../shared/gzip.ts';
import { type CsvRecord, CsvRecords, delimiterOf, type TextLine } from './csv-records.ts';
import { type LabelField, type LabelProblem, labelOf, labelOfJson, type Places, placesOf } from './label-record.ts';

const LABEL_FILE = /\.(?<format>jsonl|json|csv)(?<gzip>\.gz)?$/i;
const MAX_LINE_BYTES = 1024 * 1024;
/** Also of what gzip contains. */
const MAX_FILE_BYTES = 4 * 1024 ** 3;
const MARK_BYTES = 2;
/** Columns of a header that are shown. */
const SHOWN_COLUMNS = 20;

/** Whether a key is that of a label file, by how it ends. */
export const isLabelFile = (key: string): boolean => LABEL_FILE.test(key);

/**
 * Yields the labels of a file, and a fault for each line (a record, in CSV) that is none. Memory is bounded, whatever a line's length.
 *
 * @param file its name ends as `isLabelFile` wants it; `timeMs`: when it was written, epoch milliseconds
 * @throws PermanentError if nothing of the file can be used: `NoIdColumn`, `NoLabelColumn`, `NotJsonLines`, `NotUtf8`, `NotGzip`,
 *   `LabelFileTooLarge`; and what `bytes` throws
 */
export async function* readLabels(
  bytes: AsyncIterable<Uint8Array>,
  { name, timeMs }: { name: string; timeMs: number },
  settings: GroundTruthSettings,
): AsyncGenerator<Label | LabelFault> {
  const { format = '', gzip } = LABEL_FILE.exec(name)?.groups ?? {};
  const plain = asUtf8(atMost(gzip === undefined ? bytes : gunzipped(bytes, name), name));
  const reader = format.toLowerCase() === 'csv' ? new CsvReader(name, settings) : new JsonReader(name, settings);
  let last = 0;
  try {
    for await (const lines of scanPieces(plain, MAX_LINE_BYTES)) {
      for (const scanned of lines) {
        last = scanned.line;
        yield* reader.read(scanned, timeMs);
      }
    }
  } catch (error) {
    // An upload that was cut: what came before is whole.
    if ((error as Error).name !== 'NotGzip' || last === 0) throw error;
    yield { line: last + 1, name: 'CutOff', message: 'the file is not the whole gzip that was written' };
  }
  yield* reader.end(timeMs);
}

async function* atMost(bytes: AsyncIterable<Uint8Array>, where: string): AsyncGenerator<Uint8Array> {
  let read = 0;
  for await (const piece of bytes) {
    read += piece.length;
    if (read > MAX_FILE_BYTES) {
      const expected = `at most ${MAX_FILE_BYTES / 1024 ** 3} GiB, decompressed`;
      throw new PermanentError('LabelFileTooLarge', 'The label file is too large; split it', { expected, where });
    }
    yield piece;
  }
}

/** Passes UTF-8 through, and converts UTF-16 with a byte order mark. */
async function* asUtf8(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head: Uint8Array | undefined = new Uint8Array();
  let decoder: InstanceType<typeof TextDecoder> | undefined;
  for await (const piece of bytes) {
    let next = piece;
    if (head !== undefined) {
      next = Buffer.concat([head, piece]);
      head = next;
      if (next.length < MARK_BYTES) continue;
      head = undefined;
      const charset = charsetOfMark(next);
      if (charset !== undefined) decoder = new TextDecoder(charset);
    }
    yield decoder === undefined ? next : Buffer.from(decoder.decode(next, { stream: true }));
  }
  if (head !== undefined) yield head;
  if (decoder !== undefined) yield Buffer.from(decoder.decode());
}

type Item = Label | LabelFault;

abstract class LineReader {
  readonly where: string;
  readonly settings: GroundTruthSettings;
  #isFirst = true;

  constructor(where: string, settings: GroundTruthSettings) {
    this.where = where;
    this.settings = settings;
  }

  *read({ bytes, line, start, length, end }: ScannedLine, timeMs: number): Generator<Item> {
    const isFirst = this.#isFirst;
    this.#isFirst = false;
    // UTF-16 without a mark, or no text at all.
    if (isFirst && bytes?.includes(0)) {
      throw new PermanentError('NotUtf8', 'The label file is not text in UTF-8', { where: this.where });
    }
    const isCut = end === start + length;
    if (bytes === undefined) {
      yield { line, name: 'TooLong', message: `it has ${length} bytes; expected: at most ${MAX_LINE_BYTES}` };
    } else if (!isUtf8(bytes)) {
      yield { line, name: isCut ? 'CutOff' : 'NotUtf8', message: 'it is not text in UTF-8' };
    } else yield* this.readText({ text: bytes.toString(), line, isCut }, timeMs, isFirst);
  }

  protected abstract readText(line: TextLine, timeMs: number, isFirst: boolean): Generator<Item>;
  abstract end(timeMs: number): Generator<Item>;

  protected item(found: Label | LabelProblem, { line, isCut }: Omit<TextLine, 'text'>): Item {
    if ('id' in found) return found;
    return { line, name: isCut ? 'CutOff' : found.name, message: found.message };
  }
}

class JsonReader extends LineReader {
  *readText(line: TextLine, timeMs: number, isFirst: boolean): Generator<Item> {
    if (isFirst && line.text.trimStart().startsWith('[')) {
      const facts = { expected: 'a JSON object in each line', where: this.where };
      throw new PermanentError('NotJsonLines', 'The label file is a JSON list', facts);
    }
    yield this.item(labelOfJson(line.text, { line: line.line, timeMs }, this.settings), line);
  }

  *end(): Generator<Item> {}
}

class CsvReader extends LineReader {
  #records: CsvRecords | undefined;
  #places: Places<number> | undefined;

  *readText(line: TextLine, timeMs: number): Generator<Item> {
    this.#records ??= new CsvRecords(delimiterOf(line.text));
    yield* this.#items(this.#records.add(line), timeMs);
  }

  *end(timeMs: number): Generator<Item> {
    if (this.#records !== undefined) yield* this.#items(this.#records.end(), timeMs);
  }

  *#items(records: Iterable<CsvRecord>, timeMs: number): Generator<Item> {
    for (const record of records) {
      if ('problem' in record) yield this.item(record.problem, record);
      else if (this.#places === undefined) this.#places = this.#header(record.cells);
      else {
        const { cells, line } = record;
        const places = this.#places;
        const get = (field: LabelField) => {
          const text = places[field].map((column) => cells[column]?.trim()).find((cell) => cell);
          return field === 'value' && text !== undefined ? cellOf(text) : text;
        };
        yield this.item(labelOf(get, { line, timeMs }, this.settings), record);
      }
    }
  }

  #header(cells: readonly string[]): Places<number> {
    const places = placesOf(cells.map((cell, column) => [cell, column] as const));
    const facts = { got: `columns ${cells.slice(0, SHOWN_COLUMNS).join(', ')}`, where: this.where };
    if (places.id.length === 0) {
      const expected = 'a first line with the names of the columns, one of them id, inference_id or event_id';
      throw new PermanentError('NoIdColumn', 'No column of the label file is named as an id', { ...facts, expected });
    }
    if (places.value.length === 0) {
      const expected = 'a column named label or ground_truth';
      throw new PermanentError('NoLabelColumn', 'No column of the label file is named as a label', {
        ...facts,
        expected,
      });
    }
    return places;
  }
}
