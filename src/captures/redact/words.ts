/** Finds the words of sentences, and the names of fields, that announce the kind of the value beside them. */

import { isDigit } from './marks.ts';
import table from './words.json' with { type: 'json' };

export type WordKind = keyof typeof table.before;

/** One announcement. */
export interface Word {
  kind: WordKind;
  /** The group of the table that has the word: a language, or the country of an identifier. */
  of: string;
  /** Whether the word also occurs beside other numbers, as "call" does. */
  isWeak: boolean;
}

interface Entry extends Word {
  /** Whether the entry may be the end of a longer word, as in "Diensthandy". */
  isEnd: boolean;
  /** Whether an inflection may follow the entry. */
  isStem: boolean;
}
type Entries = ReadonlyMap<string, readonly Entry[]>;

const NONE: readonly Word[] = [];
/** Maximum number of letters of an inflection. */
const MAX_ENDING = 4;
/** Maximum number of words of an entry. */
const MAX_WORDS = 4;
/** Maximum number of words between an announcement and its value. */
const MAX_LINKS = 5;
/** Maximum number of characters of a word. */
const MAX_CHARS = 40;
/** Maximum number of digits at the end of a name such as "phone2". */
const MAX_COUNT = 2;
/** Maximum number of characters between two words, or between a word and a value: before the value, and behind it. */
const MAX_GAP = 12;
const MAX_GAP_AFTER = 3;
/** Characters between words, and between a word and the value. */
const GAP = new Set('+ \t\r\n:：=#.°№\'’"`*|>()[]{}<\\/-–—_?~\u061c\u200e\u200f');
const COLON = /[:：][ \t"'*]*$/;
const MAX_COLON = 4;
/** Maximum number of unknown words between an announcement and a colon. */
const MAX_UNKNOWN = 2;
/** Scripts without spaces between words. */
const UNSPACED = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u9fff\uac00-\ud7a3]/;

