/** Tells what one line of a capture file becomes: its trace, or the reason why it is quarantined. */
import { hourPathOf } from '../../src/captures/files/capture-path.ts';
import { buildTrace } from '../../src/captures/trace/build.ts';
import { expectedCalls, type PricedSettings } from '../../src/judge/pricing/expected-calls.ts';
import { isJudgeScorer } from '../../src/judge/scorers/scorer-set.ts';
import type { Scorer } from '../../src/judge/types.ts';
import type { OfflineLine } from './capture-files.ts';
import { scorersOn } from './inspect.ts';
import type { LineReport } from './reports.ts';

interface LineSettings extends PricedSettings {
  SAGEMAKER_ENDPOINT_NAME?: string | undefined;
}

/** The name of the endpoint in SageMaker's layout of keys. */
const endpointIn = (key: string): string | undefined => hourPathOf(key)?.base.split('/').at(-3);

export function describeLine(line: OfflineLine, settings: LineSettings, scorers: readonly Scorer[]): LineReport {
  const { key, line: number } = line.kind === 'capture' ? line.raw.place : line.place;
  const facts = { file: key, line: number };
  if (line.kind === 'quarantine') return { ...facts, quarantined: line.reason };
  const { capture, raw } = line;
  const endpointName = settings.SAGEMAKER_ENDPOINT_NAME ?? (endpointIn(key) || 'my-endpoint');
  const { traceId: _, ...trace } = buildTrace(capture, raw, { experimentId: '', endpointName });
  const reasons = scorersOn(capture, scorers);
  const asked = scorers.filter((scorer, index) => isJudgeScorer(scorer) && reasons[index] === undefined);
  return {
    ...facts,
    trace,
    format: capture.format,
    ...(capture.wireFormat === undefined ? {} : { wireFormat: capture.wireFormat }),
    notes: capture.notes,
    scorers: Object.fromEntries(scorers.map(({ name }, index) => [name, reasons[index] ?? null])),
    judgeUsd: asked.length === 0 ? 0 : expectedCalls(settings, capture, asked.filter(isJudgeScorer)).usd,
  };
}
