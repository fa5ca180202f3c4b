/** Recognizing the turns of a conversation. */
import { SessionLinker } from '../../../src/replay/request/sessions.ts';

const user = (content: string | unknown[]) => ({ role: 'user', content });
const assistant = (content: string | null, more = {}) => ({ role: 'assistant', content, ...more });
let sessions = 0;
const id = () => ({ conversationId: `s${sessions}`, session: sessions++ });

beforeEach(() => {
  sessions = 0;
});

describe('conversations', () => {
  test('continue with a request that begins with an earlier request and its reply', () => {
    const linker = new SessionLinker();
    const first = linker.link([user('a')], assistant('A'), id);
    const other = linker.link([user('x')], assistant('X'), id);
    const second = linker.link([user('a'), assistant('A'), user('b')], assistant('B'), id);
    const third = linker.link([user('a'), assistant('A'), user('b'), assistant('B'), user('c')], undefined, id);
    expect(first).toEqual({ conversationId: 's0', turnIndex: 0, session: 0 });
    expect(other).toEqual({ conversationId: 's1', turnIndex: 0, session: 1 });
    expect(second).toEqual({ conversationId: 's0', turnIndex: 1, session: 0 });
    expect(third).toEqual({ conversationId: 's0', turnIndex: 2, session: 0 });
  });

  test('continue with several questions after a reply, other spacing, or lists of text parts', () => {
    const linker = new SessionLinker();
    linker.link([{ role: 'system', content: 's' }, user('a')], assistant(' A\n'), id);
    const next = linker.link(
      [{ role: 'system', content: 's' }, user([{ type: 'text', text: 'a' }]), assistant('A'), user('b'), user('c')],
      undefined,
      id,
    );
    expect(next).toMatchObject({ conversationId: 's0', turnIndex: 1 });
  });

  test('include the tool calls of a reply', () => {
    const linker = new SessionLinker();
    const calls = [{ type: 'function' as const, function: { name: 'track', arguments: '{}' } }];
    linker.link([user('a')], assistant('', { tool_calls: calls }), id);
    const tool = { role: 'tool', content: '42' };
    expect(linker.link([user('a'), assistant(null, { tool_calls: calls }), tool], undefined, id).turnIndex).toBe(1);
    expect(linker.link([user('a'), assistant(null, { tool_calls: null }), tool], undefined, id).turnIndex).toBe(0);
  });

  test('ignore the order of keys in tool calls', () => {
    const linker = new SessionLinker();
    const streamed = [{ id: 'c1', type: 'function', function: { name: 'track', arguments: '{"id":1}' } }];
    const repeated = [{ function: { arguments: '{ "id": 1 }', name: 'track' }, type: 'function', id: 'c1' }];
    linker.link([user('a')], assistant('', { tool_calls: streamed }), id);
    const tool = { role: 'tool', content: '42' };
    expect(linker.link([user('a'), assistant(null, { tool_calls: repeated }), tool], undefined, id).turnIndex).toBe(1);
  });

  test('count a repeated message as another one', () => {
    const linker = new SessionLinker();
    const asked = (text: string) => linker.link([user('a'), assistant('A'), user(text)], assistant('B'), id);
    linker.link([user('a')], assistant('A'), id);
    const turns = [asked('b'), asked('b?'), asked('b')].map(({ turnIndex, session }) => `${turnIndex} ${session}`);
    expect(turns).toEqual(['1 0', '2 0', '3 0']);
  });

  test('separate requests that continue another reply', () => {
    const linker = new SessionLinker();
    linker.link([user('a')], assistant('A'), id);
    expect(linker.link([user('a'), assistant('something else'), user('b')], undefined, id).turnIndex).toBe(0);
  });

  test('treat each request without messages as a separate conversation', () => {
    const linker = new SessionLinker();
    expect(linker.link(undefined, undefined, id).conversationId).toBe('s0');
    expect(linker.link([], assistant('x'), id).conversationId).toBe('s1');
  });
});
