/** Reports the contents of capture files, how the stack would process them, and the cost of judging them. */

import { DAY_MS, hourPathOf } from '../../src/captures/files/capture-path.ts';
import { buildTrace } from '../../src/captures/trace/build.ts';
import type { TraceRecord } from '../../src/captures/trace/types.ts';
import type { Capture } from '../../src/captures/types.ts';
import type { NamedError } from '../../src/core/contract/receipts.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { timeOf } from '../../src/core/process/within-time.ts';
import { megabytes } from '../../src/core/text/figure-text.ts';
import { addCounts, noCounts } from '../../src/core/values/counts.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { createCostEstimator, expectedCalls } from '../../src/judge/pricing/estimate.ts';
import { createAlwaysRule } from '../../src/judge/scorers/always-rules.ts';
import { applicability } from '../../src/judge/scorers/applicability.ts';
import { askedOf, isCodeScorer, isJudgeScorer, isModelScorer } from '../../src/judge/scorers/scorer-set.ts';
import type { Scorer } from '../../src/judge/types.ts';
import { eachWithin } from '../../src/monitoring/evaluate/each-within.ts';
import { localFiles } from '../../src/replay/source/open-source.ts';
import type { SourceFile } from '../../src/replay/source/types.ts';

import { progress } from '../cli/output.ts';
import type { CommandSettings } from '../cli/settings.ts';
import { type OfflineLine, OTHERS, offlineLines, type Place } from './capture-files.ts';
import { shapeTally } from './shape.ts';

/** Reading more than this takes seconds. */
const LONG_BYTES = 20e6;

const placeOf = (line: OfflineLine) => (line.kind === 'capture' ? line.raw.place : line.place);

/** @throws PermanentError `LineMissing` */
export async function inspectLine(path: string, number: number, settings: CommandSettings): Promise<LineReport> {
  const [file, ...others] = await localFiles(path);
  if (file === undefined || others.length > 0) {
    throw new PermanentError('LineMissing', 'A folder has no lines', { got: path, expected: 'file:line' });
  }
  for await (const line of offlineLines([file], settings, {}, number)) {
    return describeLine(line, settings);
  }
  const expected = 'the number of a line that is not blank, counted from 1';
  throw new PermanentError('LineMissing', 'The file has no such line', { got: String(number), expected, where: path });
}

// ------------------------------------------------------------------------------------------------------- all lines

/** The places of lines that a report names for each reason. */
const EXAMPLES = 3;
/** Different names and notes that are counted; a capture may have any. */
const MAX_NAMES = 50;
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

export type InspectReport = Awaited<ReturnType<typeof inspectAll>>;

/** Characters before and behind the first masked item of a line. */
const AROUND = 100;
const MASKED_LINES = 10;

/** Counts masked items, and keeps the first lines with such items. */
function maskedTally() {
  const masked = { captures: 0, items: noCounts(), lines: [] as (Place & { text: string })[] };
  const add = (capture: Capture, place: Place): void => {
    if (capture.masked === undefined) return;
    masked.captures += 1;
    addCounts(masked.items, capture.masked);
    const text = [capture.request?.text, capture.response?.text].join('\n');
    const at = text.search(/<[^<>\s]{1,100}>/);
    if (masked.lines.length < MASKED_LINES && at >= 0)
      masked.lines.push({ ...place, text: text.slice(Math.max(0, at - AROUND), at + AROUND) });
  };
  return { masked, add };
}

export async function inspectAll(path: string, settings: CommandSettings) {
  const sums = { files: 0, gzip: 0, bytes: 0, lines: 0, captures: 0, duplicates: 0 };
  const quarantined = new Tally<Place & { message: string }>();
  const unreadable: { file: string; message: string }[] = [];
  const content = contentTally(settings);
  const redacted = maskedTally();
  const shape = shapeTally(settings);
  const told = {
    addFile: ({ name, size }: SourceFile, isGzip: boolean) =>
      addCounts(sums, { files: 1, bytes: size, gzip: Number(isGzip || name.endsWith('.gz')) }),
    addUnreadable: (file: string, message: string) => void unreadable.push({ file, message }),
  };
  let bytes = 0;
  for await (const line of offlineLines(await localFiles(path), settings, told)) {
    const { key: file, line: number, start, end } = placeOf(line);
    const place = { file, line: number };
    sums.lines += 1;
    bytes += end - start + 1;
    // A small file is read faster than a user could read about it.
    if (bytes > LONG_BYTES) progress.show(`${megabytes(bytes)} read`);
    if (line.kind === 'quarantine') quarantined.add(line.reason.name, { ...place, message: line.reason.message });
    else if (line.duplicate) sums.duplicates += 1;
    else {
      sums.captures += 1;
      content.add(line.capture, line.traceId, place);
      redacted.add(line.capture, place);
      shape.add(line.capture);
    }
  }
  return {
    /** `gzip`: compressed files, or named *.gz, which the stack does not read. `lines`: that are not blank. */
    ...sums,
    /** Quarantined lines by reason, with the first lines and their faults. */
    quarantined: quarantined.sorted(),
    /** Files that cannot be read, or not to their end. */
    unreadable,
    /** Masked items by kind, field and pattern, if masking is on, with the first masked lines. */
    redacted: settings.redaction && redacted.masked,
    shape: shape.report(),
    ...content.report(),
  };
}

