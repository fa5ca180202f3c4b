/**
 * `inference-monitor retry`: processes the unfinished work of a run again, and follows the new run; or sends a window to the
 * OpenTelemetry receiver again.
 */

import { type ExecutionInput, RETRY_WHAT, type RetryWhat } from '../../src/core/contract/input.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { many } from '../../src/core/text/figure-text.ts';
import { inputOptions, reportOf, runOptions, startAndFollow } from '../cli/follow-and-report.ts';
import { argument, command, type FlagsOf, option, options } from '../cli/options.ts';
import { type About, notice, print, type Report } from '../cli/output.ts';
import type { RunsFollowed } from '../cli/run-json.ts';
import { commandText } from '../cli/run-text.ts';
import { type DeployedStack, openStack, stackOptions } from '../cli/stack.ts';
import { windowOfFlags, windowOptions } from '../cli/window.ts';
import { filesToSend, findOtlpQueue, sendEvents } from '../operate/forwarding.ts';
import { isPlanned, type RunReport } from '../operate/run-report.ts';

const OTLP = 'otlp';

const OPTIONS = options(
  argument('[run]', 'name or ARN of the execution'),
  option('--what <what>', 'what to process again (default: what the run has)', {
    choices: [...RETRY_WHAT, OTLP] as const,
  }),
  ...windowOptions(),
  ...runOptions(),
  ...stackOptions(),
);

export type Output = About &
  RunsFollowed & {
    /** With `--what otlp`: files of the ledger whose spans and verdicts are sent again. */
    files?: number;
  };

export default command('retry', OPTIONS, async (flags) => {
  const stack = await openStack(flags);
  const { what: asked, from, run } = flags;
  if (asked === OTLP && from !== undefined && run === undefined) return sendAgain(stack, flags);
  if (asked === OTLP || from !== undefined || run === undefined) {
    const facts = { expected: 'a run, or --what otlp with --from (and --to)' };
    throw new PermanentError('SourceMissing', 'Nothing was named that is to be processed again', facts);
  }
  const report = await reportOf(stack, run);
  const options = inputOptions(flags);
  // A retry of chunks includes only planned chunks.
  if ((asked ?? 'failed') === 'failed' && !isPlanned(report)) {
    notice('Planning had not finished, so the whole input of the run is started again.');
    return startAndFollow(stack, { ...(report.input as ExecutionInput), ...options }, flags);
  }
  if (report.status === 'running') {
    const expected = `a run that has ended: ${commandText(['show', report.run, '--follow'], stack.flag)}`;
    throw new PermanentError('RunGoesOn', 'The run has not ended', { got: report.run, expected });
  }
  const what = whatToRetry(report, asked);
  return startAndFollow(stack, { retry: { run: report.run, what }, ...options }, flags);
});

/** Puts the events of a window's files into the queue. */
async function sendAgain(stack: DeployedStack, flags: FlagsOf<typeof OPTIONS>): Promise<void> {
  const queue = await findOtlpQueue(stack.clients.lambda, stack.prefix);
  const { fromMs = 0, toMs = Date.now() } = windowOfFlags(flags);
  const files = filesToSend(stack.work, { fromMs, toMs });
  const sent = await sendEvents(stack.clients.lambda, queue, files, () => undefined);
  const text = `${many(sent.files, 'file')} of the ledger: their events are in the queue.`;
  print<Report<Output>>({ runs: [], files: sent.files }, flags.json, [text], stack.about);
}

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
