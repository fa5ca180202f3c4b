/** `inference-monitor traffic`: leaves captures of a time, such as those of a load test, out of all figures, or takes them back. */
import { PermanentError } from '../../src/core/errors/errors.ts';
import { time } from '../../src/core/text/figure-text.ts';
import { table } from '../../src/core/text/page.ts';
import { changeExcluded, type ExcludedWindow, readExcluded, withoutSpan } from '../../src/ledger/excluded.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { argument, command, type FlagsOf, option, options } from '../cli/options.ts';
import { type About, notice, print } from '../cli/output.ts';
import { stackOptions, withStack } from '../cli/stack.ts';
import { isoWindow, windowOfFlags } from '../cli/window.ts';

/** Maximum numbers, because each chunk reads the list. */
const [MOST_WINDOWS, MOST_CHARS] = [100, 200];

const OPTIONS = options(
  argument('[action]', 'what to do (default: list the windows)').choices(['exclude', 'include']),
  option('--from <time>', 'start of the window: an instant, a day, or an age such as 12h, 7d'),
  option('--to <time>', 'end of the window, which may be in the future'),
  option('--variant <name>', 'only this variant of the endpoint'),
  option(
    '--id-pattern <pattern>',
    'only captures whose caller chose such an inference id; * stands for any characters',
  ),
  ...stackOptions(),
);
type Flags = FlagsOf<typeof OPTIONS>;

/** Output of `--json`. */
export interface TrafficOutput {
  /** The excluded windows after the change, in the order of time. */
  windows: (ReturnType<typeof isoWindow> & Pick<ExcludedWindow, 'variant' | 'idPattern'>)[];
}

export type Output = About & TrafficOutput;

export default command('traffic', OPTIONS, async (flags) => {
  const span = spanOf(flags);
  await withStack(flags, async ({ work, about }) => {
    const before = await readExcluded(work);
    if (span !== undefined) await changeExcluded(work, (list) => changed(list, span, flags));
    const after = await readExcluded(work);
    if (flags.action === 'include' && JSON.stringify(before) === JSON.stringify(after))
      notice('No such window was excluded.');
    const windows = after
      .toSorted((a, b) => a.fromMs - b.fromMs)
      .map(({ fromMs, toMs, ...others }) => ({ ...isoWindow({ fromMs, toMs }), ...others }));
    const rows = windows.map(({ from, to, variant = 'all', idPattern = 'all' }) => [
      time(from),
      time(to),
      variant,
      idPattern,
    ]);
    const page =
      rows.length > 0 ? [table(rows, ['excluded from', 'to', 'variant', 'ids'])] : ['No window is excluded.'];
    print<TrafficOutput>({ windows }, flags.json, page, about);
  });
});

/** @returns `undefined` without an action @throws PermanentError `InvalidCommandLine`, `InvalidTime` */
function spanOf({ action, from, to, variant, idPattern = '*' }: Flags): TimeWindow | undefined {
  const given = [from && '--from', to && '--to', variant && '--variant', idPattern !== '*' && '--id-pattern'].filter(
    Boolean,
  );
  const got = [action, ...given].filter(Boolean).join(' ');
  if (action === undefined && given.length === 0) return undefined;
  const expected = 'exclude or include, with --from and --to';
  if (action === undefined || from === undefined || to === undefined)
    throw new PermanentError('InvalidCommandLine', 'A change names the action and the window', { got, expected });
  if (idPattern.length === 0 || idPattern.length > MOST_CHARS) {
    const facts = { got: `${idPattern.length} characters`, expected: `1 to ${MOST_CHARS}`, where: '--id-pattern' };
    throw new PermanentError('InvalidCommandLine', 'The pattern has another length', facts);
  }
  const { fromMs = 0, toMs = 0 } = windowOfFlags({ from, to });
  return { fromMs, toMs };
}

/** Windows of the same captures never overlap. @throws PermanentError `InvalidCommandLine` */
function changed(list: readonly ExcludedWindow[], span: TimeWindow, { action, variant, idPattern }: Flags) {
  const isSame = (window: ExcludedWindow): boolean => window.variant === variant && window.idPattern === idPattern;
  const isAny = action === 'include' && variant === undefined && idPattern === undefined;
  const { touched = [], others = [] } = Object.groupBy(list, (one) => (isAny || isSame(one) ? 'touched' : 'others'));
  const windows = [...others, ...withoutSpan(touched, span)];
  if (action === 'exclude') windows.push({ ...span, variant, idPattern });
  if (windows.length <= MOST_WINDOWS) return windows;
  const facts = { got: `${windows.length} windows`, expected: `${MOST_WINDOWS} at most: take back older ones` };
  throw new PermanentError('InvalidCommandLine', 'Too many windows are excluded', facts);
}
