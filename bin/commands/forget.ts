/** `inference-monitor forget`: removes a person's ids from the ledger, and lists what remains in other places. */

import { PermanentError } from '../../src/core/errors/errors.ts';
import { many, time } from '../../src/core/text/figure-text.ts';
import { block, exact, firstOf, type Page, section } from '../../src/core/text/page.ts';
import { forgetIds } from '../../src/ledger/forget.ts';
import { confirmed } from '../cli/confirm.ts';
import { command, option, options } from '../cli/options.ts';
import { type About, notice, print, type Report } from '../cli/output.ts';
import { openStack, stackOptions } from '../cli/stack.ts';
import { type FoundTrace, tracesOf } from '../operate/find-traces.ts';
import { captureCommands, mlflowCommands, tracesToForget } from '../operate/forget.ts';

const OPTIONS = options(
  option('--trace <ids...>', 'ids of traces').conflicts(['user', 'session']),
  option('--user <id>', 'as it stands in the trace, where it may be a pseudonym').conflicts('session'),
  option('--session <id>', 'as it stands in the trace'),
  option('--yes', 'do not ask'),
  ...stackOptions(),
);

export type Output = About & {
  traces: FoundTrace[];
  /** Files of the ledger that were rewritten without their ids. */
  rewritten: number;
  /** Commands that delete the remaining data: the traces in MLflow, and the lines in the capture files. */
  remains: { mlflow: string[]; captures: string[] };
};

export default command('forget', OPTIONS, async (flags) => {
  const { trace: traces, user, session, yes } = flags;
  if ((traces ?? user ?? session) === undefined) {
    const expected = '--trace, --user or --session';
    throw new PermanentError('InvalidCommandLine', 'Nothing says whom to forget', { got: 'nobody', expected });
  }
  const { work, about } = await openStack(flags);
  const hours = await tracesToForget(work, { traces, user, session });
  const found = await tracesOf(work, hours);
  for (const { time: at, traceId, variant } of found) notice(`${time(at)} ${traceId} ${variant}`);
  const ask = `Forget who sent ${many(hours.size, 'request')}? The ledger keeps no copy of these ids.`;
  if (hours.size > 0 && !(await confirmed(ask, yes))) return;
  const rewritten = hours.size > 0 ? await forgetIds(work, hours, Date.now()) : 0;
  const remains = { mlflow: mlflowCommands(found), captures: captureCommands(found) };
  const result = { traces: found, rewritten, remains };
  print<Report<Output>>(result, flags.json, forgottenPage(result), about);
});

/** Maximum number of printed commands; `--json` has all of them. */
const SHOWN = 10;

function forgottenPage({ traces, rewritten, remains: { mlflow, captures } }: Report<Output>): Page {
  if (traces.length === 0) return ['The ledger has no such id.'];
  const commands = (all: readonly string[]) => firstOf(SHOWN, all.map(exact), ': see --json');
  return [
    block(
      `The ids of ${many(traces.length, 'trace')} are forgotten; ${many(rewritten, 'file')} of the ledger rewritten.`,
    ),
    section('MLflow still has the traces', ...commands(mlflow)),
    section('The capture files still have the lines', ...commands(captures)),
    block('docs/your-data.md names the other places.'),
  ];
}
