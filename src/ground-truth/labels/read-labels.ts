/** Reads a label file as a stream: Model Monitor's records, other JSON Lines, or CSV with named columns, each also as gzip. */
import { isUtf8 } from 'node:buffer';
import { type ScannedLine, scanPieces } from '../../captures/lines/scan-lines.ts';
import { charsetOfMark } from '../../captures/payload/charset.ts';
import type { Label, LabelFault } from '../../core/contract/ground-truth.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { gunzipped } from '../gzip.ts';
import { classOrNumber } from '../label-value.ts';
import { type CsvRecord, type CsvRecords, csvRecords, delimiterOf, type TextLine } from './csv-records.ts';
import { type LabelField, type LabelProblem, labelOf, labelOfJson, type Places, placesOf } from './label-record.ts';

const LABEL_FILE = /\.(?<format>jsonl|json|csv)(?<gzip>\.gz)?$/i;
const MAX_LINE_BYTES = 1024 * 1024;
/** Maximum size of a file, before and after decompression. */
const MAX_FILE_BYTES = 4 * 1024 ** 3;
const MARK_BYTES = 2;
/** Columns of a header that are shown. */
const SHOWN_COLUMNS = 20;

/** Whether a key has the extension of a label file. */
export const isLabelFile = (key: string): boolean => LABEL_FILE.test(key);

/**
 * Yields the labels of a file, and a fault for each line (a record, in CSV) that is not a label. Memory is bounded for
 * lines of any length.
 *
 * @param name of the file, with an extension that `isLabelFile` accepts
 * @param timeMs when it was written, epoch milliseconds
 * @throws PermanentError if no line of the file can be used: `NoIdColumn`, `NoLabelColumn`, `NotJsonLines`, `NotUtf8`,
 *   `NotGzip`, `LabelFileTooLarge`; and the errors of `bytes`
 */
export async function* readLabels(
  bytes: AsyncIterable<Uint8Array>,
  { name, timeMs }: { name: string; timeMs: number },
  settings: GroundTruthSettings,
): AsyncGenerator<Label | LabelFault> {
  const { format = '', gzip } = LABEL_FILE.exec(name)?.groups ?? {};
  const plain = asUtf8(atMost(gzip === undefined ? bytes : gunzipped(bytes, name), name));
  const form = (format.toLowerCase() === 'csv' ? csvForm : jsonForm)(name, timeMs, settings);
  let last = 0;
  try {
    for await (const lines of scanPieces(plain, MAX_LINE_BYTES)) {
      for (const scanned of lines) {
        const line = textOf(scanned, last === 0, name);
        last = scanned.line;
        if ('name' in line) yield line;
        else yield* form.read(line);
      }
    }
  } catch (error) {
    // The upload was cut. The lines before the cut are complete.
    if ((error as Error).name !== 'NotGzip' || last === 0) throw error;
    yield { line: last + 1, name: 'CutOff', message: 'the file is not the whole gzip that was written' };
  }
  yield* form.end();
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

/** @throws PermanentError `NotUtf8` for a first line in UTF-16 without a mark, or for bytes that are not text */
function textOf(scanned: ScannedLine, isFirst: boolean, where: string): TextLine | LabelFault {
  const { bytes, line, start, length, end } = scanned;
  const isCut = end === start + length;
  if (isFirst && bytes?.includes(0)) {
    throw new PermanentError('NotUtf8', 'The label file is not text in UTF-8', { where });
  }
  if (bytes === undefined) {
    return { line, name: 'TooLong', message: `it has ${length} bytes; expected: at most ${MAX_LINE_BYTES}` };
  }
  if (isUtf8(bytes)) return { text: bytes.toString(), line, isCut };
  return { line, name: isCut ? 'CutOff' : 'NotUtf8', message: 'it is not text in UTF-8' };
}

/** The fault of the last line may be that the file was cut in it. */
const itemOf = (found: Label | LabelProblem, { line, isCut }: Omit<TextLine, 'text'>): Label | LabelFault =>
  'id' in found ? found : { line, name: isCut ? 'CutOff' : found.name, message: found.message };

// Readers of the lines of a format. `end` yields the rest at the end of the file. Errors name the file.

function jsonForm(where: string, timeMs: number, settings: GroundTruthSettings) {
  let isFirst = true;
  const read = (line: TextLine): [Label | LabelFault] => {
    if (isFirst && line.text.trimStart().startsWith('[')) {
      const facts = { expected: 'a JSON object in each line', where };
      throw new PermanentError('NotJsonLines', 'The label file is a JSON list', facts);
    }
    isFirst = false;
    return [itemOf(labelOfJson(line.text, { line: line.line, timeMs }, settings), line)];
  };
  return { read, end: () => [] };
}

function csvForm(where: string, timeMs: number, settings: GroundTruthSettings) {
  let records: CsvRecords | undefined;
  let places: Places<number> | undefined;
  const items = function* (found: Iterable<CsvRecord> = []): Generator<Label | LabelFault> {
    for (const record of found) {
      const at = places;
      if ('problem' in record) yield itemOf(record.problem, record);
      else if (at === undefined) places = headerOf(record.cells, where);
      else {
        const get = (field: LabelField) => {
          const text = at[field].map((column) => record.cells[column]?.trim()).find((cell) => cell);
          return field === 'value' && text !== undefined ? classOrNumber(text) : text;
        };
        yield itemOf(labelOf(get, { line: record.line, timeMs }, settings), record);
      }
    }
  };
  const read = (line: TextLine) => {
    records ??= csvRecords(delimiterOf(line.text));
    return items(records.add(line));
  };
  return { read, end: () => items(records?.end()) };
}

/** @throws PermanentError `NoIdColumn`, `NoLabelColumn` */
function headerOf(cells: readonly string[], where: string): Places<number> {
  const places = placesOf(cells.map((cell, column) => [cell, column] as const));
  const got = `columns ${cells.slice(0, SHOWN_COLUMNS).join(', ')}`;
  const without = (name: 'NoIdColumn' | 'NoLabelColumn', what: string, expected: string) =>
    new PermanentError(name, `No column of the label file is named as ${what}`, { got, expected, where });
  const names = 'a first line with the names of the columns, one of them id, inference_id or event_id';
  if (places.id.length === 0) throw without('NoIdColumn', 'an id', names);
  if (places.value.length === 0) throw without('NoLabelColumn', 'a label', 'a column named label or ground_truth');
  return places;
}
