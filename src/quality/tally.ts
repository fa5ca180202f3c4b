/** Counts what a run does with the captures of a chunk, by hour of the inference and variant, for its receipt. */

import { hash } from 'node:crypto';
import { saidIn } from '../captures/blank.ts';
import { callDigests } from '../captures/call-digests.ts';
import { failureOf, kindBesideRates } from '../captures/failure.ts';
import { capturePathOf, HOUR_MS } from '../captures/files/capture-path.ts';
import type { TraceRecord } from '../captures/trace/types.ts';
import type { Capture, LinePlace } from '../captures/types.ts';
import type { QualityCell, QualityCounts, QualityFailures, SampleCounts } from '../core/contract/quality.ts';
import type { QuarantineEntry, Receipt } from '../core/contract/receipts.ts';
import {
  CASCADE_JUDGE,
  JUDGE_COST,
  type NewAssessment,
  RUN_METADATA,
  SAMPLE_METADATA,
  SCORER_VERSION,
  type StoredAssessment,
} from '../mlflow/types.ts';
import { addCell, isCountable, nameOf, numberCounts, OTHER } from './cell.ts';
import { addTree, branch } from './count-tree.ts';
import { addFailures } from './detectors.ts';
import type { Measure } from './objectives.ts';
import { EVERY_CAPTURE, stratumOf } from './sample.ts';

/** Reasons that end others. */
const FOLLOWED = ['retried', 'judgedLater'];
/** SageMaker's endpoints have at most 10 variants. More names were made up, and would make more counts than captures. */
const MAX_VARIANTS = 20;
/** The key of the object names no variant. */
const NO_VARIANT = '(none)';

/** What the counts need to know of a capture, which is not kept itself. */
export interface CaptureFacts {
  inferenceMs: number;
  variant: string;
  isError: boolean;
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  /** What else its trace adds to the counts. */
  more?: Omit<QualityCell, 'captures' | 'errorReplies'>;
  /** The run of the replay that sent the request, which is not counted. */
  replay?: string | undefined;
}

/** What the capture itself does not say. */
interface LineFacts {
  replay?: string | undefined;
  /** Its rows, if it is tabular. */
  predictions?: QualityCell['predictions'] | undefined;
  /** It was in quarantine. */
  isRetried?: boolean;
}

/** A verdict, before or after it is written. */
export type CountedVerdict = Pick<StoredAssessment, 'name' | 'value' | 'metadata' | 'sourceType' | 'sourceId'> &
  Pick<NewAssessment, 'rationale'>;

/** One capture, and what this run has done with it so far, in whichever attempt. */
export interface CountedCapture {
  traceId: string;
  facts: CaptureFacts;
  /** Of request and reply, if the run has built the trace; see `exchangeDigest`. */
  exchange?: string | undefined;
  /** This run wrote its trace. */
  isWritten: boolean;
  /** Verdicts of this run that are in MLflow. */
  verdicts: readonly CountedVerdict[];
  /** Those that failed. */
  failed?: readonly Pick<CountedVerdict, 'metadata'>[];
  /** Older verdicts that those replace, and how often each is in the counts. */
  replaced: readonly (CountedVerdict & { times: number })[];
  /** This run was the first to evaluate the capture. By LLM scorer that could judge it, the stratum. */
  judgeable: readonly { scorer: string; sample: string }[];
  /** By scorer without a verdict, the reason; or that its verdict followed. */
  notJudged: Record<string, string>;
  /** This run was the first to evaluate the capture, and no scorer with bounds applies to it. */
  isUnmeasured?: boolean;
}

/** @param capture absent if the line must not be decoded: its time is then that of its object */
export function captureFacts(
  capture: Capture | undefined,
  place: Pick<LinePlace, 'key' | 'objectTimeMs'>,
  { replay, predictions, isRetried }: LineFacts = {},
): CaptureFacts {
  const { variant = NO_VARIANT, hourMs } = capturePathOf(place.key);
  const beside = capture && kindBesideRates(capture);
  return {
    inferenceMs: capture?.inferenceTimeMs ?? hourMs ?? place.objectTimeMs,
    variant: nameOf(variant),
    isError: capture !== undefined && failureOf(capture) !== undefined,
    inputTokens: capture?.usage?.inputTokens,
    outputTokens: capture?.usage?.outputTokens,
    more: {
      ...(beside === undefined
        ? capture && { ...errorCounts(capture), ...saidCounts(capture), ...digestCounts(capture) }
        : { failedCalls: { [beside]: 1 } }),
      ...(beside === undefined && capture?.call && { byClient: { [capture.call.streamed ? 'streams' : 'calls']: 1 } }),
      ...(predictions && { predictions }),
      ...(capture?.masked && { masked: { ...capture.masked } }),
      ...(isRetried && { quarantined: { retried: -1 } }),
    },
    replay,
  };
}

/** Returns the kind of an error reply. */
function errorCounts(capture: Capture): CaptureFacts['more'] {
  const error = failureOf(capture);
  const kind = capture.call?.error?.kind ?? error?.statusCode ?? error?.type ?? 'unnamed';
  return error && { errorKinds: { [nameOf(String(kind))]: 1 } };
}

