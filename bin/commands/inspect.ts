/**
 * `inference-monitor inspect`: what capture files contain, what the stack would do with them, and what judging them
 * would cost, offline.
 */

import { capturePathOf, hourPathOf } from '../../src/captures/files/capture-path.ts';
import { buildTrace } from '../../src/captures/trace/build.ts';
import type { TraceRecord } from '../../src/captures/trace/types.ts';
import type { Capture } from '../../src/captures/types.ts';
import type { NamedError } from '../../src/core/contract/receipts.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { timeOf } from '../../src/core/process/within-time.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { createCostEstimator, expectedCalls } from '../../src/judge/pricing/estimate.ts';
import { createAlwaysRule } from '../../src/judge/scorers/always-rules.ts';
import { applicability } from '../../src/judge/scorers/applicability.ts';
import { isCodeScorer, isJudgeScorer } from '../../src/judge/scorers/scorer-set.ts';
import type { Scorer } from '../../src/judge/types.ts';
import { eachWithin } from '../../src/monitoring/evaluate/each-within.ts';
import { localFiles } from '../../src/replay/source/open-source.ts';
import type { SourceFile } from '../../src/replay/source/types.ts';
import { argument, command, numbers, option, options } from '../cli/options.ts';
import { EXIT, jsonOption, megabytes, print } from '../cli/output.ts';
import { startProgress } from '../cli/progress.ts';
import { type OfflineLine, offlineLines, type Place, parseLocation } from '../offline/capture-files.ts';
import { inspectText, lineText } from './inspect-text.ts';
import { type CommandSettings, commandSettings } from './settings.ts';

/** Reading more than this takes seconds. */
const LONG_BYTES = 20e6;

const OPTIONS = options(
  argument('<captures>', 'a capture file, file:line, or a folder'),
  option('--line <number>', 'show what this line of the file becomes', numbers.count),
  jsonOption(),
);

const HELP = `
Reads *.jsonl and *.jsonl.gz with the stack's own reader. It needs no AWS, no network and no settings; those that decide how captures
are read and judged are taken from .env. The exit code is 1 if a line would be quarantined, if there is no capture, or if a file of a
folder cannot be read; 2 if nothing can be read.

Examples:
  inference-monitor inspect captures/
  inference-monitor inspect captures.jsonl:17 --json`;

export default command('inspect', OPTIONS, HELP, async ({ json, captures, ...flags }) => {
  const location = parseLocation(captures);
  const settings = commandSettings();
  const line = flags.line ?? location.line;
  if (line !== undefined) {
    const report = await inspectLine(location.path, line, settings);
    print('inspect', report, json, (out) => lineText(report, out));
    if (report.quarantined !== undefined) process.exitCode = EXIT.found;
    return;
  }
  const report = await inspectAll(location.path, settings);
  print('inspect', report, json, (out) => inspectText(report, out));
  const isClean = report.captures > 0 && report.quarantined.length === 0 && report.unreadable.length === 0;
  if (!isClean) process.exitCode = EXIT.found;
});

export type InspectReport = ReturnType<Inspection['report']>;

export async function inspectAll(path: string, settings: CommandSettings): Promise<InspectReport> {
  const inspection = new Inspection(settings);
  const progress = startProgress(process.stderr);
  let bytes = 0;
  for await (const line of offlineLines(await localFiles(path), settings, inspection)) {
    inspection.add(line);
    const { end, start } = placeOf(line);
    bytes += end - start + 1;
    // A small file is read before anybody could read about it.
    if (bytes > LONG_BYTES) progress.show(`${megabytes(bytes)} read`);
  }
  progress.end();
  return inspection.report();
}

const placeOf = (line: OfflineLine) => (line.kind === 'capture' ? line.raw.place : line.place);

/** @throws PermanentError `LineMissing` */
export async function inspectLine(path: string, number: number, settings: CommandSettings): Promise<LineReport> {
  const [file, ...others] = await localFiles(path);
  if (file === undefined || others.length > 0) {
    throw new PermanentError('LineMissing', '--line needs one file', { got: path, expected: 'a file, not a folder' });
  }
  for await (const line of offlineLines([file], settings, {}, number)) {
    return describeLine(line, settings, activeScorers(settings));
  }
  const expected = 'the number of a line that is not blank, counted from 1';
  throw new PermanentError('LineMissing', 'The file has no such line', { got: String(number), expected, where: path });
}

// ------------------------------------------------------------------------------------------------------- all lines

