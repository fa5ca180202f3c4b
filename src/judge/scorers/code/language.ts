/** Detects the language of the request and of the reply. */
import { francAll } from 'franc';
import { lastUserTexts, replyWords, type Texts } from '../../../captures/reply-text.ts';
import type { Capture } from '../../../captures/types.ts';
import { codeScorer } from './code-scorer.ts';
import languages from './languages.json' with { type: 'json' };

/** Maximum number of characters that are read. `franc` itself stops at 2,048. */
const MAX_CHARS = 4096;
/** Minimum number of letters in a script that several languages share. */
const MIN_LETTERS = 40;
/** Minimum number of letters in a script that only one language uses. */
const MIN_LETTERS_OWN_SCRIPT = 4;
/**
 * Minimum distance between the scores of the best two languages (0 to 1), times the number of letters. On 32,000 translated
 * program messages in 43 languages, 0.3% of the answers are wrong with 10, and 1% with 6.
 */
const MIN_EVIDENCE = 10;

/** ISO 639-1 codes of the supported languages, by the ISO 639-3 codes of `franc`. */
const LANGUAGES: Readonly<Record<string, string>> = languages;
const CODES = Object.keys(LANGUAGES);

/** Removes text that is not natural language: code, addresses, markup, numbers. */
const prose = (text: string): string =>
  text
    .slice(0, MAX_CHARS)
    .replace(/```[\s\S]*?(```|$)/g, ' ')
    .replace(/`[^`\n]{0,200}`/g, ' ')
    .replace(/\b(?:https?:\/\/|www\.)\S+/gi, ' ')
    .replace(/\S+/g, (word) => (/.@./u.test(word) ? ' ' : word))
    .replace(/<[^<>]{1,200}>/g, ' ')
    .replace(/[\d_]+/g, ' ');

/**
 * Returns the language of a text as an ISO 639-1 code, or the reason why it was not determined. A wrong guess is worse
 * than no answer: mixed texts, and texts between two close languages, are `languageUnclear`.
 */
export function detectLanguage(whole: string): { language: string } | { notJudgeable: string } {
  const text = prose(whole);
  const letters = text.match(/\p{L}/gu)?.length ?? 0;
  const [first, second] = francAll(text, { only: CODES, minLength: MIN_LETTERS_OWN_SCRIPT });
  const language = first && LANGUAGES[first[0]];
  if (letters < (language && !second ? MIN_LETTERS_OWN_SCRIPT : MIN_LETTERS)) return { notJudgeable: 'textTooShort' };
  const isClear = !second || ((first?.[1] ?? 0) - second[1]) * letters >= MIN_EVIDENCE;
  return language && isClear ? { language } : { notJudgeable: 'languageUnclear' };
}

const languageOf = (name: 'request_language' | 'reply_language', textsOf: (capture: Capture) => Texts) =>
  codeScorer(name, {
    version: '2',
    score(capture) {
      const found = textsOf(capture);
      if ('notJudgeable' in found) return found;
      const result = detectLanguage(found.texts.join('\n'));
      return 'notJudgeable' in result ? result : { value: result.language };
    },
  });

export const requestLanguage = languageOf('request_language', lastUserTexts);
export const replyLanguage = languageOf('reply_language', replyWords);
