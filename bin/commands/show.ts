/** `inference-monitor show`: what a run did, running or ended, and what became of its lines; it follows it, or writes its quarantined lines. */

import { isOfOneFile } from '../../src/captures/files/capture-objects.ts';
import { maskedLine } from '../../src/captures/redact.ts';
import type { DecodeOptions } from '../../src/captures/types.ts';
import type { Storage } from '../../src/core/aws/storage.ts';
import type { QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { decodeOptions } from '../../src/monitoring/chunk/decode-lines.ts';
import { quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';
import { followAndReport, printReports } from '../cli/follow-and-report.ts';
import { type WriteLine, withNewFile } from '../cli/new-file.ts';
import { argument, command, type FlagsOf, option, options } from '../cli/options.ts';
import { EXIT, notice, print } from '../cli/output.ts';
import { type Page, table } from '../cli/page.ts';
import { type DeployedStack, monitoringRun, stackOptions, stackSettings, withStack } from '../cli/stack.ts';
import { type FoundRun, readRunReport, statusOfRun } from '../operate/run-report.ts';
import { lineName, showFiles, showStory } from './show-lines.ts';

const OPTIONS = options(
  argument('[run]', 'name or ARN of the execution; not needed with --trace'),
  option('--follow', 'follow the run to its end first').conflicts(['files', 'line', 'trace', 'out', 'reason']),
  option('--files', 'list how many lines of each capture file became what').conflicts([
    'line',
    'trace',
    'out',
    'reason',
  ]),
  option('--line <key:number>', 'say what became of this line of a capture file').conflicts(['trace', 'out', 'reason']),
  option('--trace <id>', 'say what became of the line of this trace, without a run in all of them').conflicts([
    'out',
    'reason',
  ]),
  option('-o, --out <file>', 'write the quarantined lines to this new file, masked as the stack masks captures'),
  option('--raw', 'with --out: the lines as they were captured, also where captures are masked'),
  option('--reason <name>', 'only quarantined lines of this reason'),
  ...stackOptions(),
);
type ShowFlags = FlagsOf<typeof OPTIONS>;

export default command('show', OPTIONS, (flags) =>
  withStack(flags, async (stack) => {
    const { run, trace, json } = flags;
    if (run === undefined && trace !== undefined) return showStory(stack, { traceId: trace }, json);
    if (run === undefined)
      throw new PermanentError('NoSuchRun', 'No run is named', { expected: 'its name, or --trace' });
    const found = await monitoringRun(stack, run);
    const { name, executionArn: arn } = found;
    if (flags.files) await showFiles(stack, found, json);
    else if (flags.line !== undefined) await showStory(stack, lineName(flags.line), json, found);
    else if (trace !== undefined) await showStory(stack, { traceId: trace }, json, found);
    else if (flags.out !== undefined || flags.reason !== undefined) await showLines(stack, found, flags);
    else if (flags.follow && arn !== undefined) await followAndReport(stack, [{ name, arn }], flags);
    else await printReports(stack, [await readRunReport(stack.clients, stack.outputs.workBucket, found)], flags);
  }),
);

// ------------------------------------------------------------------------------------------------- quarantined lines
// Those that could not become traces, with their bytes as they were captured.

/** What `--json` prints. */
export interface Quarantined {
  run: string;
  lines: number;
  /** `null`: nothing was written. */
  out: string | null;
  /** Lines of which only the place is known: they are over the size bound, and their file is gone. */
  withoutBytes: { key: string; line: number }[];
  reasons: { reason: string; lines: number; first: { key: string; line: number; message: string } }[];
}

/** @throws PermanentError `FileExists`, `FileUnwritable`; `UnknownName` of a reason that the run does not have */
async function showLines(
  stack: DeployedStack,
  { name: run, status }: FoundRun,
  { out, reason, raw, json }: ShowFlags,
): Promise<void> {
  const { outputs, storage } = stack;
  const { workBucket } = outputs;
  const options = raw || out === undefined ? {} : decodeOptions(await stackSettings(stack));
  const collected = (write?: WriteLine) => collect(storage, workBucket, run, write, reason, options);
  const found = await (out === undefined ? collected() : withNewFile(out, collected));
  if (out !== undefined && found.lines > found.withoutBytes.length) found.out = out;
  if (found.lines === 0 && reason !== undefined) {
    const { reasons } = await collect(storage, workBucket, run);
    const names = reasons.map((one) => one.reason);
    if (names.length > 0) checkNames('reason in the quarantine of this run', [reason], names);
  }
  if (status !== undefined && statusOfRun(status) === 'running') {
    notice('The run has not ended: these are the lines that it has quarantined so far.');
  }
  if (out !== undefined && found.withoutBytes.length > 0) process.exitCode = EXIT.found;
  print<Quarantined>(found, json, quarantinePage(found), stack.about);
}

/**
 * Counts the lines by reason, in the order of the run's chunks.
 *
 * @param write gets their bytes
 * @param only the reason
 * @param options with what is masked in the bytes
 */
async function collect(
  storage: Storage,
  workBucket: string,
  run: string,
  write?: WriteLine,
  only?: string,
  options: DecodeOptions = {},
) {
  const found: Quarantined = { run, lines: 0, out: null, withoutBytes: [], reasons: [] };
  const byReason = new Map<string, Quarantined['reasons'][number]>();
  for await (const { entry } of quarantinedEntries({ storage, workBucket }, run)) {
    const { key, line, reason } = entry;
    if (only !== undefined && reason.name !== only) continue;
    found.lines += 1;
    const first = { key, line, message: reason.message };
    const one = byReason.get(reason.name) ?? { reason: reason.name, lines: 0, first };
    one.lines += 1;
    byReason.set(reason.name, one);
    const captured = await bytesOf(storage, entry);
    const bytes = captured && maskedLine(captured, options);
    if (bytes === undefined) found.withoutBytes.push({ key, line });
    else await write?.(bytes);
  }
  found.reasons = [...byReason.values()].sort((a, b) => b.lines - a.lines);
  return found;
}

/** Of a line over the bound only the place is kept: it is read from the capture file. @returns `undefined` if that is gone */
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

/** Places without bytes that the text lists. */
const MAX_PLACES = 5;

function quarantinePage({ run, lines, out, reasons, withoutBytes }: Quarantined): Page {
  const places = withoutBytes.slice(0, MAX_PLACES).map(({ key, line }) => `${key}:${line}`);
  if (withoutBytes.length > MAX_PLACES) places.push('…');
  const gone = 'cannot be written: they are masked and not readable (--raw), or their file is gone or has changed';
  return [
    lines === 0 && `Nothing of ${run} is in quarantine.`,
    table(
      reasons.map(({ reason, lines: count, first }) => [
        reason,
        whole(count),
        `${first.key}:${first.line}`,
        first.message,
      ]),
      ['reason', 'lines', 'first', 'why'],
    ),
    out !== null && `${many(lines - withoutBytes.length, 'line')} written to ${out}.`,
    places.length > 0 && `${withoutBytes.length} ${gone}: ${places.join(', ')}`,
  ];
}
