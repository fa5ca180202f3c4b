/** The record of a capture in the judge's prompt: the fence, the sections, and the cuts in long texts. */
import fc from 'fast-check';
import type { Capture } from '../../../src/captures/types.ts';
import { captureRecord, makeFence } from '../../../src/judge/prompt/record.ts';
import { questionOf } from '../../../src/judge/question.ts';
import type { JudgeableExchange } from '../../../src/judge/scorers/applicability.ts';
import { cutMiddle, divideBound, estimateTokens } from '../../../src/judge/tokens.ts';
import { anyText } from '../../helpers/any-text.ts';
import { type ChatParts, chatCapture, exchangeCapture, toolCallCapture } from './captures.ts';

const recordOf = (parts: ChatParts, maxTokens = 10_000) => captureRecord(chatCapture(parts), maxTokens);

function fencedRecord({ repliesPerPrompt, ...conversation }: JudgeableExchange, maxTokens: number) {
  const inferenceCount = repliesPerPrompt && conversation.replies.length / repliesPerPrompt;
  return captureRecord({ conversation, inferenceCount } as Capture, maxTokens);
}

test('a part of a message that is null is left out, and one that is no text is named', () => {
  const content = [null, { type: 'text', text: 'Look:' }, { type: 'image_url' }];
  const { text } = recordOf({ messages: [{ role: 'user', content }] as never });
  expect(text).toMatch(/\n\nLook:\n\(image_url that is not text\)\n/);
});

describe('the fence', () => {
  test('differs between requests', () => {
    const fences = new Set(Array.from({ length: 100 }, () => recordOf({}).fence));
    expect(fences.size).toBe(100);
  });

  test('is generated again while a text contains it, ignoring case', () => {
    const draws = ['aaaaaaaaaaaa', 'bbbbbbbbbbbb', 'cccccccccccc'].map((hex) => Buffer.from(hex, 'hex'));
    const fence = makeFence(['x AAAAAAAAAAAA', 'bbbbbbbbbbbb'], () => draws.shift() ?? Buffer.alloc(6));
    expect(fence).toBe('cccccccccccc');
  });

  test('cannot be imitated by captured text', () => {
    const text = anyText({ maxLength: 200 });
    const role = fc.oneof(
      fc.constantFrom('user', 'assistant', 'tool', 'system', 'END', '__proto__', 'toString'),
      fc.string(),
    );
    const message = fc.record({
      role,
      content: fc.oneof(text, fc.constant(null), fc.array(fc.record({ type: text, text }))),
    });
    fc.assert(
      fc.property(fc.array(message, { maxLength: 6 }), text, fc.array(text), (messages, reply, tools) => {
        const { fence, text: record } = recordOf({ messages: messages as never, reply: `${reply}x`, tools });
        const ours = record.split('\n').filter((line) => line.toLowerCase().includes(fence));
        expect(ours[0]).toBe(`#${fence} BEGIN`);
        expect(ours.at(-1)).toBe(`#${fence} END`);
        for (const line of ours.slice(1, -1)) {
          expect(line).toMatch(
            /^#[0-9a-f]{12} (system prompt|user|assistant|tool result|other role|tools on offer|the request was not captured|REPLY)( calls tool)?$/,
          );
        }
      }),
    );
  });
});

test('puts the parts of an exchange under separate headings', () => {
  const { fence, text } = recordOf({
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'Hi!' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'x' } },
        ],
      },
    ],
    replies: ['A cat.', 'A dog.'].map((content) => ({ role: 'assistant', content })),
  });
  expect(text.replaceAll(fence, 'F')).toBe(
    [
      '#F BEGIN',
      '#F system prompt',
      'Be brief.',
      '#F user',
      'Hello',
      '#F assistant',
      'Hi!',
      '#F user',
      'What is this?',
      '(image_url that is not text)',
      '#F REPLY 1 of 2',
      'A cat.',
      '#F REPLY 2 of 2',
      'A dog.',
      '#F END',
    ].join('\n'),
  );
});

