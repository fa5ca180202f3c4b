/** What the captures of an endpoint are like, as sentences with their counts, and the settings that confirm them. No value is said. */

import { failureOf } from '../../src/captures/failure.ts';
import { redacted } from '../../src/captures/redact.ts';
import type { Capture } from '../../src/captures/types.ts';
import { REDACT_KINDS, redactRules } from '../../src/core/settings/redact-setting.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { excerpt } from '../../src/core/text/terminal-text.ts';
import { predictionOf } from '../../src/ground-truth/index/reply-values.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { applicability } from '../../src/judge/scorers/applicability.ts';
import { isJudgeScorer } from '../../src/judge/scorers/scorer-set.ts';
import { Masker } from '../../src/redact/mask.ts';
import type { CommandSettings } from '../cli/settings.ts';

/** Captures that are looked at, and their bytes: more of them have the same form, and hostile ones take seconds a megabyte. */
const MAX_SHAPED = 1_000;
const MAX_BYTES = 32e6;
/** Tables that begin with the same row before it may be a header, and the rows of each that are compared. */
const MIN_TABLES = 5;
const MAX_ROWS = 1_000;
/** Names of fields are written by callers: how many are said, of how many of a capture, and their length. */
const MAX_SAID = 5;
const MAX_FORMS = 20;
const MAX_FIELDS = 100;
const MAX_NAME_CHARS = 40;

/** A sentence about captures. `setting`: what confirms it, as in `.env`. */
export interface ShapeFact {
  about: 'formats' | 'header' | 'columns' | 'truth' | 'errors' | 'unjudged' | 'personalData';
  captures: number;
  says: string;
  setting?: string | undefined;
}

type Settings = Pick<CommandSettings, 'CSV_HEADER' | 'FEATURE_NAMES' | 'GROUND_TRUTH' | 'REDACT' | 'redaction'> &
  Parameters<typeof activeScorers>[0];

const list = (): string[] => [];

/** Collects the sentences of captures, one by one. Of more than 1,000, or 32 MB, the first ones count. */
export function shapeTally(settings: Settings) {
  const judges = activeScorers(settings).filter(isJudgeScorer);
  const [formats, requests, replies, rows] = [list(), list(), list(), list()];
  const [truths, ids, errors, unjudged] = [list(), list(), list(), list()];
  const personal = personalTally(settings);
  let bytes = 0;
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
    if (capture.capturedInferenceId !== undefined) ids.push('');
    const failure = failureOf(capture);
    if (failure) errors.push(`${failure.statusCode ?? 'no status'} as ${reply}`);
    else if (!judges.some((scorer) => 'judge' in applicability(capture, scorer))) unjudged.push(format);
    personal.add(capture);
  };
  const facts = (): ShapeFact[] => [
    { about: 'formats', captures: formats.length, says: `Requests and replies: ${said(formats, MAX_FORMS)}.` },
    ...headerFacts('requests', requests, settings),
    ...headerFacts('replies', replies, settings),
    ...columnFacts(rows),
    truthFact(formats.length, ids.length, truths, settings),
    { about: 'errors', captures: errors.length, says: `Error replies, which are not judged: ${said(errors)}.` },
    { about: 'unjudged', captures: unjudged.length, says: `Other captures that no judge reads: ${said(unjudged)}.` },
    personal.fact(formats.length),
  ];
  return { add, report: () => ({ captures: formats.length, facts: formats.length === 0 ? [] : facts() }) };
}

/** Counts names. @returns the most frequent ones, and how many others there are */
function said(names: readonly string[], most = MAX_SAID): string {
  const counts = [...Map.groupBy(names, (name) => name)].sort(([, a], [, b]) => b.length - a.length);
  const shown = counts.slice(0, most).map(([name, { length }]) => `${whole(length)} × ${name}`);
  return [...shown, ...(counts.length > most ? [`${counts.length - most} others`] : [])].join(', ') || 'none';
}

/** A name as it is said: short, on one line, and masked if it is personal data itself. */
const saidName = (name: string): string => excerpt(new Masker(EVERYTHING).text(name), MAX_NAME_CHARS);

/** Returns the first row of a table, if it has words and stands nowhere else in it; else nothing. */
function headOf(rows: readonly unknown[][]): string {
  const [first = '', ...others] = rows.slice(0, MAX_ROWS).map((row) => JSON.stringify(row));
  return /"[^"]*\p{L}/u.test(first) && others.length > 0 && !others.includes(first) ? first : '';
}

function headerFacts(side: string, heads: readonly string[], { CSV_HEADER }: Settings): ShapeFact[] {
  if (heads.length < MIN_TABLES) return [];
  const isHeader = heads[0] !== '' && new Set(heads).size === 1;
  const row = 'one row that stands nowhere else in them';
  const all = `${whole(heads.length)} CSV ${side}`;
  const yes = `All ${all} begin with ${row}: a header${CSV_HEADER ? ', which CSV_HEADER leaves out' : ''}.`;
  const says = isHeader ? yes : `${all} do not all begin with ${row}: they have no header.`;
  const isOdd = isHeader ? !CSV_HEADER : CSV_HEADER && side === 'requests';
  return [{ about: 'header', captures: heads.length, says, setting: isOdd ? `CSV_HEADER=${isHeader}` : undefined }];
}

