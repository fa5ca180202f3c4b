/** The preview of a request keeps its end, so that requests with one context can be told apart. */
import { requestPreview, responsePreview } from '../../../../src/captures/trace/preview.ts';
import { bothEnds } from '../../../../src/core/text/terminal-text.ts';
import { chatCapture } from '../../../helpers/captures.ts';

const CONTEXT = `Context: ${'[1] Tariff sheet 2026. '.repeat(100)}`;
const QUESTIONS = ['Which bus goes to the port?', 'Which tram goes to the mill?'];

test('requests with the same context have different previews, which end with the question', () => {
  const previews = QUESTIONS.map((question) => requestPreview(chatCapture(`${CONTEXT}\n${question}`, 'Bus 7.')));
  for (const [at, preview] of previews.entries()) {
    expect(preview).toHaveLength(1_000);
    expect(preview.startsWith(CONTEXT.slice(0, 900))).toBe(true);
    expect(preview.endsWith(QUESTIONS[at] as string)).toBe(true);
    expect(bothEnds(preview, 120)).toMatch(new RegExp(`^Context: \\[1\\].*….*${QUESTIONS[at]?.slice(0, -1)}\\?$`));
    expect(bothEnds(preview, 120)).toHaveLength(121);
  }
});

test('it is the end of the last message of the user, also behind other messages', () => {
  const messages = [
    { role: 'user', content: `${CONTEXT}${QUESTIONS[0]}` },
    { role: 'assistant', content: 'Bus 7.' },
    { role: 'user', content: `${CONTEXT}${QUESTIONS[1]}` },
    { role: 'tool', content: 'late' },
  ];
  expect(requestPreview(chatCapture(messages, 'x')).endsWith(QUESTIONS[1] as string)).toBe(true);
});

test.each([0, 1, 2])('no character is halved, %d characters from the end', (shift) => {
  const preview = requestPreview(chatCapture(`${'a'.repeat(shift)}${'👍'.repeat(2_000)}`, 'x'));
  expect(preview.isWellFormed()).toBe(true);
  expect(preview.length).toBeLessThanOrEqual(1_000);
  expect(preview).not.toContain('\ufffd');
});

test('short requests stay whole, and replies keep their beginning', () => {
  expect(requestPreview(chatCapture('Which bus?', 'x'))).toBe('Which bus?');
  expect(responsePreview(chatCapture('x', 'y'.repeat(2_000)))).toBe(`${'y'.repeat(999)}…`);
});
