/** Scorers that tell the language of the request and of the reply. */
import { francAll } from 'franc';
import type { CodeScorer } from '../types.ts';
import { FUNCTION_WORDS, LANGUAGES, TELLING_LETTERS } from './language-data.ts';
import { lastUserTexts, replyTexts, type Texts } from './text.ts';

/** The longest beginning of a text that is looked at; `franc` itself stops at 2,048 characters. */
const MAX_CHARS = 4096;
/** Fewer letters of a script that many languages share are no basis: "ok, danke", a name, a product code. */
const MIN_LETTERS = 16;
/** The same for scripts that one language has to itself, or whose letters are words. */
const MIN_LETTERS_OWN_SCRIPT = 4;
/** Trigrams alone decide from this many letters on … */
const MIN_LETTERS_TRIGRAMS = 80;
/** … and only with this distance between the best language and the next (0 to 1). Measured: wrong answers stay below. */
const MIN_TRIGRAM_MARGIN = 0.1;
/** Hits by which the best language must lead when trigrams say otherwise or say nothing clear. */
const MIN_WORD_LEAD = 2;
/** Votes that telling letters give at most: a foreign name should not outvote the words around it. */
const MAX_LETTER_HITS = 3;
/** Share of a text's letters that its main script must have. */
const MIN_SCRIPT_SHARE = 0.6;

/** Scripts of (nearly) one language. */
const OWN_SCRIPTS: readonly (readonly [string, RegExp])[] = [
  ['ja', /[\p{Script=Hiragana}\p{Script=Katakana}]/gu],
  ['ko', /\p{Script=Hangul}/gu],
  ['el', /\p{Script=Greek}/gu],
  ['he', /\p{Script=Hebrew}/gu],
  ['th', /\p{Script=Thai}/gu],
  ['lo', /\p{Script=Lao}/gu],
  ['km', /\p{Script=Khmer}/gu],
  ['my', /\p{Script=Myanmar}/gu],
  ['ka', /\p{Script=Georgian}/gu],
  ['hy', /\p{Script=Armenian}/gu],
  ['bn', /\p{Script=Bengali}/gu],
  ['gu', /\p{Script=Gujarati}/gu],
  ['pa', /\p{Script=Gurmukhi}/gu],
  ['ta', /\p{Script=Tamil}/gu],
  ['te', /\p{Script=Telugu}/gu],
  ['kn', /\p{Script=Kannada}/gu],
  ['ml', /\p{Script=Malayalam}/gu],
  ['si', /\p{Script=Sinhala}/gu],
  ['am', /\p{Script=Ethiopic}/gu],
];
const HAN = /\p{Script=Han}/gu;
/** Japanese mixes kana into Chinese characters; this share of kana among both makes it Japanese. */
const MIN_KANA_SHARE = 0.1;

const WORDS_OF = new Map<string, string[]>();
for (const [language, words] of Object.entries(FUNCTION_WORDS)) {
  for (const word of words.split(' ')) WORDS_OF.set(word, [...(WORDS_OF.get(word) ?? []), language]);
}
const LETTERS_OF = Object.entries(TELLING_LETTERS).map(
  ([language, letters]) => [language, new RegExp(`[${letters}]`, 'gu')] as const,
);
const TRIGRAM_LANGUAGES = Object.keys(LANGUAGES);

