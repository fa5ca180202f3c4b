/** A progress line: rewritten in place on a terminal, printed again after a change elsewhere. */

import { columnsOf } from '../../src/core/text/terminal-text.ts';

export type ProgressLine = ReturnType<typeof startProgress>;

/** Without a terminal, lines are at least this far apart, so that a log stays readable. */
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
    show(next: string) {
      if (closed || next === text) return;
      text = next;
      since = Date.now();
      draw();
    },
    /** Removes the progress line. */
    end,
    /** Prints a last line. Nothing is shown after it. */
    close(line: string) {
      end();
      log(line);
      closed = true;
    },
  };
}

/** Joins the facts that fit a width, in their order. */
export function joinFitting(facts: readonly string[], width = Number.POSITIVE_INFINITY): string {
  let text = facts[0] ?? '';
  for (const fact of facts.slice(1)) if (text.length + 2 + fact.length <= width) text += `, ${fact}`;
  return text;
}

const BAR_WIDTH = 20;

/** Draws a bar, such as `████████░░░░░░░░░░░░` for a share of 0.4. */
export function shareBar(share: number, width = BAR_WIDTH): string {
  const filled = Math.min(width, Math.floor(share * width));
  return `${'█'.repeat(filled)}${'░'.repeat(width - filled)}`;
}

/** Draws a bar such as `████████░░░░░░░░░░░░ 4/10`. */
export const bar = (done: number, total: number): string =>
  `${shareBar(total === 0 ? 1 : done / total)} ${done}/${total}`;
