/**
 * The captures of each day and how many of them are drawn for the judge, for all functions of the stack: an item a day,
 * and an item a file with the chances of its captures, which are decided once.
 */
import { hash } from 'node:crypto';
import { KEPT_DAYS } from '../core/contract/kept.ts';
import type { CaptureRange } from '../core/contract/payloads.ts';
import { asNumber, dayAt, expiry, type LimitsTable } from './table.ts';

/** The numbers of a day by name; absent instead of 0. Those of an hour (UTC) have it in their name: `lines9`, `draws9`. */
export type DayNumbers = Readonly<Record<string, number>>;

/** The chances of the captures of a file: to be judged, and to be judged if a rule chooses them. */
export type FileChances = Pick<CaptureRange, 'ruleChance'> & { chance: number };

/** Long enough for the same days of the last weeks. */
const DAY_ITEM_DAYS = 62;

const scopeOfDay = (day: string): string => `draws#${day}`;
/** Keys have up to 1,024 bytes. A file that grew has the same chances, since its first captures have. */
const scopeOfFile = ({ bucket, key }: { bucket: string; key: string }): string =>
  `file#${hash('sha256', `${bucket}\n${key}`)}`;

export class DrawnDays {
  readonly #table: LimitsTable;
  readonly #past = new Map<string, Promise<DayNumbers>>();

  constructor(table: LimitsTable) {
    this.#table = table;
  }

  /** Reads the numbers of a day, such as `2026-11-20`. */
  async of(day: string): Promise<DayNumbers> {
    const item = await this.#table.get(scopeOfDay(day));
    return Object.fromEntries(
      Object.entries(item).flatMap(([name, value]) => (value.N ? [[name, asNumber(value)]] : [])),
    );
  }

  /** Reads the numbers of a day that is over, once. */
  ofPast(day: string): Promise<DayNumbers> {
    const known = this.#past.get(day) ?? this.of(day);
    this.#past.set(day, known);
    known.catch(() => this.#past.delete(day));
    return known;
  }

  /** Adds to the numbers of a day. @returns these numbers, as they are now */
  async add(day: string, terms: DayNumbers): Promise<DayNumbers> {
    const names = Object.keys(terms).filter((name) => terms[name] !== 0);
    if (names.length === 0) return {};
    const expression = `SET #ttl = :ttl ADD ${names.map((name) => `#${name} :${name}`).join(', ')}`;
    const ttl = expiry(Date.now(), DAY_ITEM_DAYS);
    const values = { ...Object.fromEntries(names.map((name) => [name, terms[name] ?? 0])), ttl };
    const made = (await this.#table.update({ scope: scopeOfDay(day), expression, values })) ?? {};
    return Object.fromEntries(names.map((name) => [name, asNumber(made[name])]));
  }

  addToday(terms: DayNumbers): Promise<DayNumbers> {
    return this.add(dayAt(Date.now()), terms);
  }

  /** Returns the chances that were decided for a file; `undefined` if there are none. */
  async chancesOf(file: { bucket: string; key: string }): Promise<FileChances | undefined> {
    const { chance, ruleChance } = await this.#table.get(scopeOfFile(file));
    return chance && { chance: asNumber(chance), ...(ruleChance && { ruleChance: asNumber(ruleChance) }) };
  }

  /** Decides the chances of a file. @returns false if they were decided before */
  async decide(file: { bucket: string; key: string }, { chance, ruleChance }: FileChances): Promise<boolean> {
    const isRuled = ruleChance !== undefined;
    const made = await this.#table.update({
      scope: scopeOfFile(file),
      expression: `SET #chance = :chance, #ttl = :ttl${isRuled ? ', #ruleChance = :ruleChance' : ''}`,
      condition: 'attribute_not_exists(#chance)',
      values: { chance, ttl: expiry(Date.now(), KEPT_DAYS.counts), ...(isRuled && { ruleChance }) },
    });
    return made !== undefined;
  }
}
