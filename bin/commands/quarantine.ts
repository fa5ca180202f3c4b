/**
 * `inference-monitor quarantine`: the lines of a run that could not become traces, with their bytes as they were
 * captured.
 */

import { Command } from 'commander';
import { isOfOneFile } from '../../src/captures/files/capture-objects.ts';
import type { Storage } from '../../src/core/aws/storage.ts';
import type { QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { singleLine, tableText } from '../../src/core/text/terminal-text.ts';
import { checkNames } from '../../src/core/values/nearest.ts';
import { quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';
import { NewFile } from '../cli/new-file.ts';
import { EXIT, notice, terminal, writeJson } from '../cli/output.ts';
import { addStackOptions, monitoringRun, type StackFlags, withStack } from '../cli/stack.ts';
import { statusOfRun } from '../operate/run-report.ts';

interface QuarantineFlags extends StackFlags {
  out?: string;
  reason?: string;
}

const HELP = `
Without --out it says how many lines there are for each reason, with the place of the first. With --out it writes the lines, byte for
byte as they were captured, to a new file, which inspect and process take. Lines are never printed: they are what anybody may
have sent to the endpoint. They are kept for a year, longer than the run's receipts. Of lines that are too long to be kept, it has the
place alone if their capture file is gone; the exit code is 1 if a line is not in the file.

Examples:
  inference-monitor quarantine files-2026-11-20T10-00-00-0a1b2c3d4e5f6071
  inference-monitor quarantine last-week --reason NotJson --out not-json.jsonl`;

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

export function quarantineCommand(): Command {
  const command = new Command('quarantine')
    .argument('<run>', 'name or ARN of the execution')
    .option('--out <file>', 'write the lines to this new file')
    .option('--reason <name>', 'only lines that are there for this reason');
  return addStackOptions(command, HELP).action(quarantine);
}

async function quarantine(run: string, flags: QuarantineFlags): Promise<void> {
  await withStack(flags, async (stack) => {
    const { outputs, storage } = stack;
    const { name, status } = await monitoringRun(stack, run);
    const lines = quarantinedLines(storage, outputs.workBucket, name, flags.reason);
    const found = flags.out === undefined ? await collect(name, lines) : await writeLines(name, lines, flags.out);
    if (found.lines === 0 && flags.reason !== undefined) {
      const { reasons } = await collect(name, quarantinedLines(storage, outputs.workBucket, name));
      const names = reasons.map(({ reason }) => reason);
      if (names.length > 0) checkNames('reason in the quarantine of this run', [flags.reason], names);
    }
    if (status !== undefined && statusOfRun(status) === 'running') {
      notice('The run has not ended: these are the lines that it has quarantined so far.');
    }
    // Lines of which only the place is known are not in the file.
    if (flags.out !== undefined && found.withoutBytes.length > 0) process.exitCode = EXIT.found;
    if (flags.json) writeJson('quarantine', found);
    else process.stdout.write(quarantineText(found));
  });
}

/** Writes the lines to a new file, as they are read. @throws PermanentError `FileExists`, `FileUnwritable` */
async function writeLines(run: string, lines: AsyncIterable<QuarantinedLine>, out: string): Promise<Quarantined> {
  const file = await NewFile.open(out);
  try {
    const found = await collect(run, lines, file);
    if (file.lines === 0) {
      await file.discard();
      return found;
    }
    await file.keep();
    return { ...found, out };
  } catch (error) {
    await file.discard();
    throw error;
  }
}

/** Counts the lines by reason. @param file gets their bytes */
async function collect(run: string, lines: AsyncIterable<QuarantinedLine>, file?: NewFile): Promise<Quarantined> {
  const found: Quarantined = { run, lines: 0, out: null, withoutBytes: [], reasons: [] };
  const byReason = new Map<string, Quarantined['reasons'][number]>();
  for await (const { entry, bytes } of lines) {
    const { key, line, reason } = entry;
    found.lines += 1;
    const one = byReason.get(reason.name);
    if (one) one.lines += 1;
    else byReason.set(reason.name, { reason: reason.name, lines: 1, first: { key, line, message: reason.message } });
    if (bytes === undefined) found.withoutBytes.push({ key, line });
    else await file?.write(bytes);
  }
  found.reasons = [...byReason.values()].sort((a, b) => b.lines - a.lines);
  return found;
}

const counted = (count: number): string => (count === 1 ? '1 line was' : `${count.toLocaleString('en-US')} lines were`);

/** Places without bytes that the text lists. */
const MAX_PLACES = 5;

function quarantineText({ run, lines, out, reasons, withoutBytes }: Quarantined): string {
  if (lines === 0) return `Nothing of ${singleLine(run)} is in quarantine.\n`;
  const rows = reasons.map(({ reason, lines: count, first }) => [
    singleLine(reason),
    count.toLocaleString('en-US'),
    singleLine(`${first.key}:${first.line}`),
    singleLine(first.message),
  ]);
  const places = withoutBytes.slice(0, MAX_PLACES).map(({ key, line }) => `${singleLine(key)}:${line}`);
  return [
    tableText(['reason', 'lines', 'first', 'why'], rows, terminal()),
    ...(out === null ? [] : [`${counted(lines - withoutBytes.length)} written to ${singleLine(out)}.\n`]),
    ...(withoutBytes.length === 0
      ? []
      : [
          `${withoutBytes.length} are too long to be kept, and their file is gone or has changed: ${places.join(', ')}${withoutBytes.length > MAX_PLACES ? ', …' : ''}\n`,
        ]),
  ].join('');
}

// ----------------------------------------------------------------------------------------------------------- lines

interface QuarantinedLine {
  entry: QuarantineEntry;
  /** Without its line end. Absent: only the place was kept, since the line is over the bound, and its file is gone. */
  bytes?: Buffer;
}

/**
 * Yields the lines in the order of the run's chunks. Bytes that quarantine does not have are read from the capture file.
 *
 * @param reason only lines that are there for this reason
 */
async function* quarantinedLines(
  storage: Storage,
  workBucket: string,
  run: string,
  reason?: string,
): AsyncGenerator<QuarantinedLine> {
  for await (const { entry } of quarantinedEntries(storage, workBucket, run)) {
    if (reason !== undefined && entry.reason.name !== reason) continue;
    const bytes =
      entry.base64 === undefined ? await fromCaptureFile(storage, entry) : Buffer.from(entry.base64, 'base64');
    yield { entry, ...(bytes === undefined ? {} : { bytes }) };
  }
}

async function fromCaptureFile(storage: Storage, entry: QuarantineEntry): Promise<Buffer | undefined> {
  const { bucket, key, etag, versionId, start, end } = entry;
  try {
    const object = { bucket, key, etag, ...(versionId ? { versionId } : {}) };
    const pieces: Buffer[] = [];
    for await (const piece of await storage.read(object, { start, end })) pieces.push(piece);
    return Buffer.concat(pieces);
  } catch (error) {
    if (isOfOneFile(error)) return undefined;
    throw error;
  }
}
