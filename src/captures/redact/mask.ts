/** Replaces personal data and secrets by pseudonyms, in texts and in JSON values. */

import { createHmac, createSecretKey } from 'node:crypto';
import { RE2JS } from 're2js';
import type { Redaction } from '../../core/settings/redact-setting.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { isExactNumber } from '../json.ts';
import { DATA_URL_MARK, fileIn, maskedBase64, maskedUrls, NOT_MASKED } from './encoded.ts';
import { Forms, find, type Item, MAX_VALUE_CHARS, merged, respelled } from './find.ts';
import type { Kind } from './kinds.ts';
import { type Cut, findPieces, type Holder, isToken, MAX_NAME_CHARS, type Part, type Pieces } from './pieces.ts';
import { type Word, wordsOfName } from './words.ts';

/** 48 bits: two of a million values have the same pseudonym with a chance of 1 in 560. */
const PSEUDONYM_BYTES = 6;
/** Levels of JSON in a string in JSON that are parsed. Deeper documents are masked as texts. */
const MAX_NESTED = 4;
/** No item and no pseudonym is shorter, except for a piece of an item. */
const MIN_CHARS = 4;
/** No card, phone or security number is smaller. */
const MIN_NUMBER = 1e6;
/** Fields beside a token that repeat its text. */
const TOKEN_TWINS = ['bytes', 'top_logprobs', 'top_tokens'];
/** Fields of a reply that contain the arguments of a tool call. */
const ARGUMENTS = new Set(['input', 'arguments', 'args']);
/** A name or a word, which is no item. The shortest items without a digit are keys: of 15 characters with hyphens, of AWS, and of 24. */
const WORD = /^(?:[A-Za-z_/-]{1,14}|[A-Za-z_/]{1,19}|(?!A[KS]IA)[A-Za-z_]{20,23})$/;
/** A UUID or a time, which is an item only if the name of its field announces an item. */
const STAMP = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]{1,18}Z)$/;

/**
 * Masks the values of one capture.
 *
 * @example
 *     const masker = new Masker(redaction);
 *     masker.text('Write to jane@example.com'); // 'Write to <email:1f0c…>'
 */
export class Masker {
  /** Masked items by kind, field or pattern. */
  readonly counts: Record<string, number> = {};
  readonly #names: readonly string[];
  readonly #ready: ReturnType<typeof prepared>;
  /** The captured text by its pseudonym, and each long text by its masked form. */
  readonly captured = new Map<string, string>();
  /** The characters of an item in its first piece, by the item's pseudonym. */
  readonly #firsts = new Map<string, string>();
  /** Digests by name and value, because a digest takes as long as the search of a short text. */
  readonly #digests = new Map<string, string>();
  /** The keys of values that are masked as a whole, by their object or row. These values are not searched again. */
  readonly #written = new Map<Holder, Set<string>>();
  /** The columns to mask, by the list of all column names. */
  readonly #masked = new Map<readonly string[], { at: number; name: string }[]>();
  /** The names of a row's columns. */
  readonly #named = new Map<unknown, readonly string[]>();
  readonly #pieces: Pieces = new Map();
  /** Items found, by text. Only texts that are longer than the value of a field are kept. */
  readonly #found = new Map<string, readonly Item[]>();
  /** Texts, numbers and booleans that were masked or escaped. */
  changes = 0;

