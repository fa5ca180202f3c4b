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

const DEFAULT_COLUMNS = 80;

const CLEAR_LINE = '\r\u001b[2K';

/** @param output where it is shown; `isTTY` decides how */
export function startProgress(output: NodeJS.WriteStream): Progress {
  let shown = '';
  let shownAt = 0;
  let closed = false;
  const terminal = output.isTTY === true;
  // Some terminals say 0.
  const cut = (text: string) => text.slice(0, (output.columns || DEFAULT_COLUMNS) - 1);
  const clear = () => {
    if (terminal && shown) output.write(CLEAR_LINE);
    shown = '';
  };
  const log = (line: string) => {
    if (closed) return;
    const under = shown;
    clear();
    output.write(`${line}\n`);
    if (terminal && under) {
      output.write(cut(under));
      shown = under;
    }
  };
  return {
    log,
    show(text) {
      if (closed || text === shown) return;
      if (terminal) output.write(`${CLEAR_LINE}${cut(text)}`);
      else if (Date.now() - shownAt >= PLAIN_EVERY_MS) {
        output.write(`${text}\n`);
        shownAt = Date.now();
      }
      shown = text;
    },
    end: clear,
    close(line) {
      clear();
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
