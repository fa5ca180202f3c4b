/** The part of `show` about lines: the outcomes in each capture file, or the history of one line. */
import { capturePathOf, DAY_MS } from '../../src/captures/files/capture-path.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { block, exact, facts, type Page, table } from '../../src/core/text/page.ts';
import { namedCounts } from '../../src/core/text/terminal-text.ts';
import { sum } from '../../src/core/values/sum.ts';
import { dayOf } from '../../src/ledger/files.ts';
import {
  DAYS_SEARCHED,
  type FileOutcomes,
  filesOfRun,
  type LineName,
  type LineStory,
  OUTCOMES,
  type Outcome,
  type RowQuery,
  storyOfLine,
} from '../../src/ledger/what-became.ts';
import { withRanges } from '../../src/monitoring/chunk/ranges.ts';
import { fileMsOf } from '../../src/monitoring/outcomes/rows.ts';
import { optionsOfRun } from '../../src/monitoring/plan/retry-source.ts';
import { readManifest } from '../../src/monitoring/receipts.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { notice, print } from '../cli/output.ts';
import { commandText } from '../cli/run-text.ts';
import type { DeployedStack } from '../cli/stack.ts';
import { type FoundRun, statusOfRun } from '../operate/run-report.ts';

/** What became of the lines of a capture file. */
export interface FileReport extends FileOutcomes {
  key: string;
  /** Number of lines that were planned but have no outcome. */
  lost: number;
}

/** Output of `--json` with `--files`. */
export interface RunFiles {
  run: string;
  files: FileReport[];
}

/**
 * Returns the query for the rows of a run.
 *
 * @param newestMs the time of its newest file, epoch milliseconds. A line may have a time up to a day later
 */
const rowsOf = ({ name: run, startDate }: FoundRun, newestMs?: number): RowQuery & { run: string } => ({
  run,
  sinceMs: startDate?.getTime() ?? 0,
  lastDay: newestMs === undefined ? undefined : dayOf(hourOf(newestMs + DAY_MS)),
});

/** Prints the outcomes of the lines of each capture file of a run. @throws PermanentError `RunUnknown` */
export async function showFiles(stack: DeployedStack, found: FoundRun, json: boolean | undefined): Promise<void> {
  const { work } = stack;
  // Throws if the run has no plan.
  await optionsOfRun(work, { run: found.name, what: 'failed' });
  const planned = new Map<string, { key: string; lines: number }>();
  let newestMs = 0;
  for await (const chunk of readManifest(work, found.name)) {
    for (const { bucket, key, lines, objectTimeMs } of (await withRanges(work, chunk)).ranges) {
      const before = planned.get(`${bucket}/${key}`)?.lines ?? 0;
      planned.set(`${bucket}/${key}`, { key, lines: before + lines });
      newestMs = Math.max(newestMs, fileMsOf({ key, objectTimeMs }));
    }
  }
  const known = await filesOfRun(work, rowsOf(found, newestMs));
  const files = [...planned].map(([place, { key, lines }]): FileReport => {
    const { outcomes = {}, reasons = {}, lines: told = 0 } = known.get(place) ?? {};
    return { key, lines, outcomes, reasons, lost: lines - told };
  });
  if (statusOfRun(found.status) === 'running' && found.executionArn !== undefined) {
    notice('The run has not ended: lines without an outcome count as lost so far.');
  }
  print<RunFiles>({ run: found.name, files }, json, filesPage(files), stack.about);
}

function filesPage(files: readonly FileReport[]): Page {
  const isThere = (outcome: Outcome): boolean => files.some(({ outcomes }) => outcomes[outcome]);
  const shown = (Object.keys(OUTCOMES) as Outcome[]).filter(isThere);
  const rows = files.map(({ key, lines, outcomes, reasons, lost }) => [
    ...[key, whole(lines), ...shown.map((outcome) => whole(outcomes[outcome] ?? 0)), whole(lost)],
    namedCounts(reasons),
  ]);
  return [
    `${many(files.length, 'file')}, ${many(sum(files.map(({ lines }) => lines)), 'line')}`,
    table(rows, ['file', 'lines', ...shown.map((outcome) => OUTCOMES[outcome].says), 'lost', 'why']),
  ];
}

// ----------------------------------------------------------------------------------------------------------- one line

const LINE = /^(?<key>.+):(?<line>\d{1,10})$/s;

/** Reads a line as the commands print it, such as `…/11-33.jsonl:4`. @throws PermanentError `NoSuchLine` */
export function lineName(text: string): LineName {
  const { key, line } = LINE.exec(text)?.groups ?? {};
  if (key !== undefined) return { key, line: Number(line) };
  throw new PermanentError('NoSuchLine', 'That is no line', { got: text, expected: 'KEY:NUMBER' });
}

/** Prints the history of a line in one run. Without a run, prints it for all runs. @throws PermanentError `NoSuchLine` */
export async function showStory(stack: DeployedStack, name: LineName, json: boolean | undefined, found?: FoundRun) {
  const newestMs = 'key' in name ? capturePathOf(name.key).hourMs : undefined;
  const query = found === undefined ? {} : rowsOf(found, newestMs);
  const first = found === undefined ? dayOf(hourOf(Date.now() - DAYS_SEARCHED * DAY_MS)) : undefined;
  const story = await storyOfLine(stack.work, name, query, first);
  if (story === undefined) {
    const got = 'key' in name ? `${name.key}:${name.line}` : name.traceId;
    const expected = found
      ? `a line that ${found.name} has met`
      : `a trace of the last ${DAYS_SEARCHED} days, or its run`;
    throw new PermanentError('NoSuchLine', 'No row is about the line', { got, expected });
  }
  print<LineStory>(story, json, storyPage(story, stack.flag), stack.about);
}

function storyPage({ verdicts, ...story }: LineStory, stack: string | undefined): Page {
  const { key, line, traceId, outcome, reason, run, runs } = story;
  const undone = ['failed', 'held'].find((wanted) => verdicts.some(({ state }) => state === wanted));
  const retried = reason === undefined ? undone : 'quarantined';
  return [
    facts({
      line: `${key}:${line}`,
      trace: traceId,
      outcome: `${OUTCOMES[outcome].says}${reason === undefined ? '' : ` (${reason})`}`,
      run,
      'other runs': runs.length > 1 && runs.filter((one) => one !== run).join(', '),
    }),
    block(
      table(
        verdicts.map((one) => [one.scorer, one.state, one.value ?? one.reason ?? '']),
        ['scorer', 'verdict', 'value, or why none'],
      ),
    ),
    block(
      retried && exact(`Next: ${commandText(['retry', run, '--what', retried], stack)}`),
      traceId && !reason && outcome !== 'missing' && exact(`Next: ${commandText(['open', traceId], stack)}`),
    ),
  ];
}