  /** @param names the column names for rows that come without names */
  constructor(redaction: Redaction, names: readonly string[] = []) {
    this.#names = names;
    this.#ready = ready.get(redaction) ?? prepared(redaction);
    ready.set(redaction, this.#ready);
  }

  /**
   * Masks a text.
   *
   * @param field the name of the text's field, which may announce an item
   */
  text(text: string, field = ''): string {
    const mayBePlain = this.#ready.patterns.length === 0 && (WORD.test(text) || STAMP.test(text));
    const isPlain = mayBePlain && announced(field).length === 0;
    return isPlain ? text : this.#replaced(text, this.#itemsIn(text, field));
  }

  /**
   * Masks a JSON value in place.
   *
   * @param hasNumbers whether numbers are masked like texts: true for requests, false for replies, whose numbers are predictions
   * @param cut whether the texts of lists are pieces of longer texts at any length, as in a stream and in CSV
   * @param field the name of the field, if the value was JSON in a string
   * @param nested number of strings of JSON that enclose the value
   * @returns the same value, or a new text if the value itself is a text or a number
   */
  value(value: unknown, hasNumbers: boolean, cut?: Cut, field = '', nested = 0): unknown {
    const holder = { value };
    findPieces(this.#pieces, value, (text) => this.#itemsIn(text, ''), cut);
    this.#walk(holder, 'value', field, hasNumbers, nested);
    return holder.value;
  }

  /** Masks the columns of rows that `REDACT` selects by place or by name. The other names are kept, since they may announce items. */
  columns(rows: readonly unknown[], names: readonly string[] = this.#names): void {
    const { columns, fields } = this.#ready;
    const isMasked = (name: string, at: number) => (fields.has(name.toLowerCase()) ? [{ at, name }] : []);
    const masked = this.#masked.get(names) ?? [...columns, ...names.flatMap(isMasked)];
    this.#masked.set(names, masked);
    for (const row of rows) {
      if (names.length > 0 && !this.#named.has(row)) this.#named.set(row, names);
      for (const { at, name } of Array.isArray(row) ? masked : []) {
        if (at < (row as unknown[]).length) this.#whole(row as Holder, at, name);
      }
    }
  }

  /** Returns a masked text as it was captured. */
  unmask(text: string): string {
    const part = (all: string, escapes: string, rest: string, at: number): string => {
      if (escapes !== '') return `<${escapes.slice(1)}${rest}`;
      // In text that is read line by line, an item is not joined from pieces: only the characters of the first piece return.
      const first = text[at + all.length] === '\n' ? this.#firsts.get(all) : undefined;
      return first ?? this.captured.get(all) ?? all;
    };
    return this.captured.get(text) ?? text.replace(this.#ready.form, part);
  }

  /** Returns the items found in a captured text; `undefined` if the text is short, or if not all of these kinds were searched for. */
  found(text: string, kinds: readonly Kind[]): readonly Item[] | undefined {
    const { all } = this.#ready.forms;
    return kinds.every((kind) => all.some(({ name }) => name === kind)) ? this.#found.get(text) : undefined;
  }

  // ------------------------------------------------------------------------------------------------------- texts

  #itemsIn(text: string, field: string): Item[] {
    const { forms, allowed, patterns } = this.#ready;
    const told = announced(field);
    const items: Item[] = [];
    const add = (plain: string, places?: readonly number[]): void => {
      const found = find(plain, forms, told);
      if (plain === text && text.length > MAX_VALUE_CHARS) this.#found.set(text, found);
      for (const { name, value, start, end } of found) {
        if (allowed.has(value) || allowed.has(value.slice(value.lastIndexOf('@')))) continue;
        items.push({ name, value, start: places?.[start] ?? start, end: (places?.[end - 1] ?? end - 1) + 1 });
      }
    };
    add(text);
    const spelled = respelled(text);
    if (spelled) add(spelled.plain, spelled.places);
    for (const { name, pattern } of patterns) {
      const matcher = pattern.matcher(text);
      while (matcher.find()) {
        const [start, end] = [matcher.start(), matcher.end()];
        if (end > start) items.push({ name, value: text.slice(start, end), start, end });
      }
    }
    return items;
  }

  /** Writes the text with its items masked. Escapes captured text that looks like a pseudonym. */
  #replaced(text: string, items: readonly Part[]): string {
    let masked = '';
    let from = 0;
    const escaped = (part: string): string =>
      part.includes('<') ? part.replace(this.#ready.form, (_, escapes, rest) => `<\\${escapes}${rest}`) : part;
    for (const item of merged(items)) {
      const { name, value, start, end, first, captured = text.slice(start, end) } = item;
      const pseudonym = captured === '' ? '' : this.whole(name, value, captured);
      if (first) this.#firsts.set(pseudonym, first);
      masked += escaped(text.slice(from, start)) + pseudonym;
      from = end;
    }
    masked += escaped(text.slice(from));
    if (masked !== text) this.changes += 1;
    if (masked !== text && text.length > MAX_VALUE_CHARS) this.captured.set(masked, text);
    return masked;
  }

  /** Masks a whole value. @param name the kind or the field that the pseudonym shows */
  whole(name: string, value: string, captured = value): string {
    const { key } = this.#ready;
    const item = `${name}\0${value}`;
    const digest = this.#digests.get(item) ?? (key && createHmac('sha256', key).update(item).digest('hex'));
    if (digest) this.#digests.set(item, digest);
    const pseudonym = digest ? `<${name}:${digest.slice(0, 2 * PSEUDONYM_BYTES)}>` : `<${name}>`;
    this.captured.set(pseudonym, captured);
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    return pseudonym;
  }

  // ------------------------------------------------------------------------------------------------------ values

  #walk(holder: Holder, key: string | number, field: string, hasNumbers: boolean, nested: number): void {
    const value = holder[key];
    if (typeof value === 'string') {
      if (this.#written.get(holder)?.has(String(key))) return;
      const pieces = this.#pieces.get(holder)?.get(key);
      if (pieces || value.length >= MIN_CHARS || this.#ready.patterns.length > 0) {
        holder[key] = this.#textOrJson(value, field, nested, pieces);
      }
    } else if (typeof value === 'number' || isExactNumber(value)) {
      const text = typeof value === 'number' ? String(value) : value.rawJSON;
      const items = hasNumbers && Number(text) >= MIN_NUMBER ? this.#itemsIn(text, field) : [];
      if (items.length > 0) holder[key] = this.#replaced(text, items);
    } else if (Array.isArray(value)) {
      if (hasNumbers && Array.isArray(value[0])) this.columns(value);
      if (hasNumbers && field === 'features') this.columns([value]);
      const names = this.#named.get(value) ?? [];
      for (let at = 0; at < value.length; at += 1) {
        const item = value[at];
        if (typeof item === 'number' && (!hasNumbers || item < MIN_NUMBER)) continue;
        this.#walk(value as never, at, names[at] ?? field, hasNumbers, nested);
      }
    } else if (typeof value === 'object' && value !== null) {
      this.#walkObject(value as Holder, hasNumbers, nested);
    }
  }

  #walkObject(value: Holder, hasNumbers: boolean, nested: number): void {
    const { fields } = this.#ready;
    const { columns, data } = value;
    if (Array.isArray(columns) && Array.isArray(data)) this.columns(data, columns.map(String));
    // A tensor, or an entry such as {"name": "customer", "value": "Jane"}.
    const entry = value.name ?? value.key;
    const file = nested < MAX_NESTED ? fileIn(value) : undefined;
    const masked = file && maskedBase64(file.type, file.base64, (text) => this.#textOrJson(text, '', nested + 1));
    if (file && masked !== file.base64) this.#write(file.holder as Holder, file.key, masked);
    const keys = Object.keys(value);
    for (const [at, key] of keys.entries()) {
      const before = this.changes;
      // This field repeats the prompt token by token.
      if (key === 'prompt_logprobs' && before > 0) delete value[key];
      const isField = fields.size > 0 && fields.has(key.toLowerCase());
      const name = !isField && typeof entry === 'string' && /^(?:value|data)$/.test(key) ? entry : key;
      if (isField || (fields.size > 0 && fields.has(name.toLowerCase()))) this.#whole(value, key, name);
      // In a masked field's value, only the names are left to read. A number among the arguments of a tool is not a prediction.
      this.#walk(value, key, name, hasNumbers || ARGUMENTS.has(key), nested);
      // The bytes of a masked token and the model's alternatives to it would reveal the token.
      if (isToken(key) && this.changes > before) for (const twin of TOKEN_TWINS) delete value[twin];
      const masked = WORD.test(key) ? key : this.text(key);
      if (masked === key) continue;
      let free = masked;
      // Each key counts up from a different number, so that a million equal keys take linear time.
      for (let count = at + 1; free in value; count += keys.length) free = `${masked} ${count}`;
      value[free] = value[key];
      delete value[key];
    }
  }

  /** Masks every text, number and boolean of a field's value. */
  #whole(holder: Holder, key: string | number, field: string): void {
    const value = holder[key];
    if (value === null || value === undefined || this.#written.get(holder)?.has(String(key))) return;
    if (typeof value === 'object' && !isExactNumber(value)) {
      for (const inner of Object.keys(value)) this.#whole(value as Holder, inner, field);
      this.#write(holder, key, value);
    } else {
      this.#write(holder, key, this.whole(field.toLowerCase(), isExactNumber(value) ? value.rawJSON : String(value)));
    }
  }

  /** Writes a masked value, which is not searched again. */
  #write(holder: Holder, key: string | number, value: unknown): void {
    this.changes += 1;
    holder[key] = value;
    this.#written.set(holder, (this.#written.get(holder) ?? new Set()).add(String(key)));
  }

  /** Masks a text; for JSON in a string, the values of the document. */
  #textOrJson(text: string, field: string, nested: number, pieces?: Part[]): string {
    const inner = nested < MAX_NESTED && /^\s*[[{]/.test(text) ? jsonIn(text) : undefined;
    if (inner !== undefined) {
      const before = this.changes;
      this.value(inner, true, undefined, field, nested + 1);
      if (this.changes > before) return JSON.stringify(inner);
    }
    if (nested < MAX_NESTED && DATA_URL_MARK.test(text)) {
      const inside = (inner: string): string => this.#textOrJson(inner, '', nested + 1);
      const masked = maskedUrls(text, (around) => this.text(around, field), inside);
      if (masked !== text) this.changes += 1;
      return masked;
    }
    return pieces ? this.#replaced(text, [...pieces, ...this.#itemsIn(text, field)]) : this.text(text, field);
  }
}

/** Returns the announcements in the name of a field. */
const announced = (field: string): readonly Word[] => wordsOfName(field.slice(-MAX_NAME_CHARS));

/** The preparations for a redaction, made once for all captures. */
const ready = new WeakMap<Redaction, ReturnType<typeof prepared>>();

function prepared({ kinds, fields, patterns, allow, key }: Redaction) {
  const lowered = fields.map((name) => name.toLowerCase());
  const forms = new Forms(kinds);
  const names = [...kinds, ...lowered, ...patterns.map(({ name }) => name), NOT_MASKED.slice(1, -1)];
  const escaped = names.map((name) => name.replace(/\W/g, '\\$&')).join('|');
  return {
    forms,
    key: key && createSecretKey(key, 'utf8'),
    fields: new Set(lowered),
    columns: fields.flatMap((name) => (/^#\d+$/.test(name) ? [{ at: Number(name.slice(1)) - 1, name }] : [])),
    allowed: new Set(
      allow.flatMap((text) => [
        text.toLowerCase(),
        ...find(text, forms).map(({ value }) => value),
        text.replace(/\D/g, '') || text,
      ]),
    ),
    patterns: patterns.map(({ name, pattern }) => ({ name, pattern: RE2JS.compile(pattern) })),
    /** A pseudonym, or a captured text of its form. */
    form: new RegExp(`<(\\\\*)((?:${escaped})(?::[0-9a-f]{${2 * PSEUDONYM_BYTES}})?>)`, 'g'),
  };
}
