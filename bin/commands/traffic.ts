/** `inference-monitor traffic`: leaves captures of a time, such as those of a load test, out of all figures, or takes them back. */
import { PermanentError } from '../../src/core/errors/errors.ts';
import { time } from '../../src/core/text/figure-text.ts';
import { table } from '../../src/core/text/page.ts';
import { changeExcluded, type ExcludedWindow, readExcluded, withoutSpan } from '../../src/ledger/excluded.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { argument, command, option, options } from '../cli/options.ts';
import { type About, print } from '../cli/output.ts';
import { openStack, stackOptions } from '../cli/stack.ts';
import { isoWindow, windowOfFlags, windowOptions } from '../cli/window.ts';

const OPTIONS = options(
  argument('[action]', 'what to do').choices(['list', 'exclude', 'include']).default('list'),
  ...windowOptions(),
  option('--variant <pattern>', 'only these variants of the endpoint; * stands for any characters'),
  option('--id-pattern <pattern>', 'only captures for which the caller chose such an inference id'),
  ...stackOptions(),
);

/** Output of `--json`: the windows after the change, in the order of time. */
export interface TrafficOutput {
  windows: (ReturnType<typeof isoWindow> & Pick<ExcludedWindow, 'variant' | 'inferenceId'>)[];
}

export type Output = About & TrafficOutput;

export default command('traffic', OPTIONS, async (flags) => {
  const { action, variant, idPattern: inferenceId } = flags;
  const { fromMs, toMs } = windowOfFlags(flags);
  const isChange = fromMs !== undefined && toMs !== undefined;
  if (isChange === (action === 'list')) {
    const expected = 'exclude or include with --from and --to, or list without';
    throw new PermanentError('InvalidCommandLine', 'The window and the action do not fit', { got: action, expected });
  }
  const isAny = action === 'include' && (variant ?? inferenceId) === undefined;
  const { work, about } = await openStack(flags);
  const change = (list: ExcludedWindow[], span: TimeWindow): ExcludedWindow[] => [
    ...list.flatMap((one) =>
      isAny || (one.variant === variant && one.inferenceId === inferenceId) ? withoutSpan(one, span) : one,
    ),
    ...(action === 'exclude' ? [{ ...span, variant, inferenceId }] : []),
  ];
  if (isChange) await changeExcluded(work, (list) => change(list, { fromMs, toMs }));
  const list = (await readExcluded(work)).toSorted((a, b) => a.fromMs - b.fromMs);
  const windows = list.map((one) => ({ ...isoWindow(one), variant: one.variant, inferenceId: one.inferenceId }));
  const rows = windows.map((one) => [time(one.from), time(one.to), one.variant ?? 'all', one.inferenceId ?? 'all']);
  const page = rows.length > 0 && table(rows, ['excluded from', 'to', 'variant', 'ids']);
  print<TrafficOutput>({ windows }, flags.json, [page || 'No window is excluded.'], about);
});
