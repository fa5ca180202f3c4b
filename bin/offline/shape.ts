/**
 * Describes the captures of an endpoint as sentences with counts, and settings that confirm them. Captured values are
 * not shown.
 */

import { failureOf } from '../../src/captures/failure.ts';
import { Masker } from '../../src/captures/redact/mask.ts';
import { redacted } from '../../src/captures/redact.ts';
import type { Capture } from '../../src/captures/types.ts';
import { REDACT_KINDS, redactRules } from '../../src/core/settings/redact-setting.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { excerpt } from '../../src/core/text/terminal-text.ts';
import { predictionOf } from '../../src/ground-truth/predictions/reply-values.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { applicability } from '../../src/judge/scorers/applicability.ts';
import { isJudgeScorer } from '../../src/judge/scorers/scorer-set.ts';
import type { CommandSettings as Settings } from '../cli/settings.ts';

/**
 * Maximum number of captures to examine, and of their bytes: further captures have the same form, and hostile captures
 * take seconds a megabyte.
 */
const MAX_SHAPED = 1_000;
const MAX_BYTES = 32e6;
/** Tables that begin with the same row before it may be a header. */
const MIN_TABLES = 5;
/** Maximum number of names in a list. */
const MAX_SAID = 10;
/** Names of fields are written by callers: how many of a capture count, and their length. */
const MAX_FIELDS = 100;
const MAX_NAME_CHARS = 40;

/** A sentence about captures. `setting`: confirms it, in the format of `.env`. */
interface ShapeFact {
  about: 'formats' | 'header' | 'columns' | 'truth' | 'errors' | 'unjudged' | 'personalData';
  captures: number;
  says: string;
  setting?: string | undefined;
}

const list = (): string[] => [];

/** Collects the sentences of captures, one by one. Beyond 1,000 captures, or 32 MB, further captures are ignored. */
export function shapeTally(settings: Settings) {
  const judges = activeScorers(settings).filter(isJudgeScorer);
  const [formats, requests, replies, rows] = [list(), list(), list(), list()];
  const [truths, errors, unjudged] = [list(), list(), list()];
  const personal = personalTally(settings);
  let [bytes, ids] = [0, 0];
  const add = (capture: Capture): void => {
    if (formats.length >= MAX_SHAPED || bytes > MAX_BYTES) return;
    bytes += (capture.request?.bytes ?? 0) + (capture.response?.bytes ?? 0);
    const { request, response, inferences: [first] = [], format, wireFormat } = capture;
    const reply = response?.kind ?? 'no reply';
    const form = wireFormat === undefined ? '' : `${wireFormat}, `;
    formats.push(`${format} (${form}${request?.kind ?? 'no request'} to ${reply})`);
    if (request?.kind === 'csv') requests.push(headOf(request.value as unknown[][]));
    if (response?.kind === 'csv') replies.push(headOf(response.value as unknown[][]));
    if (first?.features !== undefined) rows.push(columnsOf(Object.keys(first.features)));
    if (first?.prediction !== undefined) truths.push(kindOf(capture, first.prediction, settings));
    if (capture.capturedInferenceId !== undefined) ids += 1;
    const failure = failureOf(capture);
    if (failure) errors.push(`${failure.statusCode ?? 'no status'} as ${reply}`);
    else if (!judges.some((scorer) => 'judge' in applicability(capture, scorer))) unjudged.push(format);
    personal.add(capture);
  };
  const facts = (): ShapeFact[] => [
    { about: 'formats', captures: formats.length, says: `Requests and replies: ${said(formats)}.` },
    ...headerFacts('requests', requests, settings),
    ...headerFacts('replies', replies, settings),
    columnFact(rows),
    truthFact(formats.length, ids, truths, settings),
    { about: 'errors', captures: errors.length, says: `Error replies, which are not judged: ${said(errors)}.` },
    { about: 'unjudged', captures: unjudged.length, says: `Other captures that no judge reads: ${said(unjudged)}.` },
    personal.fact(),
  ];
  return { add, report: () => ({ captures: formats.length, facts: formats.length === 0 ? [] : facts() }) };
}

/** Counts names. @returns the most frequent names, and the number of others */
function said(names: readonly string[]): string {
  const counts = [...Map.groupBy(names, (name) => name)].sort(([, a], [, b]) => b.length - a.length);
  const shown = counts.slice(0, MAX_SAID).map(([name, { length }]) => `${whole(length)} × ${name}`);
  return [...shown, ...(counts.length > MAX_SAID ? [`${counts.length - MAX_SAID} others`] : [])].join(', ') || 'none';
}

/** Returns a name for display: short, on one line, and masked if it is personal data itself. */
const saidName = (name: string): string => excerpt(new Masker(EVERYTHING).text(name), MAX_NAME_CHARS);

/** Returns the first row of a table if it has words and does not occur again. Returns an empty text otherwise. */
function headOf(rows: readonly unknown[][]): string {
  const [first = '', ...others] = rows.map((row) => JSON.stringify(row));
  return /"[^"]*\p{L}/u.test(first) && others.length > 0 && !others.includes(first) ? first : '';
}

function headerFacts(side: string, heads: readonly string[], { CSV_HEADER }: Settings): ShapeFact[] {
  if (heads.length < MIN_TABLES) return [];
  const isHeader = heads[0] !== '' && new Set(heads).size === 1;
  const all = `Of ${whole(heads.length)} CSV ${side}, ${isHeader ? 'all' : 'not all'} begin with one row that stands nowhere else in them`;
  const leftOut = CSV_HEADER ? ', which CSV_HEADER leaves out' : '';
  const says = `${all}: ${isHeader ? `a header${leftOut}` : 'they have no header'}.`;
  const isOdd = isHeader ? !CSV_HEADER : CSV_HEADER && side === 'requests';
  return [{ about: 'header', captures: heads.length, says, setting: isOdd ? `CSV_HEADER=${isHeader}` : undefined }];
}

