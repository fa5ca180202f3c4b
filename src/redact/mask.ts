/** Replaces personal data and secrets by pseudonyms, in texts and in JSON values. */

import { createHmac } from 'node:crypto';
import { RE2JS } from 're2js';
import type { RedactRules } from '../core/settings/redact-setting.ts';
import { jsonIn } from '../core/values/json-in.ts';
import { find, merged, type Range } from './find.ts';
import { KINDS, type Kind } from './kinds.ts';

/** What is masked, and how. */
export interface Redaction extends RedactRules {
  /** Addresses and numbers of one's own; `@example.com` is a domain. */
  allow: readonly string[];
  /** The names of the columns of rows without names. */
  columns?: readonly string[] | undefined;
  /** The key of the pseudonyms. Without one equal values cannot be recognised: `<email>`. */
  key?: string;
}

/** What stands in place of a text that could not be masked. */
export const NOT_MASKED = '<not masked>';

/** 48 bits: two of a million values have the same pseudonym with a chance of 1 in 560. */
const PSEUDONYM_BYTES = 6;
/** JSON in a string in JSON, and so on. Deeper ones are masked as texts. */
const MAX_NESTED = 4;
/** Texts of a list that are shorter on average are read as one text too: the pieces of a stream, and tokens. */
const PIECE_CHARS = 64;
/** No card, phone or security number is smaller. */
const MIN_NUMBER = 1e6;
/** Names of fields that announce what their value is. */
const TELLING = /phone|tel|mobil|cell|fax|handy|ssn|social|birth|born|dob|geb|nac|nasc|naiss|key|token|secret/i;

/** A masked part of a text. */
interface Item extends Range {
  /** Of the kind, the field or the pattern. */
  name: string;
  value: string;
  /** An earlier piece of the text has its pseudonym. */
  isRest?: true;
}

type Holder = Record<string | number, unknown>;

/** Masks the values of one capture. */
export class Masker {
  /** Masked items by kind, field or pattern. */
  readonly counts: Record<string, number> = {};
  readonly #redaction: Redaction;
  readonly #kinds: readonly Kind[];
  readonly #fields: ReadonlySet<string>;
  readonly #columns: readonly number[];
  readonly #allowed: ReadonlySet<string>;
  /** A pseudonym, or a captured text of its form. */
  readonly #form: RegExp;
  /** The captured text by its pseudonym. */
  readonly #captured = new Map<string, string>();
  /** Items that only several pieces together show, by the holder and the key of each piece. */
  readonly #pieces = new Map<Holder, Map<string | number, Item[]>>();
  #changes = 0;

  constructor(redaction: Redaction) {
    const { kinds, fields, patterns, allow } = redaction;
    this.#redaction = redaction;
    this.#kinds = (Object.keys(KINDS) as Kind[]).filter((kind) => kinds.includes(kind));
    this.#fields = new Set(fields.map((name) => name.toLowerCase()));
    this.#columns = fields.flatMap((name) => (/^#\d+$/.test(name) ? [Number(name.slice(1)) - 1] : []));
    this.#allowed = new Set(allow.flatMap((text) => [text.toLowerCase(), text.replace(/\D/g, '') || text]));
    const names = [...kinds, ...fields, ...patterns.map(({ name }) => name), NOT_MASKED.slice(1, -1)];
    const escaped = names.map((name) => name.replace(/\W/g, '\\$&')).join('|');
    this.#form = new RegExp(`<(\\\\*)((?:${escaped})(?::[0-9a-f]{${2 * PSEUDONYM_BYTES}})?>)`, 'g');
  }

  /**
   * Masks a text.
   *
   * @param field its name, which may announce what the text is
   */
  text(text: string, field = ''): string {
    return this.#replaced(text, this.#itemsIn(text, field));
  }

