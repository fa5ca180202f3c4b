/**
 * What the judge reads of an exchange, from its captured line on: `what-is-judged.json` has a request, its reply, and the record; or
 * the reason why the reply is not judged. A side with `as` has that content type, any other is JSON.
 */
import type { Capture } from '../../../src/captures/types.ts';
import { captureRecord } from '../../../src/judge/prompt/record.ts';
import { applicability } from '../../../src/judge/scorers/applicability.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { captureOf, decodedOf, lineOf } from '../captures/arbitraries.ts';
import cases from './what-is-judged.json' with { type: 'json' };

interface Case {
  title: string;
  request?: unknown;
  reply?: unknown;
  format: string;
  record?: string[];
  reason?: string;
  notes?: string[];
}

const sideOf = (value: unknown): never | undefined => {
  if (value === undefined) return undefined;
  const { as, data, encoding } = Object(value) as Record<string, string>;
  const typed = { observedContentType: as, data, encoding: encoding ?? 'JSON' };
  const json = { observedContentType: 'application/json', data: JSON.stringify(value), encoding: 'JSON' };
  return (as === undefined ? json : typed) as never;
};

function captured(request: unknown, reply: unknown): Capture {
  return decodedOf(lineOf(captureOf(sideOf(request), sideOf(reply))));
}

const recordOf = (capture: Capture): string[] => {
  const { text, fence } = captureRecord(capture, 24_000);
  const lines = text.split('\n').map((line) => line.replace(`#${fence}`, '#'));
  return lines.slice(1, -1);
};

const reasonsOf = (capture: Capture, names: string[]): unknown[] =>
  codeScorers.filter(({ name }) => names.includes(name)).map((scorer) => scorer.score(capture));
const REPLY_SCORERS = ['response_words', 'response_length', 'reply_language', 'repeated_text'];

test.each(cases as Case[])('$title', ({ request, reply, format, record, reason, notes = [] }) => {
  const capture = captured(request, reply);
  expect(capture.format).toBe(format);
  expect(capture.notes).toEqual(notes);
  const applied = applicability(capture, { needs: ['reply'] });
  if (record !== undefined) {
    expect(applied).toEqual({ judge: true });
    expect(recordOf(capture)).toEqual(record);
    return;
  }
  expect(applied).toEqual({ notJudgeable: reason });
  if (reason !== 'notText') return;
  const names = notes.length > 0 ? REPLY_SCORERS : [...REPLY_SCORERS, 'pii_detected'];
  for (const found of reasonsOf(capture, names)) expect(found).toEqual({ notJudgeable: 'notText' });
});

test('a label may be an answer where there are messages, a question, or a template around the prompt', () => {
  const replies = ['Yes', '42'].map((text) => [{ generated_text: text }]);
  const judged = (inputs: unknown): boolean[] =>
    replies.map((reply) => 'judge' in applicability(captured({ inputs }, reply), { needs: ['reply'] }));
  expect(judged([{ role: 'user', content: 'Go on' }])).toEqual([true, true]);
  expect(judged('Is it open?')).toEqual([true, false]);
  expect(judged('Review: good film\nIs it good:')).toEqual([true, false]);
  expect(judged('[INST] Is it open [/INST]')).toEqual([true, false]);
  expect(judged('good film')).toEqual([false, false]);
});
