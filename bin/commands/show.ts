/** `inference-monitor show`: shows a run, running or ended, and the outcomes of its lines. It can follow the run, or write its quarantined lines. */

import { isOfOneFile } from '../../src/captures/files/capture-objects.ts';
import { maskedLine } from '../../src/captures/redact.ts';
import type { Storage } from '../../src/core/aws/storage.ts';
import type { QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { many } from '../../src/core/text/figure-text.ts';
import { firstOf, type Page } from '../../src/core/text/page.ts';
import type { LineStory } from '../../src/ledger/what-became.ts';
import { decodeOptions } from '../../src/monitoring/chunk/decode-lines.ts';
import { quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';
import { followAndReport, printReports } from '../cli/follow-and-report.ts';
import { withNewFile } from '../cli/new-file.ts';
import { argument, command, type FlagsOf, option, options, refuseUseless } from '../cli/options.ts';
import { type About, EXIT, notice, print } from '../cli/output.ts';
import type { RunsFollowed } from '../cli/run-json.ts';
import { type DeployedStack, monitoringRun, stackOptions, stackSettings, withStack } from '../cli/stack.ts';
import { type FoundRun, readRunReport, statusOfRun } from '../operate/run-report.ts';
import { lineName, type RunFiles, showFiles, showStory } from './show-lines.ts';

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

export default command('show', OPTIONS, (flags) =>
  withStack(flags, async (stack) => {
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
    else await printReports(stack, [await readRunReport(stack.clients, stack.outputs.workBucket, found)], flags);
  }),
);

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

const writtenPage = ({ lines, out, withoutBytes }: Quarantined): Page => [
  lines === 0 && 'Nothing of it is in quarantine.',
  lines > withoutBytes.length && `${many(lines - withoutBytes.length, 'line')} written to ${out}.`,
  withoutBytes.length > 0 && `${many(withoutBytes.length, 'line')} ${GONE}:`,
  firstOf(
    MAX_PLACES,
    withoutBytes.map(({ key, line }) => `${key}:${line}`),
  ),
];
