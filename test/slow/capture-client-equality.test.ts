/** What the capture clients write is read as what SageMaker itself captures: the same trace, and the same question to the judge. */
import { decodeLine } from '../../src/captures/decode.ts';
import { buildTrace } from '../../src/captures/trace/build.ts';
import type { RawLine } from '../../src/captures/types.ts';
import { questionOf } from '../../src/judge/question.ts';
import { LANGUAGES } from '../helpers/capture-apps.ts';
import { captureCorpus, type Exchange } from '../helpers/capture-exchanges.ts';

const LEAST = 0.99;

/** What a trace shows of a line, without times and ids. */
function readingOf(line: string): object {
  const place = { bucket: 'b', key: 'e/blue/2026/11/27/10/a.jsonl', etag: 'e', line: 1, start: 0, objectTimeMs: 0 };
  const raw = { bytes: Buffer.from(line), place } as unknown as RawLine;
  const decoded = decodeLine(raw);
  if (decoded.kind !== 'capture') throw new Error(`quarantined: ${decoded.reason.message}`);
  const { spans, state } = buildTrace(decoded.capture, raw, { experimentId: '1', endpointName: 'e' });
  const content = spans.map(({ name, spanType, inputs, outputs, status }) => ({
    name,
    spanType,
    inputs,
    outputs,
    status,
  }));
  return { state, content, question: questionOf('judge', decoded.capture) };
}

const isEqual = ({ ours, theirs }: Exchange): boolean => {
  return JSON.stringify(readingOf(ours)) === JSON.stringify(readingOf(theirs));
};

test.each(LANGUAGES)('%s: 99 of 100 exchanges of all vendor forms are equal', async (language) => {
  const { sent, exchanges } = await captureCorpus(language);
  expect(sent).toBeGreaterThan(500);
  expect(exchanges).toHaveLength(sent);
  for (const streamed of [false, true]) {
    const some = exchanges.filter((exchange) => exchange.streamed === streamed);
    const unequal = some.filter((exchange) => !isEqual(exchange));
    for (const { ours, theirs } of unequal.slice(0, 5)) console.log(ours.slice(0, 600), theirs.slice(0, 600));
    expect(1 - unequal.length / some.length).toBeGreaterThanOrEqual(LEAST);
  }
});