test('shows the offered tools, and the name and arguments of tool calls', () => {
  const { fence, text } = captureRecord(toolCallCapture(), 1000);
  const record = text.replaceAll(fence, 'F');
  expect(record).toContain('#F REPLY calls tool\ntrack {"parcel":"8841"}\n#F END');
  expect(record).toContain('#F tools on offer\n[{"type":"function","function":{"name":"track"');
});

describe('long texts', () => {
  const long = (word: string, words: number): string =>
    Array.from({ length: words }, (_, i) => `${word}${i}`).join(' ');

  test('are cut in the middle with a mark that shows the number of missing characters', () => {
    const text = long('w', 5000);
    const cut = cutMiddle(text, 500);
    const [head = '', mark = '', tail = ''] = cut.split('\n');
    expect(text.startsWith(head)).toBe(true);
    expect(text.endsWith(tail)).toBe(true);
    expect(Number(/\[… (\d+) characters left out here …\]/.exec(mark)?.[1])).toBe(
      text.length - head.length - tail.length,
    );
    expect(estimateTokens(cut)).toBeLessThanOrEqual(500);
    expect(estimateTokens(cut)).toBeGreaterThan(450);
  });

  test('fit into the bound together, without halved characters', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', 'é', '漢', '😀', ' '), minLength: 200, maxLength: 4000 }),
        fc.string({ unit: fc.constantFrom('a', 'é', '漢', '😀', ' '), maxLength: 4000 }),
        fc.integer({ min: 500, max: 2000 }),
        (reply, user, bound) => {
          const { text } = recordOf({ reply: `${reply}x`, user }, bound);
          expect(estimateTokens(text)).toBeLessThanOrEqual(bound);
          expect(text.isWellFormed()).toBe(true);
        },
      ),
    );
  });

  test('fit however many sections there are, with headings, and the ends of each list stay', () => {
    const [long, mixed] = ['word '.repeat(900), '漢'.repeat(40) + 'a'.repeat(4000)];
    const text = fc.constantFrom('x', 'Fern.', '漢'.repeat(300), mixed, long);
    const many = fc.oneof(fc.nat(3), fc.integer({ min: 100, max: 1500 }));
    const call = (content: string) => ({ type: 'function' as const, function: { name: content, arguments: content } });
    const shape = { text, name: text, tools: text, calls: many, replies: many, messages: many, systems: fc.nat(60) };
    fc.assert(
      fc.property(fc.record(shape), fc.constantFrom(500, 1000, 24_000), fc.boolean(), (some, bound, isBatch) => {
        const calls = Array.from({ length: some.calls }, () => call(some.name));
        const messages = Array.from({ length: some.messages }, (_, index) => {
          const role = isBatch || index % 25 > some.systems ? 'user' : 'system';
          return { role, content: some.text, ...(index === 1 && { tool_calls: calls }) };
        });
        const replies = Array.from({ length: isBatch ? messages.length : some.replies }, (_, index) => ({
          role: 'assistant',
          content: `${index + 1}: ${some.text}`,
          ...(index === 0 && { tool_calls: calls }),
        }));
        const exchange = { messages, replies, tools: [some.tools], ...(isBatch && { repliesPerPrompt: 1 }) };
        const record = fencedRecord(exchange, bound).text;
        expect(estimateTokens(record)).toBeLessThanOrEqual(bound);
        if (replies.length === 0) return;
        expect(record).toMatch(/ REPLY.*\n1: /);
        expect(record).toContain(`\n${replies.length}: `);
      }),
      { numRuns: 60 },
    );
  });

  test.each([500, 24_000])('say how many replies and tool calls were left out, within %i tokens', (bound) => {
    const content = 'A reply of a few words.';
    const replies = Array.from({ length: 5000 }, () => ({ role: 'assistant', content }));
    const several = recordOf({ replies }, bound).text;
    expect(several).toMatch(/ REPLY 1 of 5000\n.* \d+ replies left out here\n.* REPLY 5000 of 5000\n/s);
    const call = { type: 'function' as const, function: { name: 'track', arguments: '{"parcel":8841}' } };
    const calls = recordOf(
      { replies: [{ role: 'assistant', content, tool_calls: Array(5000).fill(call) }] },
      bound,
    ).text;
    expect(calls).toMatch(/ \d+ tool calls left out here\n/);
    for (const text of [several, calls]) expect(estimateTokens(text)).toBeLessThanOrEqual(bound);
  });

  test.each([500, 740, 860, 24_000])('show no prompt of a batch without its reply, within %i tokens', (bound) => {
    const batch = Array.from({ length: 5000 }, (_, at) => `p${at}`);
    const exchange = {
      messages: batch.map((content) => ({ role: 'user', content })),
      replies: batch.map((content) => ({ role: 'assistant', content: content.replace('p', 'r') })),
      tools: [],
      repliesPerPrompt: 1,
    };
    const { text } = fencedRecord(exchange, bound);
    expect(text.match(/^p\d+$/gm)).toEqual(text.match(/^r\d+$/gm)?.map((reply) => reply.replace('r', 'p')));
    expect(text).toMatch(/^p4999$/m);
  });

  test('keep a system prompt that stands in the middle of a long conversation', () => {
    const messages = Array.from({ length: 100 }, (_, at) => ({
      role: at === 50 ? 'system' : 'user',
      content: `m${at}.`,
    }));
    const { text } = recordOf({ messages });
    expect(text).toMatch(/ 58 messages left out here\n#\w+ system prompt\nm50\.\n/);
  });

  test('keep a short reply whole next to a huge request, and vice versa', () => {
    const short = 'The parcel is in Bern.';
    expect(recordOf({ reply: short, user: long('q', 50_000) }, 2000).text).toContain(short);
    const whole = recordOf({ user: short, reply: long('r', 50_000) }, 2000).text;
    expect(whole).toContain(short);
    expect(whole).toContain('characters left out here');
  });

  test('show the beginning and the end of a long conversation', () => {
    const messages = Array.from({ length: 500 }, (_, i) => ({
      role: i % 2 ? 'assistant' : 'user',
      content: `turn ${i}.`,
    }));
    const { text } = recordOf({ messages });
    expect(text).toContain('turn 0.');
    expect(text).toContain('turn 499.');
    expect(text).not.toContain('turn 250.');
    expect(text).toMatch(/ \d+ messages left out here\n/);
  });
});