  /**
   * Masks a JSON value in place.
   *
   * @param hasNumbers whether numbers are masked too, as texts. Those of a reply are predictions
   * @returns the value; another one if it is a text or a number itself
   */
  value(value: unknown, hasNumbers: boolean): unknown {
    const holder = { value };
    if (this.#kinds.length + this.#redaction.patterns.length > 0) this.#findPieces(value);
    this.#walk(holder, 'value', '', hasNumbers);
    return holder.value;
  }

  /** Masks the columns of rows, by their places or their names. */
  columns(rows: readonly unknown[], names: readonly string[] = []): void {
    const named = names.flatMap((name, at) => (this.#fields.has(name.toLowerCase()) ? [at] : []));
    for (const row of rows) {
      if (!Array.isArray(row)) continue;
      for (const at of [...this.#columns, ...named]) {
        if (at < row.length) this.#whole(row as unknown as Holder, at, names[at] ?? `#${at + 1}`);
      }
    }
  }

  /** Returns a masked text as it was captured. */
  unmask(text: string): string {
    return text.replace(this.#form, (all, escapes: string, rest: string) =>
      escapes === '' ? (this.#captured.get(all) ?? all) : `<${escapes.slice(1)}${rest}`,
    );
  }

  // ------------------------------------------------------------------------------------------------------- texts

  #itemsIn(text: string, field: string): Item[] {
    const label = TELLING.test(field) ? `${field.replace(/(?<=[a-z])(?=[A-Z])|[_-]/g, ' ')}: ` : '';
    const found = find(label + text, this.#kinds).filter((one) => one.start >= label.length && !this.#isAllowed(one));
    const items: Item[] = found.map(({ kind, start, end, value }) => {
      return { name: kind, value, start: start - label.length, end: end - label.length };
    });
    for (const { name, pattern } of this.#redaction.patterns) {
      const matcher = compiled(pattern).matcher(text);
      while (matcher.find()) {
        const [start, end] = [matcher.start(), matcher.end()];
        if (end > start) items.push({ name, value: text.slice(start, end), start, end });
      }
    }
    return items;
  }

  #isAllowed({ kind, value }: { kind: Kind; value: string }): boolean {
    return this.#allowed.has(value) || (kind === 'email' && this.#allowed.has(value.slice(value.lastIndexOf('@'))));
  }

  /** Writes the text with its items masked, and escapes what only looks masked. */
  #replaced(text: string, items: readonly Item[]): string {
    let masked = '';
    let from = 0;
    const escaped = (part: string): string => part.replace(this.#form, (_, escapes, rest) => `<\\${escapes}${rest}`);
    for (const item of merged(items)) {
      const { start, end } = item;
      masked += escaped(text.slice(from, start)) + (item.isRest ? '' : this.#pseudonym(item, text.slice(start, end)));
      from = end;
    }
    masked += escaped(text.slice(from));
    if (masked !== text) this.#changes += 1;
    return masked;
  }

  #pseudonym({ name, value }: Pick<Item, 'name' | 'value'>, captured: string): string {
    const { key } = this.#redaction;
    const digest = key && createHmac('sha256', key).update(`${name}\0${value}`).digest('hex');
    const pseudonym = digest === undefined ? `<${name}>` : `<${name}:${digest.slice(0, 2 * PSEUDONYM_BYTES)}>`;
    this.#captured.set(pseudonym, captured);
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    return pseudonym;
  }

  // ------------------------------------------------------------------------------------------------------ values

  #walk(holder: Holder, key: string | number, field: string, hasNumbers: boolean, nested = 0): void {
    const value = holder[key];
    if (typeof value === 'string') {
      const pieces = this.#pieces.get(holder)?.get(key);
      holder[key] =
        pieces === undefined
          ? this.#textOrJson(value, field, nested)
          : this.#replaced(value, [...pieces, ...this.#itemsIn(value, field)]);
    } else if (typeof value === 'number' || isRawNumber(value)) {
      const text = typeof value === 'number' ? String(value) : value.rawJSON;
      if (!hasNumbers || !(Number(text) >= MIN_NUMBER) || this.#itemsIn(text, field).length === 0) return;
      holder[key] = this.text(text, field);
    } else if (Array.isArray(value)) {
      if (hasNumbers && Array.isArray(value[0])) this.columns(value, this.#redaction.columns);
      if (hasNumbers && field === 'features') this.columns([value], this.#redaction.columns);
      for (let at = 0; at < value.length; at += 1) {
        const item = value[at];
        if (typeof item === 'number' && (!hasNumbers || item < MIN_NUMBER)) continue;
        this.#walk(value as never, at, field, hasNumbers, nested);
      }
    } else if (typeof value === 'object' && value !== null) {
      this.#walkObject(value as Holder, hasNumbers, nested);
    }
  }

  #walkObject(value: Holder, hasNumbers: boolean, nested: number): void {
    const { columns, data, name } = value;
    if (Array.isArray(columns) && Array.isArray(data)) this.columns(data, columns.map(String));
    // A tensor, or an entry such as {"name": "customer", "value": "Jane"}.
    const named = typeof (name ?? value.key) === 'string' && this.#fields.has(String(name ?? value.key).toLowerCase());
    for (const key of Object.keys(value)) {
      if (this.#fields.has(key.toLowerCase())) this.#whole(value, key, key);
      else if (named && (key === 'value' || key === 'data')) this.#whole(value, key, String(name ?? value.key));
      else this.#walk(value, key, key, hasNumbers, nested);
      const masked = this.text(key);
      if (masked === key) continue;
      let free = masked;
      for (let count = 2; free in value; count += 1) free = `${masked} ${count}`;
      value[free] = value[key];
      delete value[key];
    }
  }

  /** Masks every text, number and boolean of a field's value. */
  #whole(holder: Holder, key: string | number, field: string): void {
    const value = holder[key];
    if (value === null || value === undefined) return;
    if (typeof value === 'object' && !isRawNumber(value)) {
      for (const inner of Object.keys(value)) this.#whole(value as Holder, inner, field);
      return;
    }
    const text = isRawNumber(value) ? value.rawJSON : String(value);
    this.#changes += 1;
    holder[key] = this.#pseudonym({ name: field, value: text }, text);
  }

  /** Masks a text, or the values of the JSON that it is. */
  #textOrJson(text: string, field: string, nested: number): string {
    const inner = nested < MAX_NESTED && /^\s*[[{]/.test(text) ? jsonIn(text) : undefined;
    if (typeof inner !== 'object' || inner === null) return this.text(text, field);
    const before = this.#changes;
    const holder = { inner };
    this.#walk(holder, 'inner', field, true, nested + 1);
    return this.#changes > before ? JSON.stringify(holder.inner) : this.text(text, field);
  }

  // ------------------------------------------------------------------------------------------------------ pieces

  /** Finds items in texts that lists cut into pieces: the deltas of a stream, the tokens of `logprobs`. */
  #findPieces(value: unknown): void {
    const lists = new Map<string, Leaf[]>();
    collectLeaves({ value }, 'value', '', false, lists);
    for (const leaves of lists.values()) {
      const whole = leaves.length > 1 ? leaves.map(({ text }) => text).join('') : '';
      if (whole === '' || whole.length > leaves.length * PIECE_CHARS) continue;
      let next = 0;
      let from = 0;
      for (const item of merged(this.#itemsIn(whole, ''))) {
        // The piece with the beginning of the item.
        for (let leaf = leaves[next]; leaf && from + leaf.text.length <= item.start; leaf = leaves[next]) {
          from += leaf.text.length;
          next += 1;
        }
        this.#cutItem(item, leaves, next, from);
      }
    }
  }

  /** Notes the parts of an item at its pieces. @param from the place of the piece `at` in the joined text */
  #cutItem(item: Item, leaves: readonly Leaf[], at: number, from: number): void {
    let start = from;
    for (let piece = at; start < item.end; piece += 1) {
      const { holder, key, text } = leaves[piece] as Leaf;
      const part = { ...item, start: Math.max(0, item.start - start), end: Math.min(text.length, item.end - start) };
      const ofHolder = this.#pieces.get(holder) ?? new Map<string | number, Item[]>();
      this.#pieces.set(holder, ofHolder);
      const known = ofHolder.get(key) ?? [];
      if (part.end > part.start) known.push(piece === at ? part : { ...part, isRest: true });
      ofHolder.set(key, known);
      start += text.length;
    }
  }
}

/** A text in a list, with the place where it stands. */
interface Leaf {
  holder: Holder;
  key: string | number;
  text: string;
}

/** Collects the texts within lists by their path, without the places in the lists. The cells of tables are no pieces. */
function collectLeaves(
  holder: Holder,
  key: string | number,
  path: string,
  isListed: boolean,
  lists: Map<string, Leaf[]>,
) {
  const inner = holder[key];
  if (typeof inner === 'string') {
    if (!isListed) return;
    const leaves = lists.get(path) ?? [];
    lists.set(path, leaves);
    leaves.push({ holder, key, text: inner });
  } else if (Array.isArray(inner)) {
    if (inner.some(Array.isArray)) return;
    for (let at = 0; at < inner.length; at += 1) collectLeaves(inner as never, at, `${path}[]`, true, lists);
  } else if (typeof inner === 'object' && inner !== null) {
    for (const name of Object.keys(inner)) collectLeaves(inner as Holder, name, `${path}.${name}`, isListed, lists);
  }
}

/** Whether this is a number that was kept as it was written. TypeScript does not know the function. */
const isRawNumber = (value: unknown): value is { rawJSON: string } =>
  (JSON as unknown as { isRawJSON(value: unknown): boolean }).isRawJSON(value);

const patterns = new Map<string, RE2JS>();

/** @throws if RE2 refuses the pattern */
export function compiled(pattern: string): RE2JS {
  const known = patterns.get(pattern) ?? RE2JS.compile(pattern);
  patterns.set(pattern, known);
  return known;
}