/** Takes out what is written in no language: code, addresses, markup, numbers. */
const prose = (text: string): string =>
  text
    .slice(0, MAX_CHARS)
    .replace(/```[\s\S]*?(```|$)/g, ' ')
    .replace(/`[^`\n]{0,200}`/g, ' ')
    .replace(/\b(?:https?:\/\/|www\.)\S+/gi, ' ')
    .replace(/\S+/g, (word) => (/.@./u.test(word) ? ' ' : word))
    .replace(/<[^<>]{1,200}>/g, ' ')
    .replace(/[\d_]+/g, ' ');

const count = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0;

function byScript(text: string, letters: number): string | undefined {
  const han = count(text, HAN);
  let best: string | undefined;
  let most = 0;
  for (const [language, pattern] of OWN_SCRIPTS) {
    const found = count(text, pattern);
    if (found > most) [best, most] = [language, found];
  }
  if (han > 0 && (han > most || best === 'ja')) {
    const isJapanese = best === 'ja' && most / (han + most) >= MIN_KANA_SHARE;
    [best, most] = [isJapanese ? 'ja' : 'zh', isJapanese ? han + most : han];
  }
  return best !== undefined && most >= MIN_LETTERS_OWN_SCRIPT && most / letters >= MIN_SCRIPT_SHARE ? best : undefined;
}

/** Languages by their frequent words and telling letters in the text, most first. */
function byWords(text: string): [language: string, hits: number][] {
  const hits = new Map<string, number>();
  const lower = text.toLowerCase();
  for (const [language, letters] of LETTERS_OF) {
    const found = Math.min(count(lower, letters), MAX_LETTER_HITS);
    if (found > 0) hits.set(language, found);
  }
  const words = lower.replace(/[’ʼ]/g, "'").match(/[\p{L}\p{M}'-]+/gu) ?? [];
  for (const word of words) {
    for (const language of WORDS_OF.get(word) ?? []) hits.set(language, (hits.get(language) ?? 0) + 1);
  }
  return [...hits].sort((a, b) => b[1] - a[1]);
}

/**
 * The language of a text as an ISO 639-1 code, or the reason why it is not said. A wrong guess is worse than none:
 * what is short, mixed, or between two close languages is `languageUnclear`.
 */
export function detectLanguage(whole: string): { language: string } | { notJudgeable: string } {
  const text = prose(whole);
  const letters = count(text, /\p{L}/gu);
  if (letters < MIN_LETTERS_OWN_SCRIPT) return { notJudgeable: 'textTooShort' };
  const own = byScript(text, letters);
  if (own !== undefined) return { language: own };
  if (letters < MIN_LETTERS) return { notJudgeable: 'textTooShort' };

  const [first, second] = francAll(text, { only: TRIGRAM_LANGUAGES, minLength: 1 });
  const byTrigrams = first === undefined ? undefined : LANGUAGES[first[0]];
  const margin = first === undefined ? 0 : first[1] - (second?.[1] ?? 0);
  const [best, next] = byWords(text);
  const lead = (best?.[1] ?? 0) - (next?.[1] ?? 0);

  if (best !== undefined && lead > 0 && best[0] === byTrigrams) return { language: best[0] };
  if (best !== undefined && lead >= MIN_WORD_LEAD) return { language: best[0] };
  // No list of frequent words is against it: the script or the language has none, or the lists are at a tie.
  const unopposed = best === undefined || lead === 0;
  if (byTrigrams !== undefined && unopposed && letters >= MIN_LETTERS_TRIGRAMS && margin >= MIN_TRIGRAM_MARGIN) {
    return { language: byTrigrams };
  }
  // Scripts shared by few languages (Cyrillic, Arabic, Devanagari) are told apart by fewer letters.
  if (
    byTrigrams !== undefined &&
    best === undefined &&
    !/\p{Script=Latin}/u.test(text) &&
    margin >= MIN_TRIGRAM_MARGIN / 2
  ) {
    return { language: byTrigrams };
  }
  return { notJudgeable: 'languageUnclear' };
}

function score(found: Texts): ReturnType<CodeScorer['score']> {
  if ('notJudgeable' in found) return found;
  const result = detectLanguage(found.texts.join('\n'));
  return 'notJudgeable' in result ? result : { value: result.language };
}

const LIMITS =
  'It does not guess: texts of a few words, mixed ones and those between two close languages are not judgeable; ' +
  'languages outside its list of about 70 are not told, code and addresses are left out, and only the first 4,096 ' +
  'characters are read. It does not see whether the language is well written.';

export const requestLanguage: CodeScorer = {
  kind: 'code',
  name: 'request_language',
  version: '1',
  description: `Language (ISO 639-1 code) of the last thing the user said, or of the whole request where there is no user message. ${LIMITS}`,
  score: (capture) => score(lastUserTexts(capture)),
};

export const replyLanguage: CodeScorer = {
  kind: 'code',
  name: 'reply_language',
  version: '1',
  description: `Language (ISO 639-1 code) of the reply. Error replies are not judgeable. ${LIMITS}`,
  score: (capture) => (capture.error === undefined ? score(replyTexts(capture)) : { notJudgeable: 'errorReply' }),
};
