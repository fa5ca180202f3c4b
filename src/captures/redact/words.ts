/** Words of sentences and names of fields that announce what the value beside them is. */

import { isDigit } from './marks.ts';
import table from './words.json' with { type: 'json' };

export type WordKind = keyof typeof table.before;

/** One announcement. */
export interface Word {
  kind: WordKind;
  /** The group of the table that has the word: a language, or the country of an identifier. */
  of: string;
  /** Whether the word stands beside other numbers too, such as "call". */
  isWeak: boolean;
}

interface Entry extends Word {
  /** Whether it may be the end of a longer word, as in "Diensthandy". */
  isEnd: boolean;
  /** Whether an inflection may follow it. */
  isStem: boolean;
}
type Entries = ReadonlyMap<string, readonly Entry[]>;

const NONE: readonly Word[] = [];
/** Letters of an inflection. */
const MAX_ENDING = 4;
/** Words of an entry. */
const MAX_WORDS = 4;
/** Words between an announcement and its value. */
const MAX_LINKS = 5;
/** Characters of a word that is read, and those between two words. */
const MAX_CHARS = 40;
/** Digits of a name such as "phone2". */
const MAX_COUNT = 2;
const MAX_GAP = 12;
const MAX_GAP_AFTER = 3;
/** What stands between words, and between them and the value. */
const GAP = new Set('+ \t\r\n:：=#.°№\'’"`*|>()[]{}<\\/-–—_?~\u061c\u200e\u200f');
const COLON = /[:：][ \t"'*]*$/;
const MAX_COLON = 4;
/** Unknown words between what is announced and a colon. */
const MAX_UNKNOWN = 2;
/** Scripts without spaces between words. */
const UNSPACED = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u9fff\uac00-\ud7a3]/;

const CAMEL_CASE = /(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu;
const IN_WORD = /[\p{L}\p{M}\p{N}_\u00ad\u200c\u200d]/u;
/** Accents, vowel points and what has no width. */
const MARKS = /[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0640\u093c\u09bc\u0a3c\u00ad\u200b-\u200d]/g;
/** Letters that are written in several ways, or without their stroke in names of fields. */
const SPELLINGS: Readonly<Record<string, string>> = table.spellings;

const folded = (text: string): string => {
  const lower = text.toLowerCase();
  if (/^[a-z]*$/.test(lower)) return lower;
  const bare = lower.normalize('NFKD').replace(MARKS, '').normalize('NFC');
  return bare.replace(/[đðøłıßæœىیېكةہھ]/g, (letter) => SPELLINGS[letter] ?? letter);
};

const listOf = (entries: string): string[] => entries.split(', ').filter((entry) => entry !== '');

/** `*` before an entry: it may end a longer word; behind it: an inflection may follow; `?`: it is weak. */
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

/** Keeps results of short texts, since the same words return. */
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

/** Returns the links at the end of a word, and what is before the last one of them: "nummer" of "telefonnummer". */
function withoutLinks(word: string): string[] {
  const rests: string[] = [];
  const least = UNSPACED.test(word) ? 1 : 2;
  for (let length = least; length <= word.length; length += 1) {
    if (LINKS.has(word.slice(-length))) rests.push(word.slice(0, -length));
  }
  return rests;
}

/** Returns what a word announces, or several. */
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

/** Whether a colon is before a place: the word before it is a label, and as sure as the name of a field. */
const isLabelled = (text: string, place: number): boolean =>
  COLON.test(text.slice(Math.max(0, place - MAX_COLON), place));

/** Whether a word may stand between an announcement and its value. */
const isLink = kept(
  (word: string): boolean =>
    LINKS.has(word) || (UNSPACED.test(word) && withoutLinks(word).some((rest) => rest === '' || isLink(rest))),
);

/** Returns what is known of a word without those before it. */
const known = kept((word: string) => ({
  isLink: isLink(word),
  isLast: LAST_WORDS.has(word),
  announced: NOT.has(word) ? undefined : lookUp(word),
}));

/** Returns what the words that end at one of them announce; `undefined` if they name something else. @param words the last one first */
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

/** Returns where the word before a place begins and ends; `undefined` if there is none near it. Of digits, it has only one or two at its end. */
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
 * Returns what the words before a place of a text announce: those beside it, and those before links such as "number is".
 *
 * @param text read backwards for at most some words: the time does not depend on its length
 */
export function wordsBefore(text: string, place: number): readonly Word[] {
  if (text !== latest.text) Object.assign(latest, { text, before: new Map() });
  const known = latest.before.get(place) ?? readBefore(text, place);
  latest.before.set(place, known);
  return known;
}

/** What was read of the latest text: several forms ask about one place. */
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

/** Returns the entries for the beginning of a word: all of it but for an inflection, which is of any length in scripts without spaces. */
const beginning = kept((word: string): readonly Word[] => {
  const most = UNSPACED.test(word) ? word.length : MAX_ENDING;
  for (let rest = 0; rest <= most && rest < word.length; rest += 1) {
    const entries = AFTER.get(word.slice(0, word.length - rest)) ?? [];
    const found = entries.filter(({ isStem }) => isStem || rest === 0);
    if (found.length > 0) return found;
  }
  return NONE;
});

/** Returns what the words behind a place of a text announce of what is before it. */
export function wordsAfter(text: string, place: number): readonly Word[] {
  let end = place;
  let before: string[] = [];
  for (let count = 0; count < MAX_LINKS; count += 1) {
    let start = end;
    while (start < end + MAX_GAP_AFTER && GAP.has(text.charAt(start))) start += 1;
    end = start;
    while (end < start + MAX_CHARS && inWord(text, end)) end += 1;
    const [word = ''] = start === end ? [] : partsOf(text.slice(start, end));
    // A particle may begin a run of letters.
    const starts = UNSPACED.test(word)
      ? [word, word.slice(1), word.slice(2)]
      : [word, ...before.map((links) => `${links} ${word}`)];
    const found = starts.map(beginning).find((words) => words.length > 0);
    if (found || !isLink(word)) return found ?? NONE;
    before = [word, ...before.slice(0, 1).map((links) => `${links} ${word}`)];
  }
  return NONE;
}

/** Returns what the name of a field announces of its value. No word of a name is weak. */
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

/** Returns whether words announce a kind, and how surely. */
export function strengthOf(words: readonly Word[], kind: WordKind): 'surely' | 'maybe' | undefined {
  let strength: 'surely' | 'maybe' | undefined;
  for (const word of words)
    if (word.kind === kind && strength !== 'surely') strength = word.isWeak ? 'maybe' : 'surely';
  return strength;
}