test('divides a limit by weight, and redistributes unused shares', () => {
  const divided = (...shares: [tokens: number, weight: number][]) =>
    divideBound(
      shares.map(([tokens, weight]) => ({ tokens, weight })),
      100,
    );
  expect(divided([10, 1], [20, 1])).toEqual([10, 20]);
  expect(divided([10, 1], [500, 1])).toEqual([10, 90]);
  expect(divided([500, 3], [500, 1])).toEqual([75, 25]);
  fc.assert(
    fc.property(
      fc.array(fc.record({ tokens: fc.nat(1000), weight: fc.integer({ min: 1, max: 9 }) })),
      fc.nat(5000),
      (shares, bound) => {
        const granted = divideBound(shares, bound);
        expect(granted.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(bound);
        for (const [index, tokens] of granted.entries()) expect(tokens).toBeLessThanOrEqual(shares[index]?.tokens ?? 0);
      },
    ),
  );
});

test('captures are the same question only if judge, text and the captured reply to compare with are the same', () => {
  const captured = { bucket: 'b', key: 'k', etag: 'e', start: 10, end: 90 };
  const places = [
    captured,
    { ...captured, key: 'l' },
    { ...captured, etag: 'f' },
    { ...captured, start: 100, end: 180 },
  ];
  const captures = [
    chatCapture(),
    chatCapture({ reply: 'Another.' }),
    ...places.map((place) => exchangeCapture(place)),
  ];
  const digests = () => ['bedrock:/m', 'bedrock:/n'].flatMap((judge) => captures.map((one) => questionOf(judge, one)));
  expect(digests()).toEqual(digests());
  expect(new Set(digests()).size).toBe(12);
  for (const digest of digests()) expect(digest).toMatch(/^[0-9a-f]{32}$/);
  // An exchange with nothing to compare is the question of an ordinary capture.
  expect(questionOf('bedrock:/m', exchangeCapture(undefined))).toBe(digests()[0]);
});