/** Counts the contents of captures, and which scorers can judge them. */
function contentTally(settings: CommandSettings) {
  const active = activeScorers(settings);
  const always = createAlwaysRule(settings.EVALUATION_ALWAYS, active.filter(isCodeScorer));
  const { EVALUATION_SAMPLE_RATE: sampleRate, JUDGED_CAPTURES_PER_DAY: perDay } = settings;
  const options = { judge: 'converse', sampleRate, asListed: true } as const;
  const estimator = createCostEstimator(settings, active, options, always);
  const usage = { captures: 0, inputTokens: 0, outputTokens: 0 };
  const [models, notes] = [new Tally(), new Tally()];
  const entryOf = ({ name, kind }: Scorer) => ({ name, kind, captures: 0, not: noCounts() });
  const scorers = new Map(askedOf(active).map((scorer) => [scorer.name, entryOf(scorer)]));
  let [firstMs, lastMs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  let captures = 0;
  const add = (capture: Capture, traceId: string, place: Place): void => {
    const { inferenceTimeMs, timeSource } = capture;
    captures += 1;
    if (timeSource === 'inferenceTime') {
      [firstMs, lastMs] = [Math.min(firstMs, inferenceTimeMs), Math.max(lastMs, inferenceTimeMs)];
    }
    const { inputTokens = 0, outputTokens = 0 } = capture.usage ?? {};
    if (capture.usage !== undefined) addCounts(usage, { captures: 1, inputTokens, outputTokens });
    if (capture.model !== undefined) models.add(capture.model, place);
    for (const note of new Set(capture.notes)) notes.add(note, place);
    const estimate = { name: 'the estimate', of: () => void estimator.add(capture, traceId, place.file) };
    const asked = askedOf(active, capture);
    const reasons = reasonsOf(capture, asked, estimate);
    for (const [index, one] of asked.entries()) {
      const reason = reasons[index];
      const scorer = scorers.get(one.name) ?? entryOf(one);
      scorers.set(one.name, scorer);
      if (reason === undefined) scorer.captures += 1;
      else addCounts(scorer.not, { [reason]: 1 });
    }
  };
  const iso = (ms: number): string => new Date(ms).toISOString();
  /** Returns the share of the captures that a number a day judges. */
  const share = (): number => {
    const days = Math.max(1, Math.ceil((lastMs - firstMs) / DAY_MS));
    return sampleRate === undefined ? Math.min(1, (perDay * days) / Math.max(1, captures)) : 1;
  };
  const report = () => ({
    /** Captured times, ISO 8601. */
    times: firstMs > lastMs ? undefined : { first: iso(firstMs), last: iso(lastMs) },
    /** Captures by the model that they name. */
    models: Object.fromEntries(models.sorted().map(({ name, count }) => [name, count])),
    /** Captures whose endpoint reported tokens, and the sums of the tokens. */
    usage,
    /** Notes with their first locations. */
    notes: notes.sorted().map(({ name, ...counted }) => ({ note: name, ...counted })),
    /** For each scorer, the captures that it applies to, and the others by reason. */
    scorers: [...scorers.values()],
    cost: estimator.result(share()),
  });
  return { add, report };
}

/** Work on a capture. */
interface Work {
  name: string;
  of(): string | undefined;
}

/**
 * Returns why each scorer does not apply to a capture, or `undefined`. All scorers share the time limit of one capture:
 * watching the time takes longer than most of the work.
 */
function reasonsOf(capture: Capture, scorers: readonly Scorer[], ...more: Work[]): ReturnType<Work['of']>[] {
  const work = scorers.map((scorer): Work => {
    const of = (): string | undefined => {
      const scored = scorer.kind === 'code' ? scorer.score(capture) : applicability(capture, scorer);
      return 'notJudgeable' in scored ? scored.notJudgeable : undefined;
    };
    return { name: scorer.name, of };
  });
  return eachWithin(
    timeOf(capture),
    [...work, ...more],
    ({ of }) => of(),
    (_, fault) => fault,
  );
}

// -------------------------------------------------------------------------------------------------------- one line
// Its trace, or the reason why it is quarantined.

export interface LineReport extends Place {
  quarantined?: NamedError;
  /** The trace as written to MLflow, without the ids, which depend on the experiment. */
  trace?: Omit<TraceRecord, 'traceId' | 'encoded'>;
  format?: string;
  wireFormat?: string;
  notes?: string[];
  /** By scorer name: `null`, or why the scorer does not apply. */
  scorers?: Record<string, string | null>;
  /** Expected for the judge; `null` if its price is unknown. */
  judgeUsd?: number | null;
}

/** The name of the endpoint in SageMaker's layout of keys. */
const endpointIn = (key: string): string | undefined => hourPathOf(key)?.base.split('/').at(-3);

function describeLine(line: OfflineLine, settings: CommandSettings): LineReport {
  const { key, line: number } = placeOf(line);
  const facts = { file: key, line: number };
  if (line.kind === 'quarantine') return { ...facts, quarantined: line.reason };
  const { capture, raw } = line;
  // The settings may belong to another endpoint.
  const endpointName = endpointIn(key) || 'my-endpoint';
  const { traceId: _, ...trace } = buildTrace(capture, raw, { experimentId: '', endpointName });
  const scorers = askedOf(activeScorers(settings), capture);
  const reasons = reasonsOf(capture, scorers);
  const asked = scorers.filter((scorer, index) => isJudgeScorer(scorer) && reasons[index] === undefined);
  return {
    ...facts,
    trace,
    format: capture.format,
    wireFormat: capture.wireFormat,
    notes: capture.notes,
    scorers: Object.fromEntries(scorers.map(({ name }, index) => [name, reasons[index] ?? null])),
    judgeUsd: asked.length === 0 ? 0 : expectedCalls(settings, capture, asked.filter(isModelScorer)).usd,
  };
}