/** The places of lines that a report names for each reason. */
const EXAMPLES = 3;
/** Different names and notes that are counted; a capture may have any. */
const MAX_NAMES = 50;
const OTHERS = '(others)';
const MAX_NAME_CHARS = 200;

/** Counts by name, for the first names. */
class Tally<At extends Place = Place> {
  readonly #entries = new Map<string, { name: string; count: number; at: At[] }>();

  add(given: string, at: At): void {
    const cut = given.slice(0, MAX_NAME_CHARS);
    const name = this.#entries.has(cut) || this.#entries.size < MAX_NAMES ? cut : OTHERS;
    const entry = this.#entries.get(name) ?? { name, count: 0, at: [] };
    entry.count += 1;
    if (entry.at.length < EXAMPLES) entry.at.push(at);
    this.#entries.set(name, entry);
  }

  sorted(): { name: string; count: number; at: At[] }[] {
    return [...this.#entries.values()].sort((a, b) => b.count - a.count);
  }
}

class Inspection {
  readonly #active: readonly Scorer[];
  readonly #estimator: ReturnType<typeof createCostEstimator>;
  readonly #quarantined = new Tally<Place & { message: string }>();
  readonly #unreadable: { file: string; message: string }[] = [];
  readonly #notes = new Tally();
  readonly #models = new Tally();
  readonly #formats = new Map<string, ReturnType<typeof formatOf>>();
  readonly #scorers: { name: string; kind: Scorer['kind']; captures: number; not: Record<string, number> }[];
  readonly #usage = { captures: 0, inputTokens: 0, outputTokens: 0 };
  readonly #sums = { files: 0, gzip: 0, bytes: 0, lines: 0, captures: 0, duplicates: 0 };
  #firstMs = Number.POSITIVE_INFINITY;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(settings: CommandSettings) {
    const scorers = activeScorers(settings);
    const always = createAlwaysRule(settings.EVALUATION_ALWAYS, scorers.filter(isCodeScorer));
    const options = { judge: 'converse', sampleRate: settings.EVALUATION_SAMPLE_RATE, asListed: true } as const;
    this.#active = scorers;
    this.#estimator = createCostEstimator(settings, scorers, options, always);
    this.#scorers = scorers.map(({ name, kind }) => ({ name, kind, captures: 0, not: {} }));
  }

  /** @param isGzip the content is compressed */
  addFile({ name, size }: Pick<SourceFile, 'name' | 'size'>, isGzip: boolean): void {
    this.#sums.files += 1;
    this.#sums.bytes += size;
    if (isGzip || name.endsWith('.gz')) this.#sums.gzip += 1;
  }

  addUnreadable(file: string, message: string): void {
    this.#unreadable.push({ file, message });
  }

  add(line: OfflineLine): void {
    this.#sums.lines += 1;
    const { key: file, line: number } = placeOf(line);
    const place = { file, line: number };
    if (line.kind === 'quarantine') {
      this.#quarantined.add(line.reason.name, { ...place, message: line.reason.message });
    } else if (line.duplicate) {
      this.#sums.duplicates += 1;
    } else {
      this.#sums.captures += 1;
      this.#addCapture(line.capture, line.traceId, place);
    }
  }

