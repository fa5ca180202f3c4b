/** Errors of SageMaker's containers are errors whatever was asked and whatever type was captured; assistants that speak of them are not. */
import { buildTrace } from '../../../src/captures/trace/build.ts';
import { applicability } from '../../../src/judge/scorers/applicability.ts';
import { defaultJudgeScorers } from '../../../src/judge/scorers/scorer-set.ts';
import { captureOf, decodedOf, lineOf, type Side } from './arbitraries.ts';
import tables from './container-errors.json' with { type: 'json' };

const side = (mode: Side['mode'], data: string, type: string | null): Side => {
  return { observedContentType: type, mode, data, encoding: type?.startsWith('text/csv') ? 'CSV' : 'JSON' };
};
const json = (value: unknown) => side('INPUT', JSON.stringify(value), 'application/json');
const requests = [
  json({ messages: [{ role: 'user', content: 'Which bus goes to the fair?' }] }),
  json({ inputs: 'Which bus goes to the fair?' }),
  json({ instances: [[1, 2], [3, 4]] }), // biome-ignore format: short
  side('INPUT', '5.1,3.5', 'text/csv'),
  undefined,
];
const types = [
  'text/plain',
  'text/html; charset=utf-8',
  'text/csv',
  'application/json',
  'application/octet-stream',
  null,
];

function read(request: Side | undefined, data: string, type: string | null) {
  const raw = lineOf(captureOf(request, side('OUTPUT', data, type)));
  const capture = decodedOf(raw);
  return { capture, trace: buildTrace(capture, raw, { experimentId: '1', endpointName: 'e' }) };
}

test.each(tables.errors as [string, number | 'unknown'][])('%j', (body, status) => {
  for (const request of requests) {
    for (const type of types) {
      const { capture, trace } = read(request, body, type);
      const { state, tags } = trace;
      expect({ type, state, status: tags.status_code }).toEqual({ type, state: 'ERROR', status: `${status}` });
      expect(defaultJudgeScorers.filter((scorer) => 'judge' in applicability(capture, scorer))).toEqual([]);
    }
  }
});

test.each(tables.answers as [string, string][])('an answer of an assistant is no error: %s %j', (type, body) => {
  for (const request of requests.slice(0, 2)) expect(read(request, body, type).trace.tags.status_code).toBe('200');
});

test.each(['500 Main Street', 'Worker', 'error', 'failed'])('the class %s in CSV is no error', (body) => {
  expect(read(requests[3], body, 'text/csv').capture.inferences).toMatchObject([{ prediction: body }]);
});
