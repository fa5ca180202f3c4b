/**
 * The quality of an endpoint, as known from all runs: counts by variant and by the hour of the inference. In a receipt,
 * the counts are the run's own: captures whose trace it wrote, and its own verdicts. Every number may be absent instead
 * of 0.
 */

import type { LogBins } from '../statistics/log-bins.ts';
import type { Badness } from '../values/severity.ts';
import type { PredictionRow } from './ground-truth.ts';

/** Counts by hour (UTC, such as `2026-11-20T10`), then by variant. */
export type QualityCounts = Record<string, Record<string, QualityCell>>;

/** The counts of one hour of one variant. */
export interface QualityCell {
  /** Captures whose trace the run wrote. */
  captures?: number;
  /** The part of `captures` whose reply is an error. */
  errorReplies?: number;
  /** `errorReplies` by kind: the HTTP status such as `503`, or else the error's own name; `throttled` and others of calls. */
  errorKinds?: Record<string, number>;
  /**
   * Calls without a reply that are no captures, by kind such as `throttled`: their caller writes no others of the kind, or they did not
   * reach the endpoint.
   */
  failedCalls?: Record<string, number>;
  /** Captures beside these that are no traffic: those of a rule of `NOT_TRAFFIC`, or of an excluded window. */
  notTraffic?: number;
  /** The part of `captures` and `notTraffic` that the capture client wrote. The others are of Data Capture. */
  byClient?: { streams?: number; calls?: number };
  /** A few unstreamed calls of each source, by digests of their inference id and of their content. */
  digests?: { client?: Record<string, number>; dataCapture?: Record<string, number> };
  /** Lines in quarantine by the reason's name. */
  quarantined?: Record<string, number>;
  /** Masked items by kind, field or pattern. `not masked`: captures whose content was left out instead. */
  masked?: Record<string, number>;
  /** Replies that were captured in full, by form (words, or JSON of unknown form), and how many of them are empty. */
  replies?: { words?: { all?: number; empty?: number }; values?: { all?: number; empty?: number } };
  /** Captures to which no scorer that can fail applies, drawn or not. */
  unmeasured?: number;
  /** Tokens of the endpoint, as it reported them. */
  inputTokens?: number;
  outputTokens?: number;
  /** Predictions in the rows of tabular captures: numbers, or classes. */
  predictions?: { numbers?: NumberCounts; classes?: Record<string, number> };
  /**
   * The judge's cost in US dollars, apportioned to the verdicts, including failed verdicts. Excludes verdicts of
   * unknown price.
   */
  judgeUsd?: number;
  /** Captures without a verdict, by scorer, then by reason. */
  notJudged?: Record<string, Record<string, number>>;
  /** Counts by scorer, then by stratum; see `stratumOf`. Code scorers run on everything and have the stratum `all`. */
  scorers?: Record<string, Record<string, SampleCounts>>;
}

/** The verdicts of a scorer on the captures that had the same chance to be judged. */
export interface SampleCounts {
  /** Captures that could be judged, whether they were drawn or not. Of LLM scorers only. */
  captures?: number;
  /** Verdicts by value. */
  values?: Record<string, number>;
  /** Verdicts by version of the judge: model, question and options. */
  versions?: Record<string, number>;
  /** Verdicts that are numbers. */
  numbers?: NumberCounts;
  /**
   * Numeric verdicts by measure of an objective, such as `response_words under 800`, for which bins would only be
   * approximate. For other measures, `values` shows how many pass.
   */
  measures?: Record<string, { cases?: number; passed?: number }>;
}

/** Numbers of any kind. */
export interface NumberCounts {
  /** Counts by bin; see src/core/statistics/log-bins.ts. */
  bins?: LogBins;
  /** Exactly, for their mean and its interval. */
  sum?: number;
  squares?: number;
}

/** For each measure, a few failed captures that a person should look at first. */
export type QualityFailures = Record<string, ObservedFailure[]>;

/** Captures by measure, by variant, and by the second of their inference (epoch). */
export type ObservedSeries = Record<string, Record<string, Record<string, { cases?: number; failed?: number }>>>;

/** Observations of the objectives in the captures of a run; see src/quality/observations.ts. */
export interface QualityObservations {
  series: ObservedSeries;
  failures: QualityFailures;
}

/** A failed capture, with the severity over all scorers that its reply fails. */
export interface ObservedFailure extends Badness, Pick<PredictionRow, 'traceId' | 'second' | 'variant'> {
  /** Number of objectives whose measure the capture failed. */
  failing: number;
  /** A digest of request and reply, if the run has built the trace. */
  exchange?: string;
  /** Number of failed captures with this digest that were kept. Absent instead of 1. */
  count?: number;
  /** The rationale, cut; only with `ALARM_QUOTES`. */
  said?: string;
}