/** Returns whether the reply says something. */
function saidCounts(capture: Capture): CaptureFacts['more'] {
  const { form, isEmpty } = saidIn(capture) ?? {};
  return form && { replies: { [form]: { all: 1, ...(isEmpty && { empty: 1 }) } } };
}

/** Returns by which digests the call of a capture is known, by its source. */
const digestCounts = (capture: Capture): CaptureFacts['more'] => ({
  digests: {
    [capture.call ? 'client' : 'dataCapture']: Object.fromEntries(callDigests(capture).map((one) => [one, 1])),
  },
});

/** Returns a digest that traces have in common whose list entries look the same. */
export const exchangeDigest = ({ requestPreview, responsePreview }: TraceRecord): string =>
  hash('sha256', JSON.stringify([requestPreview, responsePreview])).slice(0, 16);

/** Returns the hour of an instant, such as `2026-11-20T10`. @param ms epoch milliseconds */
export const hourOf = (ms: number): string => new Date(Math.floor(ms / HOUR_MS) * HOUR_MS).toISOString().slice(0, 13);

/** What a capture shows about the objectives. */
interface Observed {
  seconds: NonNullable<QualityCell['seconds']>;
  failures: QualityFailures;
}

/** Returns what a capture shows about the measures of the objectives; `undefined` for one that is not observed. */
export type Observe = ((capture: CountedCapture) => Observed | undefined) & { measures: readonly Measure[] };

/**
 * Returns the part of a receipt that the counts of all runs are made of.
 *
 * @param captures each that has a trace, once
 * @param quarantined lines that the run has put into quarantine
 * @param observe tells what captures show about the objectives, if there are any
 */
export function qualityOf(
  captures: Iterable<CountedCapture>,
  quarantined: readonly QuarantineEntry[] = [],
  observe?: Observe,
): Pick<Receipt, 'quality' | 'failures'> {
  const [quality, failures, variants] = [{} as QualityCounts, {} as QualityFailures, new Set<string>()];
  const add = ({ inferenceMs, variant }: CaptureFacts, cell: QualityCell): void => {
    if (Object.keys(cell).length === 0) return;
    if (variants.size < MAX_VARIANTS) variants.add(variant);
    addCell(branch(branch(quality, hourOf(inferenceMs)), variants.has(variant) ? variant : OTHER), cell);
  };
  for (const capture of captures) {
    if (capture.facts.replay !== undefined) continue;
    const observed = isCapture(capture) ? observe?.(capture) : undefined;
    addFailures(failures, observed?.failures ?? {});
    add(capture.facts, cellOf(capture, observe?.measures ?? [], observed?.seconds));
  }
  for (const { reason, ...place } of quarantined) {
    const facts = captureFacts(undefined, place);
    // The time of a file may be why its lines are in quarantine.
    if (Number.isNaN(new Date(facts.inferenceMs).valueOf())) continue;
    add(facts, { quarantined: { [nameOf(reason.name)]: 1 } });
  }
  return {
    ...(Object.keys(quality).length === 0 ? {} : { quality }),
    ...(Object.keys(failures).length === 0 ? {} : { failures }),
  };
}

/** Whether it is one of the rates, and no call without a reply that is beside them. */
const isCapture = ({ facts }: CountedCapture): boolean => facts.more?.failedCalls === undefined;

/** Returns what a capture adds to the counts of its hour and variant. */
function cellOf(capture: CountedCapture, measures: readonly Measure[], seconds: Observed['seconds'] = {}): QualityCell {
  const { facts, isWritten, verdicts, failed = [], replaced, judgeable, notJudged, isUnmeasured } = capture;
  if (!isCapture(capture)) return isWritten ? { ...facts.more } : {};
  const { inputTokens = 0, outputTokens = 0, isError } = facts;
  const cell: QualityCell = {};
  const written = { captures: 1, errorReplies: isError ? 1 : 0, inputTokens, outputTokens };
  if (isWritten) addTree(cell, { ...counted(written), ...facts.more });
  for (const [scorer, reason] of Object.entries(notJudged)) {
    addTree(cell, { notJudged: { [scorer]: { [reason]: FOLLOWED.includes(reason) ? -1 : 1 } } });
  }
  // The rows of a table are measured by true answers, and empty replies are counted.
  const isCounted = isError || facts.more?.predictions !== undefined || facts.more?.replies?.words?.empty;
  if (isUnmeasured && !isCounted) addTree(cell, { unmeasured: 1 });
  for (const { scorer, sample } of judgeable) addTree(cell, { scorers: { [scorer]: { [sample]: { captures: 1 } } } });
  for (const verdict of verdicts) addVerdict(cell, verdict, 1, measures);
  for (const verdict of [...verdicts, ...failed]) addCost(cell, verdict);
  for (const verdict of replaced) addVerdict(cell, verdict, -verdict.times, measures);
  if (Object.keys(seconds).length > 0) addTree(cell, { seconds });
  return cell;
}

