/** Cutting long texts in the middle, within a token bound. */
import { estimateTokens } from './tokens.ts';

/** What stands in the place of the characters that were left out; the judge is told what it means. */
const cutMark = (characters: number): string => `\n[… ${characters} characters left out here …]\n`;

/** A cut text keeps at least this much: its beginning and its end say what it is. */
const MIN_KEPT_CHARS = 80;

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff;
const isLowSurrogate = (code: number): boolean => code >= 0xdc00 && code <= 0xdfff;

/**
 * The text within `maxTokens` (estimated): whole if it fits, else its beginning and its end with a visible mark between.
 */
export function cutMiddle(text: string, maxTokens: number, tokens = estimateTokens(text)): string {
  if (tokens <= maxTokens) return text;
  const kept = Math.max(MIN_KEPT_CHARS, Math.floor((text.length * maxTokens) / tokens) - cutMark(text.length).length);
  if (kept >= text.length) return text;
  let headEnd = Math.ceil(kept / 2);
  let tailStart = text.length - Math.floor(kept / 2);
  // A character outside the basic plane is two code units; half of one is not text.
  if (isHighSurrogate(text.charCodeAt(headEnd - 1))) headEnd -= 1;
  if (isLowSurrogate(text.charCodeAt(tailStart))) tailStart += 1;
  return text.slice(0, headEnd) + cutMark(tailStart - headEnd) + text.slice(tailStart);
}

interface Share {
  tokens: number;
  /** How much of a scarce bound it may claim against the others. */
  weight: number;
}

/**
 * Divides a token bound: what needs less than its weight's part gets all it needs, and leaves the rest to the others.
 * @returns the tokens granted to each, in the same order; their sum is at most `bound`.
 */
export function divideBound(shares: readonly Share[], bound: number): number[] {
  const granted = new Array<number>(shares.length).fill(0);
  let open = shares.map((share, index) => ({ ...share, index }));
  let left = bound;
  while (open.length > 0) {
    const weights = open.reduce((sum, { weight }) => sum + weight, 0);
    const fits = open.filter(({ tokens, weight }) => tokens <= (left * weight) / weights);
    if (fits.length === 0) {
      for (const { index, weight } of open) granted[index] = Math.floor((left * weight) / weights);
      break;
    }
    for (const { index, tokens } of fits) {
      granted[index] = tokens;
      left -= tokens;
    }
    open = open.filter(({ index }) => !fits.some((fit) => fit.index === index));
  }
  return granted;
}