const CAMEL_CASE = /(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu;
const IN_WORD = /[\p{L}\p{M}\p{N}_\u00ad\u200c\u200d]/u;
/** Accents, vowel points and characters without a width. */
const MARKS = /[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0640\u093c\u09bc\u0a3c\u00ad\u200b-\u200d]/g;
/** The plain letters for letters with several spellings, or without their stroke in names of fields. */
const SPELLINGS: Readonly<Record<string, string>> = table.spellings;

const folded = (text: string): string => {
  const lower = text.toLowerCase();
  if (/^[a-z]*$/.test(lower)) return lower;
  const bare = lower.normalize('NFKD').replace(MARKS, '').normalize('NFC');
  return bare.replace(/[đðøłıßæœىیېكةہھ]/g, (letter) => SPELLINGS[letter] ?? letter);
};

const listOf = (entries: string): string[] => entries.split(', ').filter((entry) => entry !== '');

/** Reads a table. `*` before an entry: the entry may end a longer word; `*` behind an entry: an inflection may follow; `?`: the entry is weak. */
function entriesOf(kinds: Readonly<Record<string, Readonly<Record<string, string>>>>): Entries {
  const entries = new Map<string, Entry[]>();
  for (const [kind, groups] of Object.entries(kinds)) {
    for (const [of, written] of Object.entries(groups).flatMap(([group, all]) =>
      listOf(all).map((one) => [group, one]),
    )) {
      const text = folded((written as string).replace(/[*?]/g, ''));
      const isEnd = /^\*/.test(written as string) || UNSPACED.test(text);
      const entry = { kind: kind as WordKind, of: of as string, isEnd, isStem: /\*\??$/.test(written as string) };
      // "dateofbirth" is a name, too.
      for (const key of new Set([text, text.replaceAll(' ', '')])) {
        entries.set(key, [...(entries.get(key) ?? []), { ...entry, isWeak: (written as string).endsWith('?') }]);
      }
    }
  }
  return entries;
}

const wordsOf = (groups: Readonly<Record<string, string>>): ReadonlySet<string> =>
  new Set(Object.values(groups).flatMap(listOf).map(folded));

const BEFORE = entriesOf(table.before);
const AFTER = entriesOf(table.after);
const LINKS = wordsOf(table.links);
const NOT = wordsOf(table.not);
/** The last words of entries of several words. */
const LAST_WORDS = new Set(
  [...BEFORE.keys(), ...NOT].flatMap((key) => (key.includes(' ') ? [key.split(' ').at(-1)] : [])),
);

/** Caches the results of a function, because the same words occur again. */
function kept<T>(read: (text: string) => T): (text: string) => T {
  const results = new Map<string, T>();
  return (text) => {
    const known = results.get(text);
    if (known !== undefined) return known;
    if (results.size >= 10_000) results.clear();
    const result = read(text);
    results.set(text, result);
    return result;
  };
}

const strong = (word: Word): Word => ({ ...word, isWeak: false });

/** Returns the words of a name or of a run of letters, without accents, in lower case. */
const partsOf = kept((text: string): readonly string[] =>
  folded(text.replace(CAMEL_CASE, ' '))
    .split(/[^\p{L}\p{M}]+/u)
    .filter((part) => part !== ''),
);

/** Returns the beginnings of a word before each link that ends it: "telefon" for "telefonnummer". */
function withoutLinks(word: string): string[] {
  const rests: string[] = [];
  const least = UNSPACED.test(word) ? 1 : 2;
  for (let length = least; length <= word.length; length += 1) {
    if (LINKS.has(word.slice(-length))) rests.push(word.slice(0, -length));
  }
  return rests;
}

/** Returns the announcements of a word or of several words. */
const lookUp = kept((words: string): readonly Word[] => {
  const found: Entry[] = [];
  for (let end = words.length; end > 0 && end >= words.length - MAX_ENDING; end -= 1) {
    for (let start = 0; start < end; start += 1) {
      const entries = BEFORE.get(words.slice(start, end)) ?? [];
      found.push(...entries.filter(({ isEnd, isStem }) => (isEnd || start === 0) && (isStem || end === words.length)));
    }
  }
  if (found.length > 0 || words.includes(' ')) return found;
  const rests = withoutLinks(words).filter((rest) => rest.length > 1);
  return rests.map(lookUp).find((inner) => inner.length > 0) ?? NONE;
});

/** Whether a colon precedes a place. Then the word before the colon is a label, and as sure as the name of a field. */
const isLabelled = (text: string, place: number): boolean =>
  COLON.test(text.slice(Math.max(0, place - MAX_COLON), place));

/** Whether a word may stand between an announcement and its value. */
const isLink = kept(
  (word: string): boolean =>
    LINKS.has(word) || (UNSPACED.test(word) && withoutLinks(word).some((rest) => rest === '' || isLink(rest))),
);

/** Returns the facts about a word that do not depend on the words before it. */
const known = kept((word: string) => ({
  isLink: isLink(word),
  isLast: LAST_WORDS.has(word),
  announced: NOT.has(word) ? undefined : lookUp(word),
}));

/** Returns the announcements of the words that end at a place; `undefined` if the words name something else. @param words in reverse order */
function announcedAt(words: readonly string[], at: number): readonly Word[] | undefined {
  const { isLast, announced } = known(words[at] as string);
  for (let count = isLast ? Math.min(MAX_WORDS, words.length - at) : 1; count > 1; count -= 1) {
    const several = words.slice(at, at + count).reverse();
    const phrase = several.join(' ');
    if (NOT.has(phrase)) return undefined;
    const found = lookUp(phrase);
    if (found.length > 0) return found;
  }
  return announced;
}

const inWord = (text: string, at: number): boolean => {
  const code = text.charCodeAt(at);
  if (code < 128) return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || isDigit(code) || code === 95;
  return IN_WORD.test(text.charAt(at));
};

/** Returns the range of the word before a place; `undefined` if no word is near. The word has at most two digits, at its end. */
function wordBefore(text: string, place: number): { start: number; end: number } | undefined {
  let end = place;
  while (end > place - MAX_GAP && GAP.has(text.charAt(end - 1))) end -= 1;
  let start = end;
  while (start > end - MAX_CHARS && start > 0 && inWord(text, start - 1)) {
    start -= 1;
    if (end - start > MAX_COUNT && isDigit(text.charCodeAt(start))) return undefined;
  }
  return start === end ? undefined : { start, end };
}

/**
 * Returns the announcements of the words before a place of a text, also across links such as "number is".
 *
 * @param text is read backwards for a few words only, so the time does not depend on its length
 */
export function wordsBefore(text: string, place: number): readonly Word[] {
  if (text !== latest.text) Object.assign(latest, { text, before: new Map() });
  const known = latest.before.get(place) ?? readBefore(text, place);
  latest.before.set(place, known);
  return known;
}

/** The results for the latest text. Several forms ask about the same place. */
const latest = { text: '', before: new Map<number, readonly Word[]>() };

function readBefore(text: string, place: number): readonly Word[] {
  const words: string[] = [];
  let start = place;
  const more = (): boolean => {
    const word = wordBefore(text, start);
    const parts = word ? partsOf(text.slice(word.start, word.end)) : [];
    words.push(...parts.toReversed());
    start = word?.start ?? 0;
    return parts.length > 0;
  };
  const found: Word[] = [];
  let unknown = 0;
  for (let at = 0; at <= MAX_LINKS && (at < words.length || more()); at += 1) {
    const { isLast, isLink } = known(words[at] as string);
    if (isLast) while (words.length < at + MAX_WORDS && more());
    const announced = announcedAt(words, at);
    if (announced === undefined) break;
    found.push(...announced);
    if (isLink) continue;
    // "tel. bureau: 01 42 68 53 00"
    if (found.length > 0 || unknown === MAX_UNKNOWN || !isLabelled(text, place)) break;
    unknown += 1;
  }
  if (found.length === 0) return NONE;
  if (unknown > 0) return found.filter(isOfPerson).map((word) => ({ ...word, isWeak: true }));
  if (isLabelled(text, place)) return found.map(strong);
  // "DT-2661-298669" is a number of something else.
  return /[A-Za-z]-$/.test(text.slice(Math.max(0, place - 2), place)) ? found.filter(({ isWeak }) => !isWeak) : found;
}
const isOfPerson = ({ kind }: Word): boolean => kind === 'phone' || kind === 'date_of_birth';

/** Returns the entries for a word without its inflection. In scripts without spaces, the rest of the word may have any length. */
const beginning = kept((word: string): readonly Word[] => {
  const most = UNSPACED.test(word) ? word.length : MAX_ENDING;
  for (let rest = 0; rest <= most && rest < word.length; rest += 1) {
    const entries = AFTER.get(word.slice(0, word.length - rest)) ?? [];
    const found = entries.filter(({ isStem }) => isStem || rest === 0);
    if (found.length > 0) return found;
  }
  return NONE;
});

/** Returns the announcements, by the words behind a place of a text, for the value before the place. */
export function wordsAfter(text: string, place: number): readonly Word[] {
  let end = place;
  let before: string[] = [];
  for (let count = 0; count < MAX_LINKS; count += 1) {
    let start = end;
    while (start < end + MAX_GAP_AFTER && GAP.has(text.charAt(start))) start += 1;
    end = start;
    while (end < start + MAX_CHARS && inWord(text, end)) end += 1;
    const [word = ''] = start === end ? [] : partsOf(text.slice(start, end));
    // In scripts without spaces, a particle of one or two letters may precede the word.
    const starts = UNSPACED.test(word)
      ? [word, word.slice(1), word.slice(2)]
      : [word, ...before.map((links) => `${links} ${word}`)];
    const found = starts.map(beginning).find((words) => words.length > 0);
    if (found || !isLink(word)) return found ?? NONE;
    before = [word, ...before.slice(0, 1).map((links) => `${links} ${word}`)];
  }
  return NONE;
}

/** Returns the announcements in the name of a field. No word of a name is weak. */
export const wordsOfName = kept((name: string): readonly Word[] => {
  const words = partsOf(name).toReversed();
  const found: Word[] = [];
  for (let at = 0; at < words.length; at += 1) {
    const announced = announcedAt(words, at);
    if (announced === undefined) break;
    found.push(...announced.map(strong));
  }
  return found;
});

/** Returns how surely words announce a kind; `undefined` if they do not. */
export function strengthOf(words: readonly Word[], kind: WordKind): 'surely' | 'maybe' | undefined {
  let strength: 'surely' | 'maybe' | undefined;
  for (const word of words)
    if (word.kind === kind && strength !== 'surely') strength = word.isWeak ? 'maybe' : 'surely';
  return strength;
}