/** Adds a verdict, or takes it away. One of another program is not in the counts, and is not taken away. */
function addVerdict(cell: QualityCell, verdict: CountedVerdict, times: number, measures: readonly Measure[]): void {
  const { name, value, metadata, sourceType } = verdict;
  const sample = stratumOf(metadata);
  if (sample === undefined || value === undefined) return;
  const counts: SampleCounts = {};
  if (typeof value !== 'number') counts.values = { [nameOf(String(value))]: times };
  else if (!isCountable(value)) return;
  else {
    counts.numbers = numberCounts(value, times);
    const own = measures.filter(({ scorer }) => scorer === name);
    const seen = own.map((one) => [one.name, { cases: times, passed: one.passes(value) ? times : 0 }]);
    if (seen.length > 0) counts.measures = Object.fromEntries(seen);
  }
  if (sourceType !== 'CODE') counts.versions = { [versionOf(verdict)]: times };
  addTree(cell, { scorers: { [name]: { [sourceType === 'CODE' ? EVERY_CAPTURE : sample]: counts } } });
}

const counted = (counts: Record<string, number>): Record<string, number> =>
  Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== 0 && isCountable(count)));

const VERSION_DIGITS = 8;

/** Returns a name that verdicts have in common to which the same judge was asked the same question. The judge of a cascade is the last one. */
const versionOf = ({ sourceId, metadata }: CountedVerdict): string =>
  hash('sha256', JSON.stringify([metadata[CASCADE_JUDGE] ?? sourceId, metadata[SCORER_VERSION]])).slice(
    0,
    VERSION_DIGITS,
  );

/** Adds what a verdict has cost, which is spent also if the verdict failed or is replaced. */
function addCost(cell: QualityCell, { metadata }: Pick<CountedVerdict, 'metadata'>): void {
  const usd = Number(metadata[JUDGE_COST] ?? 0);
  if (stratumOf(metadata) !== undefined && usd > 0 && isCountable(usd)) addTree(cell, { judgeUsd: usd });
}

/** Whether no other run has evaluated the trace, as far as the counts know. */
export const isFirstToEvaluate = (run: string, stored: readonly StoredAssessment[]): boolean =>
  stored.every(({ metadata }) => metadata[SAMPLE_METADATA] === undefined || metadata[RUN_METADATA] === run);

/**
 * Returns the reasons of a capture that another run was the first to evaluate: verdicts that were missing have followed. A retry gives only
 * those that were held or that failed.
 */
export function judgedLater(
  { verdicts, replaced }: Pick<CountedCapture, 'verdicts' | 'replaced'>,
  isRetry: boolean,
): CountedCapture['notJudged'] {
  const before = new Set(replaced.filter(({ value }) => value !== undefined).map(({ name }) => name));
  const news = verdicts.filter(({ name }) => !before.has(name));
  return Object.fromEntries(news.map(({ name }) => [name, isRetry ? 'retried' : 'judgedLater']));
}

/**
 * Returns the verdicts of a run on a trace, and the older verdicts that they replace.
 *
 * @param stored the assessments before the run wrote the `written` ones
 */
export function verdictsOfRun(
  run: string,
  stored: readonly StoredAssessment[],
  written: readonly NewAssessment[],
): Pick<CountedCapture, 'verdicts' | 'replaced'> {
  const news = new Set(written.map(({ assessmentId }) => assessmentId));
  const earlier = ownVerdicts(run, stored).filter(({ assessmentId }) => !news.has(assessmentId));
  const overridden = new Set(earlier.map(({ overrides }) => overrides));
  const before = stored.filter(({ assessmentId }) => overridden.has(assessmentId));
  const replaced = written.filter(({ replaces, value }) => replaces && value !== undefined);
  return {
    verdicts: [...written.filter(({ value }) => value !== undefined), ...earlier],
    replaced: [
      ...before.map((verdict) => ({ ...verdict, times: 1 })),
      ...replaced.flatMap(({ name }) => inCounts(stored.filter((one) => one.name === name))),
    ],
  };
}

/** Returns the verdicts that a run has written before. */
export const ownVerdicts = (run: string, stored: readonly StoredAssessment[]): StoredAssessment[] =>
  stored.filter(
    ({ metadata, sourceType, value }) =>
      metadata[RUN_METADATA] === run && sourceType !== 'HUMAN' && value !== undefined,
  );

/**
 * Returns how often each verdict of a scorer on a trace is in the counts: one in force once, and one that was overridden not at all. Of two
 * that override the same one, each has taken it away.
 */
const inCounts = (ofScorer: readonly StoredAssessment[]): (StoredAssessment & { times: number })[] =>
  ofScorer
    .map((verdict) => {
      const taken = ofScorer.filter(
        ({ overrides, value }) => overrides === verdict.assessmentId && value !== undefined,
      );
      return { ...verdict, times: 1 - taken.length };
    })
    .filter(({ times }) => times !== 0);
