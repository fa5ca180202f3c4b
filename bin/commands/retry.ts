/** `inference-monitor retry`: processes the unfinished work of a run again, and follows the new run. */

import { type ExecutionInput, RETRY_WHAT, type RetryWhat } from '../../src/core/contract/input.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { inputOptions, reportOf, runOptions, startAndFollow } from '../cli/follow-and-report.ts';
import { command, option, options } from '../cli/options.ts';
import { type About, notice } from '../cli/output.ts';
import type { RunsFollowed } from '../cli/run-json.ts';
import { commandText } from '../cli/run-text.ts';
import { runArgument, stackOptions, withStack } from '../cli/stack.ts';
import { isPlanned, type RunReport } from '../operate/run-report.ts';

const OPTIONS = options(
  runArgument(),
  option('--what <what>', 'what to process again (default: what the run has)', { choices: RETRY_WHAT }),
  ...runOptions(),
  ...stackOptions(),
);

export type Output = About & RunsFollowed;

export default command('retry', OPTIONS, (flags) =>
  withStack(flags, async (stack) => {
    const report = await reportOf(stack, flags.run);
    const options = inputOptions(flags);
    // A retry of chunks includes only planned chunks.
    if ((flags.what ?? 'failed') === 'failed' && !isPlanned(report)) {
      notice('Planning had not finished, so the whole input of the run is started again.');
      return startAndFollow(stack, { ...(report.input as ExecutionInput), ...options }, flags);
    }
    if (report.status === 'running') {
      const expected = `a run that has ended: ${commandText(['show', report.run, '--follow'], stack.flag)}`;
      throw new PermanentError('RunGoesOn', 'The run has not ended', { got: report.run, expected });
    }
    const what = whatToRetry(report, flags.what);
    return startAndFollow(stack, { retry: { run: report.run, what }, ...options }, flags);
  }),
);

/** Decides what to retry. @throws PermanentError `NothingToRetry`, `RetryUnclear` */
function whatToRetry({ run, summary }: Pick<RunReport, 'run' | 'summary'>, asked: RetryWhat | undefined): RetryWhat {
  // Quarantined lines outlive the receipts.
  if (summary === undefined) return asked ?? 'quarantined';
  const { lines, verdicts, failedFiles } = summary;
  const left: Record<RetryWhat, number> = {
    failed: lines.lost + verdicts.failed + (failedFiles?.count ?? 0),
    quarantined: lines.quarantined,
    held: verdicts.heldByBudget,
  };
  const has = RETRY_WHAT.filter((what) => left[what] > 0);
  const [only, ...others] = has;
  if (only === undefined || (asked !== undefined && left[asked] === 0)) {
    const got = asked === undefined ? run : `${asked} of ${run}`;
    const expected =
      only === undefined ? 'a run with something failed, quarantined or held' : `--what ${has.join(' or ')}`;
    throw new PermanentError('NothingToRetry', 'The run has none of that left to process again', { got, expected });
  }
  if (asked !== undefined) return asked;
  if (others.length === 0) return only;
  const got = has.map((what) => `${left[what]} ${what}`).join(', ');
  const expected = `--what ${has.join(', or --what ')}`;
  throw new PermanentError('RetryUnclear', 'The run has more than one kind of work left', { got, expected });
}
