/** Tests of derived ids and samples. */
import { hash } from 'node:crypto';
import {
  assessmentIdOf,
  childSpanIdOf,
  inSample,
  rootSpanIdOf,
  traceIdOf,
} from '../../../../src/captures/trace/ids.ts';

const sha256 = (text: string): string => hash('sha256', text);

test('a trace id has 32 hex digits, derived from the experiment and the raw line', () => {
  expect(traceIdOf('7', Buffer.from('{"a":1}'))).toBe(`tr-${sha256('7\n{"a":1}').slice(0, 32)}`);
  expect(traceIdOf('8', Buffer.from('{"a":1}'))).not.toBe(traceIdOf('7', Buffer.from('{"a":1}')));
});

test('span ids have 16 hex digits and differ within a trace', () => {
  const ids = [rootSpanIdOf('tr-1'), childSpanIdOf('tr-1', 0), childSpanIdOf('tr-1', 1), rootSpanIdOf('tr-2')];
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{16}$/);
  expect(new Set(ids).size).toBe(4);
});

test('an assessment id depends on trace, scorer, version and model', () => {
  const id = assessmentIdOf('tr-1', 'safety', '1', 'bedrock:/m');
  expect(id).toBe(`a-${sha256('tr-1\nsafety\n1\nbedrock:/m').slice(0, 32)}`);
  const others = [
    assessmentIdOf('tr-2', 'safety', '1', 'bedrock:/m'),
    assessmentIdOf('tr-1', 'fluency', '1', 'bedrock:/m'),
    assessmentIdOf('tr-1', 'safety', '2', 'bedrock:/m'),
    assessmentIdOf('tr-1', 'safety', '1', 'bedrock:/n'),
  ];
  expect(others).not.toContain(id);
});

describe('inSample', () => {
  const traces = Array.from({ length: 20_000 }, (_, index) => traceIdOf('1', Buffer.from(String(index))));
  const sampled = (rate: number, salt?: string) => new Set(traces.filter((id) => inSample(id, rate, salt)));

  test('samples the requested share', () => {
    // 20,000 draws at 10%: the standard deviation is 42.
    expect(Math.abs(sampled(0.1).size - 2_000)).toBeLessThan(5 * 42);
    expect(sampled(0).size).toBe(0);
    expect(sampled(1).size).toBe(traces.length);
  });

  test('a smaller sample is part of a larger one', () => {
    const larger = sampled(0.2);
    for (const id of sampled(0.1)) expect(larger.has(id)).toBe(true);
  });

  test('another salt samples other traces', () => {
    const salted = sampled(0.1, 'safety');
    const both = [...sampled(0.1)].filter((id) => salted.has(id)).length;
    expect(Math.abs(both - 200)).toBeLessThan(5 * 15);
  });
});
