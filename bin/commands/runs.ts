/** `inference-monitor runs`: the newest runs, or cloud replays. */
import { whole } from '../../src/core/text/figure-text.ts';
import { durationText, singleLine, type TextOptions, tableLines } from '../../src/core/text/terminal-text.ts';
import { command, numbers, option, options, parsed } from '../cli/options.ts';
import { instantText, notice, Page, print } from '../cli/output.ts';
import { stackOptions, withStack } from '../cli/stack.ts';
import { windowOfFlags, windowOptions } from '../cli/window.ts';
import { LISTED_STATUSES, type ListedReplay, type ListedRun, listReplays, listRuns } from '../operate/run-report.ts';

const OPTIONS = options(
  ...windowOptions(),
  option('--status <status>', 'only these', { choices: LISTED_STATUSES }),
  option('--limit <count>', 'how many to list', parsed(numbers.count, 20)),
  option('--replays', 'cloud replays instead of monitoring runs'),
  ...stackOptions(),
);

/** What `--json` prints. */
export interface RunsOutput {
  runs: ReturnType<typeof asJson>[];
  /** There are older ones, which `--limit` leaves out. */
  more: boolean;
}

export default command('runs', OPTIONS, async (flags) => {
  // One more tells whether there are more.
  const query = { ...windowOfFlags(flags), status: flags.status, limit: flags.limit + 1 };
  await withStack(flags, async ({ clients, outputs, about }) => {
    const listed = flags.replays
      ? await listReplays(clients, outputs.replayStateMachineArn, outputs.workBucket, query)
      : await listRuns(clients, outputs.stateMachineArn, outputs.workBucket, query);
    const found = listed.slice(0, flags.limit);
    const more = listed.length > found.length;
    print<RunsOutput>({ runs: found.map(asJson), more }, flags.json, (out) => listText(found, out), about);
    if (more) notice(`These are the newest ${flags.limit}, and there are more: --limit, --from, --to.`);
  });
});

function asJson(one: ListedRun | ListedReplay) {
  const summary = 'summary' in one ? one.summary : undefined;
  return {
    run: one.run,
    arn: one.arn,
    status: one.status,
    startedAt: one.startedAt,
    endedAt: one.endedAt ?? null,
    /** As text. */
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

/** Columns whose cells stand below each row where the table does not fit. */
const LONG = ['run', 'replay', 'took', 'asked'];

function listText(found: readonly (ListedRun | ListedReplay)[], out: TextOptions): string {
  const page = new Page(out);
  const rows = found.map((one) => ('requests' in one ? replayRow(one) : runRow(one as ListedRun)));
  const cells = (names: readonly string[]) => rows.map((row) => names.map((name) => singleLine(row[name] ?? '')));
  const names = Object.keys(rows[0] ?? {});
  const short = names.filter((name) => !LONG.includes(name));
  const fits = (of: readonly string[]) => tableLines(of, cells(of)).every(({ length }) => length <= out.width);
  if (rows.length === 0) page.add('There are no such runs.');
  else if (fits(names) || !fits(short)) page.table(names, cells(names));
  else {
    for (const [index, line] of tableLines(short, cells(short)).entries()) {
      page.add(line, index === 0 ? 'bold' : undefined);
      const one = found[index - 1];
      if (one) page.add(`  ${one.run}: ${one.asked}`);
    }
  }
  return page.text();
}

const counted = (count: number | undefined): string => (count === undefined ? '' : whole(count));

/** The cells by the heads of their columns. */
function runRow({ run, summary, asked, ...one }: ListedRun): Record<string, string> {
  const { lines, verdicts, spend } = summary ?? {};
  const usd = spend && (spend.usd === null ? 'unknown' : `$${spend.usd.toFixed(4)}`);
  return {
    run,
    status: summary?.status === 'duplicate' ? 'duplicate' : one.status,
    ...times(one),
    lines: counted(lines?.planned),
    traced: counted(lines?.traced),
    quarantined: counted(lines?.quarantined),
    held: counted(verdicts?.heldByBudget),
    failed: counted(lines && verdicts && lines.lost + verdicts.failed),
    judge: usd ?? '',
    asked,
  };
}

const replayRow = ({ run, status, requests, asked, ...one }: ListedReplay): Record<string, string> => ({
  replay: run,
  status,
  ...times(one),
  sent: counted(requests?.sent),
  requests: counted(requests?.planned),
  asked,
});

const times = ({ startedAt, endedAt }: Pick<ListedRun, 'startedAt' | 'endedAt'>) => ({
  'started (UTC)': instantText(startedAt).slice(0, -3),
  took: endedAt ? durationText((Date.parse(endedAt) - Date.parse(startedAt)) / 1_000) : '',
});
