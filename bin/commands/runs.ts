/** `inference-monitor runs`: the newest runs, or cloud replays. */
import { Command, Option } from 'commander';
import { durationText, singleLine, tableText } from '../../src/core/text/terminal-text.ts';
import { notice, type TextOptions, terminal, writeJson } from '../cli/output.ts';
import { addStackOptions, type StackFlags, withStack } from '../cli/stack.ts';
import { type WindowFlags, windowOfFlags } from '../cli/window.ts';
import {
  type ListedReplay,
  type ListedRun,
  listReplays,
  listRuns,
  RUN_STATUSES,
  type RunStatus,
} from '../operate/run-report.ts';
import { wholeNumberOption } from './numbers.ts';

interface RunsFlags extends StackFlags, WindowFlags {
  status?: RunStatus;
  limit: number;
  replays?: boolean;
}

const HELP = `
The newest first, as far as Step Functions keeps them, which is 90 days. Times are those of the start: instants such as
2026-11-20T09:00:00Z, days (UTC), or ages such as 12h, 7d. Figures of a run that is still running are in show.

Examples:
  inference-monitor runs
  inference-monitor runs --from 7d --status failed
  inference-monitor runs --replays`;

/** What `--json` prints. */
export interface RunsOutput {
  runs: ReturnType<typeof asJson>[];
  /** There are older ones, which `--limit` leaves out. */
  more: boolean;
}

export function runsCommand(): Command {
  const command = new Command('runs')
    .option('--from <time>', 'runs that started from this time on')
    .option('--to <time>', 'runs that started before this time')
    .addOption(new Option('--status <status>', 'only these').choices(RUN_STATUSES.filter((one) => one !== 'forgotten')))
    .option('--limit <count>', 'at most so many', wholeNumberOption, 20)
    .option('--replays', 'cloud replays instead of monitoring runs');
  return addStackOptions(command, HELP).action(runs);
}

async function runs(flags: RunsFlags): Promise<void> {
  // One more tells whether there are more.
  const options = { ...windowOfFlags(flags), status: flags.status, limit: flags.limit + 1 };
  await withStack(flags, async ({ clients, outputs }) => {
    const listed = flags.replays
      ? await listReplays(clients, outputs.replayStateMachineArn, outputs.workBucket, options)
      : await listRuns(clients, outputs.stateMachineArn, outputs.workBucket, options);
    const found = listed.slice(0, flags.limit);
    const more = listed.length > found.length;
    if (flags.json) writeJson('runs', { runs: found.map(asJson), more });
    else process.stdout.write(listText(found, terminal()));
    if (more) notice(`These are the newest ${flags.limit}, and there are more: --limit, --from, --to.`);
  });
}

function asJson(one: ListedRun | ListedReplay) {
  const summary = 'summary' in one ? one.summary : undefined;
  return {
    run: one.run,
    arn: one.arn,
    status: one.status,
    startedAt: one.startedAt,
    endedAt: one.endedAt ?? null,
    /** In words. */
    asked: one.asked,
    /** `null`: the run has not written a summary. */
    figures: summary
      ? {
          outcome: summary.status,
          lines: summary.lines.planned,
          traced: summary.lines.traced,
          quarantined: summary.lines.quarantined,
          heldVerdicts: summary.verdicts.heldByBudget,
          lostLines: summary.lines.lost,
          failedVerdicts: summary.verdicts.failed,
          usd: summary.spend.usd,
        }
      : null,
    /** Only of replays. */
    requests: ('requests' in one && one.requests) || null,
  };
}

/** Returns the table; on a narrow terminal a few lines for each run. */
function listText(found: readonly (ListedRun | ListedReplay)[], options: TextOptions): string {
  const rows = found.map((one) => ('requests' in one ? replayRow(one) : runRow(one as ListedRun)));
  const [first] = rows;
  if (first === undefined) return 'There are no such runs.\n';
  const cells = rows.map((row) => Object.values(row).map(singleLine));
  return tableText(Object.keys(first), cells, options);
}

const whole = (count: number | undefined): string => count?.toLocaleString('en-US') ?? '';

/** The cells by the heads of their columns. */
function runRow({ run, summary, asked, ...one }: ListedRun): Record<string, string> {
  const { lines, verdicts, spend } = summary ?? {};
  const usd = spend && (spend.usd === null ? 'unknown' : `$${spend.usd.toFixed(4)}`);
  return {
    run,
    status: summary?.status === 'duplicate' ? 'duplicate' : one.status,
    ...times(one),
    lines: whole(lines?.planned),
    traced: whole(lines?.traced),
    quarantined: whole(lines?.quarantined),
    held: whole(verdicts?.heldByBudget),
    failed: whole(lines && verdicts && lines.lost + verdicts.failed),
    judge: usd ?? '',
    asked,
  };
}

const replayRow = ({ run, status, requests, asked, ...one }: ListedReplay): Record<string, string> => ({
  replay: run,
  status,
  ...times(one),
  sent: whole(requests?.sent),
  requests: whole(requests?.planned),
  asked,
});

const times = ({ startedAt, endedAt }: Pick<ListedRun, 'startedAt' | 'endedAt'>) => ({
  'started (UTC)': startedAt.slice(0, 19).replace('T', ' '),
  took: endedAt ? durationText((Date.parse(endedAt) - Date.parse(startedAt)) / 1_000) : '',
});