  #addCapture(capture: Capture, traceId: string, place: Place): void {
    const { inferenceTimeMs, timeSource, usage, model, notes } = capture;
    this.#addFormat(capture);
    if (timeSource === 'inferenceTime') {
      this.#firstMs = Math.min(this.#firstMs, inferenceTimeMs);
      this.#lastMs = Math.max(this.#lastMs, inferenceTimeMs);
    }
    if (usage !== undefined) {
      this.#usage.captures += 1;
      this.#usage.inputTokens += usage.inputTokens ?? 0;
      this.#usage.outputTokens += usage.outputTokens ?? 0;
    }
    if (model !== undefined) this.#models.add(model, place);
    for (const note of new Set(notes)) this.#notes.add(note, place);
    const { variant } = capturePathOf(place.file);
    const estimate = { name: 'the estimate', of: () => void this.#estimator.add(capture, traceId, { variant }) };
    const reasons = eachOn(capture, [...reasonsOf(capture, this.#active), estimate]);
    for (const [index, scorer] of this.#scorers.entries()) {
      const reason = reasons[index];
      if (typeof reason === 'string') scorer.not[reason] = (scorer.not[reason] ?? 0) + 1;
      else scorer.captures += 1;
    }
  }

  #addFormat({ format, wireFormat, streamed, error }: Capture): void {
    const id = `${format} ${wireFormat}`;
    const entry = this.#formats.get(id) ?? formatOf(format, wireFormat);
    entry.captures += 1;
    if (streamed) entry.streamed += 1;
    if (error !== undefined) entry.errorReplies += 1;
    this.#formats.set(id, entry);
  }

  report() {
    const iso = (ms: number): string => new Date(ms).toISOString();
    return {
      /** `gzip`: compressed files, or named *.gz, which the stack does not read. `lines`: that are not blank. */
      ...this.#sums,
      /** By reason, with the first lines and what is wrong with each. */
      quarantined: this.#quarantined.sorted(),
      /** Files that cannot be read, or not to their end. */
      unreadable: this.#unreadable,
      /** Captured times, ISO 8601. */
      times: this.#firstMs > this.#lastMs ? undefined : { first: iso(this.#firstMs), last: iso(this.#lastMs) },
      formats: [...this.#formats.values()].sort((a, b) => b.captures - a.captures),
      /** Captures by the model that they name. */
      models: Object.fromEntries(this.#models.sorted().map(({ name, count }) => [name, count])),
      /** Captures whose endpoint reported tokens, and their sums. */
      usage: this.#usage,
      /** With the first places. */
      notes: this.#notes.sorted().map(({ name, ...counted }) => ({ note: name, ...counted })),
      /** By scorer, the captures that it applies to, and the others by the reason. */
      scorers: this.#scorers,
      cost: this.#estimator.result(),
    };
  }
}

const formatOf = (format: string, wireFormat: string | undefined) => ({
  ...{ format, wireFormat },
  ...{ captures: 0, streamed: 0, errorReplies: 0 },
});

interface Work {
  name: string;
  of(): string | undefined;
}

/** Why a scorer does not apply to the capture, or `undefined`, for each of them. */
const reasonsOf = (capture: Capture, scorers: readonly Scorer[]): Work[] =>
  scorers.map((scorer) => ({
    name: scorer.name,
    of: () => {
      const scored = scorer.kind === 'code' ? scorer.score(capture) : applicability(capture, scorer);
      return 'notJudgeable' in scored ? scored.notJudgeable : undefined;
    },
  }));

/** Does all of it within the time of one capture: to watch the time takes longer than most of the work. */
const eachOn = (capture: Capture, work: readonly Work[]): ReturnType<Work['of']>[] =>
  eachWithin(
    timeOf(capture),
    work,
    ({ of }) => of(),
    (_, fault) => fault,
  );

// -------------------------------------------------------------------------------------------------------- one line
// Its trace, or the reason why it is quarantined.

export interface LineReport extends Place {
  quarantined?: NamedError;
  /** As it is written to MLflow, without the ids, which depend on the experiment. */
  trace?: Omit<TraceRecord, 'traceId' | 'encoded'>;
  format?: string;
  wireFormat?: string;
  notes?: string[];
  /** By name: `null`, or why the scorer does not apply. */
  scorers?: Record<string, string | null>;
  /** Expected for the judge; `null` if its price is unknown. */
  judgeUsd?: number | null;
}

/** The name of the endpoint in SageMaker's layout of keys. */
const endpointIn = (key: string): string | undefined => hourPathOf(key)?.base.split('/').at(-3);

function describeLine(line: OfflineLine, settings: CommandSettings, scorers: readonly Scorer[]): LineReport {
  const { key, line: number } = placeOf(line);
  const facts = { file: key, line: number };
  if (line.kind === 'quarantine') return { ...facts, quarantined: line.reason };
  const { capture, raw } = line;
  const endpointName = settings.SAGEMAKER_ENDPOINT_NAME ?? (endpointIn(key) || 'my-endpoint');
  const { traceId: _, ...trace } = buildTrace(capture, raw, { experimentId: '', endpointName });
  const reasons = eachOn(capture, reasonsOf(capture, scorers));
  const asked = scorers.filter((scorer, index) => isJudgeScorer(scorer) && reasons[index] === undefined);
  return {
    ...facts,
    trace,
    format: capture.format,
    wireFormat: capture.wireFormat,
    notes: capture.notes,
    scorers: Object.fromEntries(scorers.map(({ name }, index) => [name, reasons[index] ?? null])),
    judgeUsd: asked.length === 0 ? 0 : expectedCalls(settings, capture, asked.filter(isJudgeScorer)).usd,
  };
}
