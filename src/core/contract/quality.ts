/**
 * The quality of an endpoint as far as it is known: counts by the hour of the inference and by variant, as all runs know it together. In a
 * receipt they are what the run did itself: captures whose trace it wrote, and verdicts that it gave. Every number may be absent instead
 * of 0.
 */

import type { LogBins } from '../statistics/log-bins.ts';
import type { Badness } from '../values/severity.ts';
import type { PredictionRow } from './ground-truth.ts';

/** By hour (UTC, such as `2026-11-20T10`), then by variant. */
export type QualityCounts = Record<string, Record<string, QualityCell>>;

/** One hour of one variant. */
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
  /** The part of `captures` that the capture client wrote. The others are of Data Capture. */
  byClient?: { streams?: number; calls?: number };
  /** Unstreamed calls of each source, a few, by digests of their inference id and of their content. */
  digests?: { client?: Record<string, number>; dataCapture?: Record<string, number> };
  /** Lines in quarantine by the reason's name. */
  quarantined?: Record<string, number>;
  /** Items that were masked, by kind, field or pattern; `not masked`: captures whose content was left out instead. */
  masked?: Record<string, number>;
  /** Replies that were captured in full, by what they are made of: words, or JSON of unknown form; and how many of them say nothing. */
  replies?: { words?: { all?: number; empty?: number }; values?: { all?: number; empty?: number } };
  /** Captures to which no scorer that can fail applies, drawn or not. */
  unmeasured?: number;
  /** Tokens of the endpoint, as it reported them. */
  inputTokens?: number;
  outputTokens?: number;
  /** What the rows of tabular captures were predicted to be: numbers, or classes. */
  predictions?: { numbers?: NumberCounts; classes?: Record<string, number> };
  /** US dollars of the judge, as they are apportioned to the verdicts, also to those that failed. Those of unknown price are left out. */
  judgeUsd?: number;
  /** Captures without a verdict, by scorer, then by reason. */
  notJudged?: Record<string, Record<string, number>>;
  /** By scorer, then by stratum; see `stratumOf`. Code scorers run on everything and have the stratum `all`. */
  scorers?: Record<string, Record<string, SampleCounts>>;
  /**
   * What recent captures showed about the objectives, which the counts of a day do not have: by measure, then by the second of
   * the inference (epoch).
   */
  seconds?: Record<string, Record<string, { cases?: number; failed?: number }>>;
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
   * Verdicts that are numbers by measure of an objective, such as `response_words under 800`, which bins would tell only nearly. Of other
   * measures, `values` tells how many pass.
   */
  measures?: Record<string, { cases?: number; passed?: number }>;
}

/** Numbers of any kind. */
export interface NumberCounts {
  /** How many there are, by bin; see src/core/statistics/log-bins.ts. */
  bins?: LogBins;
  /** Exactly, for their mean and its interval. */
  sum?: number;
  squares?: number;
}

/** By measure: the captures that failed and that a person should look at first, a few. */
export type QualityFailures = Record<string, ObservedFailure[]>;

/** What the captures of a run showed about the objectives; see src/quality/observations.ts. */
export interface QualityObservations {
  /** By measure, then by variant: captures by the second of their inference. */
  series: Record<string, Record<string, ObservedSecond[]>>;
  failures: QualityFailures;
}

/** Epoch seconds, captures, and how many of them failed. */
export type ObservedSecond = [second: number, cases: number, failed: number];

/** With how bad the reply is by all scorers that it fails. */
export interface ObservedFailure extends Badness, Pick<PredictionRow, 'traceId' | 'second' | 'variant'> {
  /** How many objectives' measures the capture failed. */
  failing: number;
  /** A digest of request and reply, if the run has built the trace. */
  exchange?: string;
  /** How many captures with this digest failed, as far as they were kept; absent instead of 1. */
  count?: number;
  /** The rationale, cut; only with `ALARM_QUOTES`. */
  said?: string;
}
