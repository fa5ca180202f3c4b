/** `inference-monitor inspect`: what capture files contain, and what the stack would make of them, offline. */
import { Command } from 'commander';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { createAlwaysRule } from '../../src/judge/scorers/always-rules.ts';
import { isCodeScorer } from '../../src/judge/scorers/scorer-set.ts';
import { localFiles } from '../../src/replay/source/open-source.ts';
import { EXIT } from '../cli/exit-codes.ts';
import { jsonOption, terminal, writeJson } from '../cli/output.ts';
import { startProgress } from '../cli/progress.ts';
import { OfflineReader, openFile, parseLocation } from '../offline/capture-files.ts';
import { describeLine, Inspection } from '../offline/inspect.ts';
import type { InspectReport, LineReport } from '../offline/reports.ts';
import { inspectText, lineText, megabytes } from './inspect-text.ts';
import { wholeNumberOption } from './numbers.ts';
import { type CaptureSettings, captureSettings } from './settings.ts';

/** Reading more than this takes seconds. */
const LONG_BYTES = 20e6;

const HELP = `
Examples:
  inference-monitor inspect examples/captures
  inference-monitor inspect captures.jsonl --line 17
  inference-monitor inspect captures.jsonl:17 --json
  inference-monitor inspect downloaded/ && echo "nothing would be quarantined"

Reads *.jsonl and *.jsonl.gz with the stack's own reader. It needs no AWS, no network and no settings; those that decide how
captures are read and judged are taken from .env (FEATURE_NAMES, CSV_HEADER, MAX_LINE_BYTES, BEDROCK_MODEL_ID, …).
The exit code is 1 if a line would be quarantined, if there is no capture, or if a file of a folder cannot be read; 2 if nothing can
be read.`;

export function inspectCommand(): Command {
  return new Command('inspect')
    .argument('<captures>', 'a capture file, file:line, or a folder')
    .option('--line <number>', 'show what this line of the file becomes', wholeNumberOption)
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action(inspect);
}

async function inspect(given: string, flags: { line?: number; json?: boolean }): Promise<void> {
  const location = parseLocation(given);
  const settings = captureSettings({});
  const line = flags.line ?? location.line;
  if (line !== undefined) {
    const report = await inspectLine(location.path, line, settings);
    if (flags.json) writeJson('inspect', report);
    else process.stdout.write(lineText(report, terminal()));
    if (report.quarantined !== undefined) process.exitCode = EXIT.found;
    return;
  }
  const report = await inspectAll(location.path, settings);
  if (flags.json) writeJson('inspect', report);
  else process.stdout.write(inspectText(report, terminal()));
  const isClean = report.captures > 0 && report.quarantined.length === 0 && report.unreadable.length === 0;
  if (!isClean) process.exitCode = EXIT.found;
}

export async function inspectAll(path: string, settings: CaptureSettings): Promise<InspectReport> {
  const scorers = activeScorers(settings);
  const always = createAlwaysRule(settings.EVALUATION_ALWAYS, scorers.filter(isCodeScorer));
  const inspection = new Inspection({ settings, scorers, always, sampleRate: settings.EVALUATION_SAMPLE_RATE });
  const progress = startProgress(process.stderr);
  let bytes = 0;
  for await (const line of new OfflineReader(settings).linesOf(await localFiles(path), inspection)) {
    inspection.add(line);
    const { end, start } = line.kind === 'capture' ? line.raw.place : line.place;
    bytes += end - start + 1;
    // A small file is read before anybody could read about it.
    if (bytes > LONG_BYTES) progress.show(`${megabytes(bytes)} read`);
  }
  progress.end();
  return inspection.report();
}

/** @throws PermanentError `LineMissing` */
export async function inspectLine(path: string, number: number, settings: CaptureSettings): Promise<LineReport> {
  const [file, ...others] = await localFiles(path);
  if (file === undefined || others.length > 0) {
    throw new PermanentError('LineMissing', '--line needs one file', { got: path, expected: 'a file, not a folder' });
  }
  const opened = await openFile(file);
  for await (const line of new OfflineReader(settings).lines(file, opened, number)) {
    return describeLine(line, settings, activeScorers(settings));
  }
  const expected = 'the number of a line that is not blank, counted from 1';
  throw new PermanentError('LineMissing', 'The file has no such line', { got: String(number), expected, where: path });
}
