/** A progress line: rewritten in place on a terminal, printed again after a change elsewhere. */

import { columnsOf } from '../../src/core/text/terminal-text.ts';

/** Without a terminal, lines are printed at least this far apart, so that a log stays readable. */
const PLAIN_EVERY_MS = 5_000;

const TICK_MS = 1_000;

const CLEAR_LINE = '\r\u001b[2K';

/**
 * Starts a progress line. A text that ends in `…` is followed by the seconds since it was set.
 *
 * @param output the stream to write to; `isTTY` decides how
 */
export function startProgress(output: NodeJS.WriteStream) {
  let text = '';
  let since = 0;
  let shown = '';
  let shownAt = 0;
  let closed = false;
  const terminal = output.isTTY === true;
  const cut = (line: string) => line.slice(0, columnsOf(output) - 1);
  const draw = () => {
    const seconds = Math.floor((Date.now() - since) / 1000);
    const line = text.endsWith('…') && seconds > 0 ? `${text} ${seconds} s` : text;
    if (line === shown) return;
    if (terminal) output.write(`${CLEAR_LINE}${cut(line)}`);
    else if (line && Date.now() - shownAt >= PLAIN_EVERY_MS) {
      output.write(`${line}\n`);
      shownAt = Date.now();
    }
    shown = line;
  };
  const end = () => {
    text = '';
    draw();
  };
  const log = (line: string) => {
    if (closed) return;
    if (terminal && shown) output.write(CLEAR_LINE);
    output.write(`${line}\n`);
    if (terminal) output.write(cut(shown));
  };
  setInterval(draw, TICK_MS).unref();
  return {
    /** Prints a line that stays. */
    log,
    /** Shows the state of the work in progress. */
    show(state: string | Facts) {
      const width = terminal ? columnsOf(output) - 1 : undefined;
      const next = typeof state === 'string' ? state : factsLine(state, width);
      if (closed || next === text) return;
      text = next;
      since = Date.now();
      draw();
    },
    /** Removes the progress line. */
    end,
    /** Prints a last line, after which no progress is shown. */
    close(line: string) {
      end();
      log(line);
      closed = true;
    },
  };
}

/** Facts for one line, more important facts first. Empty facts are left out. */
export interface Facts {
  facts: readonly (string | false | undefined)[];
  /** Share of the work that is done, for a bar on a terminal. */
  share?: number | undefined;
}

const BAR_WIDTH = 20;

/** Joins facts: all of them for a pipe; on a terminal those that fit its width, behind a bar such as `████░░░░`. */
export function factsLine({ facts, share }: Facts, width = Number.POSITIVE_INFINITY): string {
  const columns = Number.isFinite(width) && share !== undefined ? Math.min(BAR_WIDTH, Math.floor(width / 6)) : 0;
  const filled = Math.min(columns, Math.floor((share ?? 0) * columns));
  const bar = `${'█'.repeat(filled)}${'░'.repeat(columns - filled)} `.trimStart();
  const [first, ...others] = facts.filter((fact): fact is string => Boolean(fact));
  return others.reduce(
    (text, fact) => (text.length + 2 + fact.length <= width ? `${text}, ${fact}` : text),
    `${bar}${first}`,
  );
}
