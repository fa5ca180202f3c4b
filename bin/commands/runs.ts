/** `inference-monitor runs`: the newest runs, or cloud replays. */
import { dollars, time, whole } from '../../src/core/text/figure-text.ts';
import { type Page, table } from '../../src/core/text/page.ts';
import { durationText } from '../../src/core/text/terminal-text.ts';
import { command, numbers, option, options, parsed } from '../cli/options.ts';
import { type About, notice, print, type Report } from '../cli/output.ts';
import { openStack, stackOptions } from '../cli/stack.ts';
import { windowOfFlags, windowOptions } from '../cli/window.ts';
import { LISTED_STATUSES, type ListedReplay, type ListedRun, listReplays, listRuns } from '../operate/run-report.ts';

const OPTIONS = options(
  ...windowOptions(),
  option('--status <status>', 'only these', { choices: LISTED_STATUSES }),
  option('--limit <count>', 'how many to list', parsed(numbers.count, 20)),
  option('--replays', 'cloud replays instead of monitoring runs'),
  ...stackOptions(),
);

export type Output = About & {
  runs: ReturnType<typeof asJson>[];
  /** Whether `--limit` leaves out older runs. */
  more: boolean;
};

export default command('runs', OPTIONS, async (flags) => {
  // One additional run shows whether there are more.
  const query = { ...windowOfFlags(flags), status: flags.status, limit: flags.limit + 1 };
  const { clients, outputs, work, about } = await openStack(flags);
  const listed = flags.replays
    ? await listReplays(clients.sfn, outputs.replayStateMachineArn, work, query)
    : await listRuns(clients.sfn, outputs.stateMachineArn, work, query);
  const runs = listed.slice(0, flags.limit).map(asJson);
  const more = listed.length > runs.length;
  print<Report<Output>>({ runs, more }, flags.json, listPage(runs, flags.replays), about);
  if (more) notice(`These are the newest ${flags.limit}, and there are more: --limit, --from, --to.`);
});

function asJson(one: ListedRun | ListedReplay) {
  const summary = 'summary' in one ? one.summary : undefined;
  return {
    run: one.run,
    arn: one.arn,
    status: one.status,
    startedAt: one.startedAt,
    endedAt: one.endedAt ?? null,
    /** The request, as text. */
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
    /** Number of requests; only for replays. */
    requests: ('requests' in one && one.requests) || null,
  };
}

const listPage = (runs: Output['runs'], isReplay: boolean | undefined): Page => {
  const rows = runs.map((one) => rowOf(one, isReplay));
  return [rows.length === 0 && 'There are no such runs.', table(rows.map(Object.values), Object.keys(rows[0] ?? {}))];
};

/** Returns the cells by column name. */
function rowOf(one: Output['runs'][number], isReplay = false): Record<string, string> {
  const { run, status, startedAt, endedAt, asked, figures, requests } = one;
  const counts = isReplay
    ? { sent: requests?.sent, requests: requests?.planned }
    : {
        ...{ lines: figures?.lines, traced: figures?.traced, quarantined: figures?.quarantined },
        ...{ held: figures?.heldVerdicts, failed: figures && figures.lostLines + figures.failedVerdicts },
      };
  return {
    [isReplay ? 'replay' : 'run']: run,
    status: figures?.outcome === 'duplicate' ? 'duplicate' : status,
    started: time(startedAt),
    took: endedAt ? durationText((Date.parse(endedAt) - Date.parse(startedAt)) / 1_000) : '',
    ...Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count == null ? '' : whole(count)])),
    ...(isReplay ? {} : { judge: figures ? dollars(figures.usd) : '' }),
    asked,
  };
}
