/** `inference-monitor show`: shows a run, running or ended, and the outcomes of its lines. It can follow the run, or write its quarantined lines. */

import { isOfOneFile } from '../../src/captures/files/capture-objects.ts';
import { capturePathOf, DAY_MS } from '../../src/captures/files/capture-path.ts';
import { maskedLine } from '../../src/captures/redact.ts';
import type { Storage } from '../../src/core/aws/storage.ts';
import type { QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { block, exact, facts, firstOf, type Page, table } from '../../src/core/text/page.ts';
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
import { decodeOptions } from '../../src/monitoring/chunk/decode-lines.ts';
import { withRanges } from '../../src/monitoring/chunk/ranges.ts';
import { fileMsOf } from '../../src/monitoring/outcomes/rows.ts';
import { optionsOfRun, quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';
import { readManifest } from '../../src/monitoring/receipts.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { followAndReport, printReports } from '../cli/follow-and-report.ts';
import { withNewFile } from '../cli/new-file.ts';
import { argument, command, type FlagsOf, option, options, refuseUseless } from '../cli/options.ts';
import { type About, EXIT, notice, print } from '../cli/output.ts';
import type { RunsFollowed } from '../cli/run-json.ts';
import { commandText } from '../cli/run-text.ts';
import { type DeployedStack, monitoringRun, openStack, stackOptions, stackSettings } from '../cli/stack.ts';
import { type FoundRun, readRunReport, statusOfRun } from '../operate/run-report.ts';

const OPTIONS = options(
  argument('[run]', 'name or ARN of the execution; not needed with --trace'),
  option('--follow', 'follow the run to its end first').conflicts(['files', 'line', 'trace', 'out']),
  option('--files', 'list how many lines of each capture file became what').conflicts(['line', 'trace', 'out']),
  option('--line <key:number>', 'say what became of this line of a capture file').conflicts(['trace', 'out']),
  option('--trace <id>', 'say what became of the line of this trace; without a run, in all of them').conflicts('out'),
  option('-o, --out <file>', 'write the quarantined lines to this new file, masked as the stack masks captures'),
  option('--raw', 'with --out: the lines as they were captured, also where captures are masked'),
  option('--reason <name>', 'with --out: only lines of this reason'),
  ...stackOptions(),
);
type ShowFlags = FlagsOf<typeof OPTIONS>;

/** With `--out`, the written lines; with `--files`, `--line` or `--trace`, the outcome of lines. */
export type Output = About & (RunsFollowed | Quarantined | RunFiles | LineStory);

export default command('show', OPTIONS, async (flags) => {
  const stack = await openStack(flags);
  const { run, trace, json } = flags;
  refuseUseless(flags, { reason: ['out'], raw: ['out'] });
  if (run === undefined && trace !== undefined) return showStory(stack, { traceId: trace }, json);
  if (run === undefined) throw new PermanentError('NoSuchRun', 'No run is named', { expected: 'a name, or --trace' });
  const found = await monitoringRun(stack, run);
  const { name, executionArn: arn } = found;
  if (flags.files) await showFiles(stack, found, json);
  else if (flags.line !== undefined) await showStory(stack, lineName(flags.line), json, found);
  else if (trace !== undefined) await showStory(stack, { traceId: trace }, json, found);
  else if (flags.out !== undefined) await writeLines(stack, found, flags);
  else if (flags.follow && arn !== undefined) await followAndReport(stack, [{ name, arn }], flags);
  else await printReports(stack, [await readRunReport(stack.work, found)], flags);
});

// ------------------------------------------------------------------------------------------------- quarantined lines
// Lines that could not become traces, with their bytes as captured.

/** Output of `--json` with `--out`. */
export interface Quarantined {
  run: string;
  /** Number of lines that were found, including lines without bytes. */
  lines: number;
  out: string;
  /** Lines of which only the location is known, because they exceed the size bound and their file is gone. */
  withoutBytes: { key: string; line: number }[];
}

/** @throws PermanentError `FileExists`, `FileUnwritable`; `UnknownName` of a reason that the run does not have */
async function writeLines(
  stack: DeployedStack,
  { name: run, status }: FoundRun,
  { out = '', reason: only, raw, json }: ShowFlags,
): Promise<void> {
  const options = raw ? {} : decodeOptions(await stackSettings(stack));
  const found: Quarantined = { run, lines: 0, out, withoutBytes: [] };
  const reasons = new Set<string>();
  await withNewFile(out, async (write) => {
    for await (const { entry } of quarantinedEntries(stack.work, run)) {
      const { key, line, reason } = entry;
      reasons.add(reason.name);
      if (only !== undefined && reason.name !== only) continue;
      found.lines += 1;
      const captured = await bytesOf(stack.storage, entry);
      const bytes = captured && maskedLine(captured, options);
      if (bytes === undefined) found.withoutBytes.push({ key, line });
      else await write(bytes);
    }
  });
  if (only !== undefined && reasons.size > 0) checkNames('reason in the quarantine of this run', [only], [...reasons]);
  if (status !== undefined && statusOfRun(status) === 'running') {
    notice('The run has not ended: these are the lines that it has quarantined so far.');
  }
  if (found.withoutBytes.length > 0) process.exitCode = EXIT.found;
  print<Quarantined>(found, json, writtenPage(found), stack.about);
}

/**
 * Returns the bytes of a line. For a line over the bound only the location is stored, so it is read from the capture
 * file. @returns `undefined` if the file is gone
 */
async function bytesOf(storage: Storage, entry: QuarantineEntry): Promise<Buffer | undefined> {
  const { bucket, key, etag, versionId, start, end, base64 } = entry;
  if (base64 !== undefined) return Buffer.from(base64, 'base64');
  try {
    const object = { bucket, key, etag, ...(versionId ? { versionId } : {}) };
    return Buffer.concat(await Array.fromAsync(await storage.read(object, { start, end })));
  } catch (error) {
    if (isOfOneFile(error)) return undefined;
    throw error;
  }
}

/** Maximum number of lines without bytes that the text lists. */
const MAX_PLACES = 5;

const GONE = 'cannot be written: they are masked and not readable (--raw), or their file is gone or has changed';

const placeOf = ({ key, line }: { key: string; line: number }): string => `${key}:${line}`;

const writtenPage = ({ lines, out, withoutBytes }: Quarantined): Page => [
  lines === 0 && 'Nothing of it is in quarantine.',
  lines > withoutBytes.length && `${many(lines - withoutBytes.length, 'line')} written to ${out}.`,
  withoutBytes.length > 0 && `${many(withoutBytes.length, 'line')} ${GONE}:`,
  firstOf(MAX_PLACES, withoutBytes.map(placeOf)),
];

// ----------------------------------------------------------------------------------------------- outcomes of lines
// In each capture file, or the history of one line.

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
  const { traceId, outcome, reason, run, runs } = story;
  const undone = ['failed', 'held'].find((wanted) => verdicts.some(({ state }) => state === wanted));
  const retried = reason === undefined ? undone : 'quarantined';
  const rows = verdicts.map((one) => [one.scorer, one.state, one.value ?? one.reason ?? '']);
  return [
    facts({
      line: placeOf(story),
      trace: traceId,
      outcome: `${OUTCOMES[outcome].says}${reason === undefined ? '' : ` (${reason})`}`,
      run,
      'other runs': runs.length > 1 && runs.filter((one) => one !== run).join(', '),
    }),
    block(table(rows, ['scorer', 'verdict', 'value, or why none'])),
    block(
      retried && exact(`Next: ${commandText(['retry', run, '--what', retried], stack)}`),
      traceId && !reason && outcome !== 'missing' && exact(`Next: ${commandText(['open', traceId], stack)}`),
    ),
  ];
}
