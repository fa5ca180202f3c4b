/** The command that sends what a replay did not. */
import { shellWord } from '../../src/core/text/shell-word.ts';
import { isByCapturedTimes } from '../../src/replay/derived-options.ts';
import { shownUrl } from '../../src/replay/request/target.ts';
import type { ReplayResult } from '../../src/replay/to-directory.ts';
import type { ReplayFlags } from './replay-options.ts';

const iso = (ms: number | null): string => new Date(ms ?? 0).toISOString();

/** Hides the values of headers, and what a URL has of secrets. */
function shown(word: string, index: number, words: readonly string[]): string {
  if (words[index - 1] === '--header' || word.startsWith('--header=')) return word.replace(/:.*/s, ': …');
  return /^(?:--url=)?https?:/i.test(word) ? shownUrl(word) : word;
}

/**
 * Returns the command, with a folder of its own: the words of this one, and further options, of which the last one counts.
 *
 * @param words the arguments of this process
 * @returns `undefined` if everything was sent
 */
export function restCommand(
  words: readonly string[],
  { out, from, to, repeat, requestCount, ...flags }: ReplayFlags,
  { rest, options, captures, sent, run }: ReplayResult,
): string | undefined {
  if (rest === undefined) return undefined;
  const { firstMs, lastMs } = captures;
  const offset = ['--fixed-schedule-start-offset', rest.timeMs - (firstMs ?? 0)];
  const more = [
    ...(isByCapturedTimes(options)
      ? [...offset, ...(from ? ['--from', iso(firstMs)] : [])]
      : ['--from', iso(rest.timeMs)]),
    // An age counts from another time then.
    ...(to ? ['--to', iso((lastMs ?? 0) + 1)] : []),
    // The passes after it are whole.
    ...(repeat > 1 ? ['--repeat', 1] : []),
    ...(requestCount ? ['--request-count', requestCount - sent + rest.again] : []),
    ...(flags.run ? ['--run', `${run}-rest`] : []),
    ...(out ? ['--out', `${out}-rest`] : []),
  ];
  const kept = words.filter((word) => word !== '--fixed-schedule-auto-offset').map(shown);
  return ['inference-monitor', ...kept, ...more].map((word) => shellWord(String(word))).join(' ');
}
