/** One line of progress, rewritten in place on a terminal, repeated when it changes elsewhere. */

export interface Progress {
  /** Shows the state of the work under way. */
  show(text: string): void;
  /** Prints a line that stays. */
  log(line: string): void;
  /** Takes the line of progress away. */
  end(): void;
  /** Says the last word: nothing is shown after it. */
  close(line: string): void;
}

/** Without a terminal a line is repeated at most this often, so that a log stays readable. */
const PLAIN_EVERY_MS = 5_000;

const TICK_MS = 1_000;

const DEFAULT_COLUMNS = 80;

const CLEAR_LINE = '\r\u001b[2K';

/**
 * A text that ends in `…` waits for something: it goes on with the seconds that it has waited.
 *
 * @param output where it is shown; `isTTY` decides how
 */
export function startProgress(output: NodeJS.WriteStream): Progress {
  let text = '';
  let since = 0;
  let shown = '';
  let shownAt = 0;
  let closed = false;
  const terminal = output.isTTY === true;
  // Some terminals say 0.
  const cut = (line: string) => line.slice(0, (output.columns || DEFAULT_COLUMNS) - 1);
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
    log,
    show(next) {
      if (closed || next === text) return;
      text = next;
      since = Date.now();
      draw();
    },
    end,
    close(line) {
      end();
      log(line);
      closed = true;
    },
  };
}

const BAR_WIDTH = 20;

/** `████████░░░░░░░░░░░░ 4/10` */
export function bar(done: number, total: number): string {
  const filled = total === 0 ? BAR_WIDTH : Math.floor((done / total) * BAR_WIDTH);
  return `${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)} ${done}/${total}`;
}
