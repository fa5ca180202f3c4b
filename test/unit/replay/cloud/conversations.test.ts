/** Finding conversations in the captures of a cloud replay. */
import { conversationFinder } from '../../../../src/replay/cloud/plan/conversations.ts';
import type { IndexEntry, SourceFile } from '../../../../src/replay/source/types.ts';
import { captureLine, chatLine, chatReply } from '../../../helpers/replay.ts';

const file = (name: string): SourceFile => ({ path: '', name, size: 0 });
const place = (ordinal: number, line: number): IndexEntry => ({ timeMs: 0, file: ordinal, line, start: 0, length: 0 });
const turns = (...texts: string[]): string =>
  JSON.stringify({ messages: texts.map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content })) });

test('finds turns across files, and separate conversations for each pass', () => {
  const finder = conversationFinder();
  const add = (ordinal: number, line: number, text: string): void =>
    finder.record(Buffer.from(text), place(ordinal, line));
  finder.file(file('a'));
  add(0, 1, chatLine('one', 0, 'hello', 'hi'));
  add(0, 2, captureLine('table', 0, { data: '1,2', encoding: 'CSV', contentType: 'text/csv' }));
  finder.file(file('b'));
  const body = turns('hello', 'hi', 'and now?');
  // The second turn is captured in base64.
  const encoded = { data: Buffer.from(body).toString('base64'), encoding: 'BASE64' };
  add(1, 3, captureLine('two', 1, encoded, { data: chatReply('this') }));
  finder.file(file('c'));
  const three = turns('hello', 'hi', 'and now?', 'this', 'well');
  add(2, 1, captureLine('three', 2, { data: three }, { data: chatReply('so') }));

  const first = finder.turnOf(place(0, 1), 0);
  // A conversation has the name of its first request.
  expect(first).toEqual({ session: first.session, turnIndex: 0 });
  expect(finder.turnOf(place(1, 3), 0)).toEqual({ session: first.session, turnIndex: 1, conversationId: 'one' });
  expect(finder.turnOf(place(2, 1), 0)).toEqual({ session: first.session, turnIndex: 2, conversationId: 'one' });
  expect(finder.turnOf(place(0, 2), 0)).toMatchObject({ turnIndex: 0 });
  const again = finder.turnOf(place(1, 3), 1);
  expect(again).toMatchObject({ turnIndex: 1, conversationId: 'one#1' });
  expect(again.session).toBe(finder.turnOf(place(0, 1), 1).session);
  const sessions = [0, 1].flatMap((pass) => [place(0, 1), place(0, 2)].map((one) => finder.turnOf(one, pass).session));
  expect(new Set(sessions).size).toBe(4);
});

test('a chat that cannot be read is a separate conversation and does not affect others', () => {
  const finder = conversationFinder();
  const add = (line: number, text: string): void => finder.record(Buffer.from(text), place(0, line));
  const deep = '['.repeat(10_000) + ']'.repeat(10_000);
  finder.file(file('a'));
  add(1, chatLine('one', 0, 'hello', 'hi'));
  add(2, captureLine('deep', 1, { data: `{"messages":[{"role":"user","content":${deep}}]}` }));
  add(3, captureLine('object', 1, { data: '{"messages":[{"role":{"toString":0,"valueOf":0},"content":"x"}]}' }));
  add(4, captureLine('reply', 1, { data: turns('a') }, { data: `{"object":"error","more":${deep}}` }));
  add(5, captureLine('two', 2, { data: turns('hello', 'hi', 'and now?') }));
  expect([2, 3, 4].map((line) => finder.turnOf(place(0, line), 0).turnIndex)).toEqual([0, 0, 0]);
  expect(finder.turnOf(place(0, 5), 0)).toMatchObject({ turnIndex: 1, conversationId: 'one' });
});

test.each([
  [
    'Converse',
    (texts: string[]) => ({
      messages: texts.map((text, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: [{ text }] })),
    }),
    (text: string) => ({ output: { message: { role: 'assistant', content: [{ text }] } }, stopReason: 'end_turn' }),
  ],
  [
    'Gemini',
    (texts: string[]) => ({
      contents: texts.map((text, i) => ({ role: i % 2 === 0 ? 'user' : 'model', parts: [{ text }] })),
    }),
    (text: string) => ({ candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP' }] }),
  ],
])('finds turns in the wire format of %s', (_, request, reply) => {
  const finder = conversationFinder();
  finder.file(file('a'));
  const add = (line: number, id: string, texts: string[], answer: string): void => {
    const [input, output] = [request(texts), reply(answer)].map((data) => ({ data: JSON.stringify(data) }));
    finder.record(Buffer.from(captureLine(id, line, input, output)), place(0, line));
  };
  add(1, 'one', ['hello'], 'hi');
  add(2, 'two', ['hello', 'hi', 'and now?'], 'this');
  expect(finder.turnOf(place(0, 2), 0)).toMatchObject({ turnIndex: 1, conversationId: 'one' });
});
