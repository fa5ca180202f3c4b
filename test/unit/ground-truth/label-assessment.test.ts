/** What a label is in MLflow: on which span, under which id, and with which value. */

import { decodeLine } from '../../../src/captures/decode.ts';
import { buildTrace } from '../../../src/captures/trace/build.ts';
import { traceIdOf } from '../../../src/captures/trace/ids.ts';
import type { LabeledRow, PredictionRow } from '../../../src/core/contract/ground-truth.ts';
import { groundTruthSchema } from '../../../src/core/settings/ground-truth-setting.ts';
import { predictionRows } from '../../../src/ground-truth/predictions/predictions.ts';
import { labelAssessment } from '../../../src/ground-truth/publish/label-writer.ts';
import { labelScorers, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { NewAssessment } from '../../../src/mlflow/types.ts';
import { CORPUS_ENDPOINT, corpusFiles, linesOf } from '../../helpers/corpus.ts';
import { labeled } from '../../helpers/labeled-rows.ts';

const scorers = new Map(labelScorers(scorersFor()).map((scorer) => [scorer.name, scorer]));
const published = (row: LabeledRow): NewAssessment => {
  const assessment = labelAssessment(row, scorers);
  if ('notPublished' in assessment) throw new Error(assessment.notPublished);
  return assessment;
};

test('a label of a row is about the span that the trace of its capture has for it', async () => {
  const seen = { rows: 0, calls: 0 };
  for (const file of corpusFiles()) {
    for (const raw of await linesOf(file)) {
      const line = decodeLine(raw);
      if (line.kind !== 'capture') continue;
      const { traceId, spans } = buildTrace(line.capture, raw, { experimentId: '7', endpointName: CORPUS_ENDPOINT });
      expect(traceId).toBe(traceIdOf('7', raw.bytes));
      const place = { key: raw.place.key, endpointName: CORPUS_ENDPOINT };
      const rows: PredictionRow[] = predictionRows(line.capture, traceId, place, groundTruthSchema.parse({}));
      const labels = rows.map((row) => published({ ...row, label: 1, timeMs: 1, line: 1 }));
      expect(new Set(labels.map(({ assessmentId }) => assessmentId)).size).toBe(rows.length);
      for (const [n, { spanId }] of labels.entries()) {
        if (spanId === undefined) {
          expect(rows).toHaveLength(1);
          seen.calls += 1;
          continue;
        }
        const span = spans.find((one) => one.spanId === spanId);
        expect(span?.attributes['inference.index']).toBe(rows[n]?.row);
        seen.rows += 1;
      }
    }
  }
  expect(seen.rows).toBeGreaterThan(5);
  expect(seen.calls).toBeGreaterThan(5);
});

test('ids are those of the question: of the trace, the row, the scorer and the person', () => {
  const [a, b] = [labeled('tr-1', 1), labeled('tr-1', 1, { scorer: 'safety' })];
  const rows = [
    a,
    { ...a, row: 0 },
    { ...a, row: 1 },
    labeled('tr-2', 1),
    b,
    { ...b, by: 'Ada' },
    { ...b, scorer: 'fluency' },
  ];
  expect(new Set(rows.map((row) => published(row).assessmentId)).size).toBe(rows.length);
  expect(published({ ...a, label: 0, by: 'Ada', timeMs: 9 }).assessmentId).toBe(published(a).assessmentId);
});

test.each([
  ['safety', 'PASS', 'yes'],
  ['safety', false, 'no'],
  ['coherence', 'Somewhat_Coherent', 'somewhat coherent'],
  ['pii_detected', 'yes', true],
  ['response_words', 12, 12],
])('a label for %s that says %p is %p', (scorer, label, value) => {
  expect(scorers.has(scorer)).toBe(true);
  expect(published(labeled('tr-1', label, { scorer }))).toMatchObject({ name: scorer, value, sourceType: 'HUMAN' });
});

test.each([
  ['safety', 'rather not', undefined, 'NotAValue'],
  ['pii_detected', 'some', undefined, 'NotAValue'],
  ['constructor', 'yes', undefined, 'UnknownScorer'],
  ['safety', 'yes', 0, 'LabelOfRow'],
])('a label for %s that says %p, of row %p, is %s', (scorer, label, row, notPublished) => {
  expect(labelAssessment(labeled('tr-1', label, { scorer, row }), scorers)).toEqual({ notPublished });
});