function columnsOf(names: readonly string[]): string {
  const isNumbered = names.every((name, at) => name === String(at));
  return `${many(names.length, 'column')}${isNumbered ? '' : ` (${names.slice(0, MAX_SAID).map(saidName).join(', ')})`}`;
}

function columnFact(rows: readonly string[]): ShapeFact {
  const [bare = '', ...others] = new Set(rows.filter((columns) => !columns.includes('(')));
  const setting = bare && others.length === 0 ? `FEATURE_NAMES to a JSON list of the names of ${bare}` : undefined;
  return { about: 'columns', captures: rows.length, says: `Rows of requests: ${said(rows)}.`, setting };
}

function kindOf({ unclear }: Capture, prediction: unknown, { GROUND_TRUTH }: Settings): string {
  const { value, text } = predictionOf(prediction, GROUND_TRUTH) ?? {};
  if (unclear || (value ?? text) === undefined) return 'none that is kept';
  if (value === undefined || !Number.isFinite(Number(value))) return value === undefined ? 'texts' : 'classes';
  return Number.isInteger(Number(value)) ? 'whole numbers' : 'numbers';
}

function truthFact(captures: number, ids: number, truths: readonly string[], { GROUND_TRUTH }: Settings): ShapeFact {
  const kept = GROUND_TRUTH.days === 0 ? ', which GROUND_TRUTH does not keep' : '';
  const says = `Labels join ${many(ids, 'capture')} by inferenceId and ${whole(captures - ids)} by eventId. Predictions: ${said(truths)}${kept}.`;
  const [only = '', ...others] = new Set(truths);
  const isKind = kept === '' && !GROUND_TRUTH.kind && others.length === 0 && /^(?:classes|numbers|texts)$/.test(only);
  return { about: 'truth', captures, says, setting: isKind ? `GROUND_TRUTH='{"kind":"${only}"}'` : undefined };
}

// ----------------------------------------------------------------------------------------------- personal data

/** A name that REDACT can have. One with a pseudonym was personal data itself. */
const NAME = /^[\p{L}\p{N}_.#-]{1,40}$/u;
const EVERYTHING = { ...redactRules(REDACT_KINDS.join(',')), allow: [], content: 'all' as const };

/** Counts captures by kind of personal data, and by the field that contains it: the data that masking would change. */
function personalTally({ CSV_HEADER: csvHeader, FEATURE_NAMES: featureNames, REDACT, redaction }: Settings) {
  const [kinds, fields] = [list(), list()];
  /** Whether the texts of a field contain only personal data. */
  const alone = new Map<string, boolean>();
  let found = 0;
  const add = ({ request, response, attributes }: Capture): void => {
    const facts = { inferenceTimeMs: 0, timeSource: 's3-path' } as const;
    const captured = { facts, identity: { attributes }, ...structuredClone({ request, response }), notes: [] };
    const masked = redacted(captured, { csvHeader, featureNames, redaction: EVERYTHING });
    const [header = []] = csvHeader && masked.request?.kind === 'csv' ? (masked.request.value as unknown[][]) : [];
    const columns = featureNames.length > 0 ? featureNames : header.map(String);
    const own = new Set<string>();
    const note = (field: string, text: string): void => {
      // A captured text of this form is escaped.
      const items = REDACT_KINDS.filter((kind) => text.includes(`<${kind}>`));
      for (const kind of items) own.add(`${kind} in ${saidName(field)}`);
      if (items.length > 0) alone.set(field, (alone.get(field) ?? true) && /^<\w+>$/.test(text));
    };
    eachText(masked.request?.value, 'text', columns, note);
    eachText(masked.response?.value, 'text', [], note);
    eachText(masked.identity.attributes, '', [], note);
    kinds.push(...new Set([...own].map((one) => one.split(' ')[0] ?? '')));
    fields.push(...[...own].slice(0, MAX_FIELDS));
    found += Math.sign(own.size);
  };
  const fact = (): ShapeFact => {
    const named = [...alone.keys()].filter((name) => alone.get(name) && NAME.test(name));
    const rules = [...new Set(kinds), ...named.slice(0, MAX_SAID).map((name) => `field:${name}`)];
    const setting = `REDACT=${[...(REDACT ? [REDACT] : []), ...rules].join(',')}`;
    const what = `Personal data and secrets${redaction ? ' that REDACT leaves' : ''}`;
    const says = `${what} are in ${many(found, 'capture')}; by kind: ${said(kinds)}; by field: ${said(fields)}.`;
    return { about: 'personalData', captures: found, says, setting: found > 0 ? setting : undefined };
  };
  return { add, fact };
}

/** Calls back for each text, with the name of its field, or of its column in a row. */
function eachText(
  value: unknown,
  field: string,
  columns: readonly string[],
  use: (field: string, text: string) => void,
  isRow = false,
): void {
  if (typeof value === 'string') use(field, value);
  if (typeof value !== 'object' || value === null) return;
  const isList = Array.isArray(value);
  for (const [key, inner] of Object.entries(value)) {
    const inList = isRow ? (columns[Number(key)] ?? `#${Number(key) + 1}`) : field;
    if (!isList) use('names of fields', key);
    eachText(inner, isList ? inList : key, columns, use, isList && Array.isArray(inner));
  }
}