function columnsOf(names: readonly string[]): string {
  const count = many(names.length, 'column');
  if (names.every((name, at) => name === String(at))) return count;
  return `${count} (${names.slice(0, MAX_SAID).map(saidName).join(', ')}${names.length > MAX_SAID ? ', …' : ''})`;
}

function columnFacts(rows: readonly string[]): ShapeFact[] {
  if (rows.length === 0) return [];
  const [bare, ...others] = new Set(rows.filter((columns) => !columns.includes('(')));
  const setting = bare && others.length === 0 ? `FEATURE_NAMES to a JSON list of the names of ${bare}` : undefined;
  return [{ about: 'columns', captures: rows.length, says: `Rows of requests: ${said(rows)}.`, setting }];
}

function kindOf({ unclear }: Capture, prediction: unknown, { GROUND_TRUTH }: Settings): string {
  const { value, text } = predictionOf(prediction, GROUND_TRUTH) ?? {};
  if (unclear || (value ?? text) === undefined) return 'none that is kept';
  if (value === undefined || !Number.isFinite(Number(value))) return value === undefined ? 'texts' : 'classes';
  return Number.isInteger(Number(value)) ? 'whole numbers' : 'numbers';
}

function truthFact(captures: number, ids: number, truths: readonly string[], { GROUND_TRUTH }: Settings): ShapeFact {
  const { days, kind } = GROUND_TRUTH;
  const kept =
    days === 0 ? ', which GROUND_TRUTH does not keep' : kind === undefined ? '' : `; GROUND_TRUTH says ${kind}`;
  const says = `Labels join ${many(ids, 'capture')} by inferenceId and ${whole(captures - ids)} by eventId. Predictions: ${said(truths)}${kept}.`;
  const [only = '', ...others] = new Set(truths);
  const isKind = kept === '' && others.length === 0 && ['classes', 'numbers', 'texts'].includes(only);
  return { about: 'truth', captures, says, setting: isKind ? `GROUND_TRUTH='{"kind":"${only}"}'` : undefined };
}

// ----------------------------------------------------------------------------------------------- personal data

const EVERYTHING = { ...redactRules(REDACT_KINDS.join(',')), allow: [], content: 'all' as const };

/** Counts captures by kind, and by the field that has an item of it: what masking would change. */
function personalTally({ CSV_HEADER: csvHeader, FEATURE_NAMES: featureNames, REDACT, redaction }: Settings) {
  const [kinds, fields, found] = [list(), list(), list()];
  const [itself, beside] = [new Set<string>(), new Set<string>()];
  const add = ({ request, response, attributes }: Capture): void => {
    const sides = structuredClone({ request, response });
    const facts = { inferenceTimeMs: 0, timeSource: 's3-path' } as const;
    const captured = { facts, identity: { attributes }, request: sides.request, response: sides.response, notes: [] };
    const masked = redacted(captured, { csvHeader, featureNames, redaction: EVERYTHING });
    const table = csvHeader && request?.kind === 'csv' ? (request.value as unknown[][]) : [];
    const columns = featureNames.length > 0 ? featureNames : (table[0] ?? []).map(String);
    const own = new Set<string>();
    const note = (field: string, after: string): void => {
      for (const kind of REDACT_KINDS) if (after.includes(`<${kind}>`)) own.add(`${kind} in ${saidName(field)}`);
      (/^<\w+>$/.test(after) ? itself : beside).add(field);
    };
    eachChange(request?.value, masked.request?.value, 'text', columns, note);
    eachChange(response?.value, masked.response?.value, 'text', [], note);
    eachChange(attributes, masked.identity.attributes, '', [], note);
    kinds.push(...new Set([...own].map((one) => one.split(' ')[0] ?? '')));
    fields.push(...[...own].slice(0, MAX_FIELDS));
    if (own.size > 0) found.push('');
  };
  const fact = (captures: number): ShapeFact => {
    const what = `Personal data and secrets${redaction ? ' that REDACT leaves' : ''}`;
    if (found.length === 0)
      return { about: 'personalData', captures: 0, says: `${what}: none in ${many(captures, 'capture')}.` };
    const named = [...itself].filter((name) => !beside.has(name) && saidName(name) === name && !/[,<>\s]/.test(name));
    const rules = [
      ...(REDACT ? [REDACT] : []),
      ...new Set(kinds),
      ...named.slice(0, MAX_SAID).map((name) => `field:${name}`),
    ];
    const says = `${what} are in ${many(found.length, 'capture')}: ${said(kinds)}. Fields: ${said(fields)}.`;
    return { about: 'personalData', captures: found.length, says, setting: `REDACT=${rules.join(',')}` };
  };
  return { add, fact };
}

/** Tells the texts and numbers that masking changed, with the name of their field, or of their column in a row. */
function eachChange(
  before: unknown,
  after: unknown,
  field: string,
  columns: readonly string[],
  note: (field: string, after: string) => void,
  isRow = false,
): void {
  if (typeof after !== 'object' || after === null) {
    if (before !== after && after !== undefined) note(field, String(after));
    return;
  }
  for (const [key, value] of Object.entries(Object(before))) {
    const inList = isRow ? (columns[Number(key)] ?? `#${Number(key) + 1}`) : field;
    const masked = (after as Record<string, unknown>)[key];
    // A name that is masked itself.
    if (masked === undefined && value !== undefined) note('names of fields', new Masker(EVERYTHING).text(key));
    const isList = Array.isArray(before);
    eachChange(value, masked, isList ? inList : key, columns, note, isList && Array.isArray(value));
  }
}
