/**
 * The process that works on heavy captures, one after the other: all that a step does with their content, up to the requests to MLflow
 * and to the judge. `HeavyCaptures` starts it and may kill it at any time.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { callDigests } from '../../captures/call-digests.ts';
import { apart } from '../../captures/content.ts';
import { decodeLine } from '../../captures/decode.ts';
import { buildTrace } from '../../captures/trace/build.ts';
import { traceIdOf } from '../../captures/trace/ids.ts';
import type { Capture, DecodedLine, DecodeOptions, LinePlace, RawLine } from '../../captures/types.ts';
import { collectGarbage } from '../../core/process/memory.ts';
import { timeOf, withinTime } from '../../core/process/within-time.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { predictionRows } from '../../ground-truth/predictions/predictions.ts';
import { sidesOf } from '../../judge/functions/record.ts';
import { MAX_RECORD_TOKENS } from '../../judge/prompt/build-prompt.ts';
import { captureRecord } from '../../judge/prompt/record.ts';
import { replyTokens } from '../../judge/scorers/always-rules.ts';
import { applicability } from '../../judge/scorers/applicability.ts';
import { codeScorers, scoreOf } from '../../judge/scorers/code-scorers.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import { encodeSpans, type SpansForm } from '../../mlflow/encode-spans.ts';

/** The work of a step on the content of a capture. */
export interface HeavyWork {
  experimentId: string;
  endpointName: string;
  /** Absent: no trace is written. */
  trace?: { run: string; form: SpansForm };
  /** The needs of the scorers that the judge answers. Absent if captures are not judged. */
  judged?: JudgeScorer['needs'][];
  /** The functions of scorers get its record. */
  isForFunctions?: boolean;
  truth: GroundTruthSettings;
}

export interface HeavyJob {
  /** Files with the line, and for the spans of the trace. */
  files: { line: string; spans: string };
  place: LinePlace;
  options: DecodeOptions;
  work: HeavyWork;
}

/** @param tell receives the line when its trace is written, and again with the results of all other work */
function doHeavyWork(job: HeavyJob, tell: (line: DecodedLine) => void): void {
  const raw = { bytes: readFileSync(job.files.line), place: job.place };
  const line = decodeLine(raw, { ...job.options, maxWeight: Number.MAX_VALUE });
  if (line.kind === 'capture') {
    const { capture } = line;
    capture.results = new Map();
    const told = (): void => tell({ ...line, capture: apart(capture) });
    if (job.work.trace !== undefined) {
      writeTrace(capture, raw, job);
      collectGarbage();
      told();
    }
    for (const each of worksOf(capture, raw, job.work)) attempt(capture, each);
    told();
  } else tell(line);
}

function writeTrace(capture: Capture, raw: RawLine, { files, work }: HeavyJob): void {
  const { run, form } = work.trace as NonNullable<HeavyWork['trace']>;
  const trace = withinTime(timeOf(capture, raw.bytes.length), () => buildTrace(capture, raw, { ...work, run }));
  writeFileSync(files.spans, encodeSpans(trace, form));
  capture.results?.set('trace', { ...trace, spans: [] });
}

function worksOf(capture: Capture, { bytes, place }: RawLine, work: HeavyWork): (() => unknown)[] {
  const { experimentId, endpointName, judged, truth } = work;
  const traceId = traceIdOf(experimentId, bytes);
  return [
    () => callDigests(capture),
    ...(judged === undefined
      ? []
      : [
          ...judged.map((needs) => () => applicability(capture, { needs })),
          ...codeScorers.map((scorer) => () => scoreOf(scorer, capture)),
          () => captureRecord(capture, MAX_RECORD_TOKENS),
          ...(work.isForFunctions ? [() => sidesOf(capture)] : []),
          () => replyTokens(capture),
        ]),
    ...(truth.days === 0 ? [] : [() => predictionRows(capture, traceId, { ...place, endpointName }, truth)]),
  ];
}

/** Work that fails or takes too long has no result. Only code that needs this result gets an error. */
function attempt(capture: Capture, work: () => unknown): void {
  try {
    withinTime(timeOf(capture), work);
  } catch {
    // The work has no result.
  }
}

const send = (message: unknown): void => void process.send?.(message);

process.on('message', (job: HeavyJob) => {
  doHeavyWork(job, (line) => send({ line }));
  collectGarbage();
  send({ done: true });
});
// The function has ended, or needs it no more.
process.on('disconnect', () => process.exit());
