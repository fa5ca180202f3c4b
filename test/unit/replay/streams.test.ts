/** Reading streamed replies and AWS event-stream messages. */
import { EventStreamCodec } from '@smithy/core/event-streams';
import fc from 'fast-check';
import { payloadPart } from '../../../local/stand-in-endpoint/server.ts';
import { StreamReader } from '../../../src/captures/times/stream-reader.ts';
import { MAX_KEPT_BYTES } from '../../../src/replay/http/exchange.ts';
import {
  BadEventStream,
  EventStreamParser,
  SageMakerStreamReader,
} from '../../../src/replay/reply/aws-event-stream.ts';
import { Body, readReplyContent } from '../../../src/replay/reply/content.ts';

/** Cuts `bytes` at the given places. */
function pieces(bytes: Buffer, cuts: number[]): Buffer[] {
  const places = [...new Set([0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].sort((a, b) => a - b);
  return places.slice(1).map((to, i) => Buffer.from(bytes.subarray(places[i], to)));
}
const cuts = fc.array(fc.nat(), { maxLength: 10 });

describe('AWS event-stream frames', () => {
  const codec = new EventStreamCodec(
    (bytes) => Buffer.from(bytes as Uint8Array).toString(),
    (text) => Buffer.from(text),
  );
  const encode = (headers: Record<string, string>, body: string): Buffer =>
    Buffer.from(
      codec.encode({
        headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, { type: 'string', value }])),
        body: Buffer.from(body),
      }),
    );

  test('from AWS’s own encoder are parsed, however they are cut', () => {
    const stream = Buffer.concat([
      encode({ ':event-type': 'PayloadPart' }, 'hello'),
      encode({ ':event-type': 'PayloadPart', more: 'ü' }, ''),
    ]);
    fc.assert(
      fc.property(cuts, (places) => {
        const found: unknown[] = [];
        const parser = new EventStreamParser(({ headers, payload }) => found.push([headers.more, payload.toString()]));
        for (const part of pieces(stream, places)) parser.feed(part);
        expect(found).toEqual([
          [undefined, 'hello'],
          [{ type: 'string', value: 'ü' }, ''],
        ]);
        expect(parser.complete).toBe(true);
      }),
    );
  });

  test('from the stand-in endpoint are readable by AWS’s own decoder', () => {
    const message = codec.decode(payloadPart(Buffer.from('data: x')));
    expect(message.headers[':event-type']?.value).toBe('PayloadPart');
    expect(Buffer.from(message.body).toString()).toBe('data: x');
  });

  test('with one changed byte are rejected', () => {
    const frame = encode({ ':event-type': 'PayloadPart' }, 'hello');
    fc.assert(
      fc.property(fc.nat(frame.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const broken = Buffer.from(frame);
        broken[at] = (broken[at] ?? 0) ^ change;
        const handedOn: unknown[] = [];
        const parser = new EventStreamParser((message) => handedOn.push(message));
        // The parser waits for the missing bytes of a length that grew.
        const read = (): void => {
          parser.feed(broken);
          if (!parser.complete) throw new BadEventStream('bytes are missing');
        };
        expect(read).toThrow(BadEventStream);
        expect(handedOn).toEqual([]);
      }),
    );
  });
});

const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (content: string, more: object = {}): string => event({ choices: [{ delta: { content }, ...more }] });
const EVENTS = 'text/event-stream';
/** Pieces arrive at 10, 20, … */
const read = (text: string, contentType = EVENTS) => {
  const reader = new StreamReader(contentType, MAX_KEPT_BYTES);
  for (const [i, part] of text.split('|').entries()) reader.piece(Buffer.from(part), 10 * (i + 1));
  reader.end();
  const { contentAt, firstOutputAt } = reader;
  return { content: readReplyContent(new Body(reader.body, contentType), undefined), contentAt, firstOutputAt };
};

describe('a streamed reply', () => {
  test('in OpenAI’s form has the times of its pieces with content, and no others', () => {
    const found = read(
      [
        event({ choices: [{ delta: { role: 'assistant' } }] }),
        event({ choices: [{ delta: { content: 'Hel' } }] }),
        event({ choices: [{ delta: { content: 'lo' }, finish_reason: 'stop' }] }),
        `${event({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 } })}data: [DONE]\n\n`,
      ].join('|'),
    );
    expect(found).toMatchObject({
      contentAt: [20, 30],
      firstOutputAt: 20,
      content: { text: 'Hello', finishReasons: ['stop'], usage: { inputTokens: 5, outputTokens: 2, totalTokens: 7 } },
    });
  });

  test('that begins with reasoning has its first output later', () => {
    const reasoning = event({ choices: [{ delta: { reasoning_content: 'hm' } }] });
    const found = read(`${reasoning}|${chunk('ok')}`);
    expect(found).toMatchObject({ contentAt: [10, 20], firstOutputAt: 20, content: { text: 'ok' } });
  });

  test.each([
    [
      'TGI',
      event({ token: { text: 'a' } }) +
        event({ token: { text: 'b' }, generated_text: 'ab', details: { generated_tokens: 2 } }),
      EVENTS,
    ],
    ['LMI lines', '{"outputs":["a"]}\n|{"outputs":["b"]}\n', 'application/jsonlines'],
    ['tokens without the last line ending', '{"token":{"text":"a"}}\n|{"token":{"text":"b"}}', 'application/jsonlines'],
    [
      'Anthropic',
      event({ type: 'content_block_delta', delta: { text: 'a' } }) +
        event({ type: 'content_block_delta', delta: { text: 'b' } }),
      EVENTS,
    ],
    ['plain text', 'a|b', 'text/plain'],
  ])('of %s has a time for each piece', (_, text, contentType) => {
    expect(read(text, contentType)).toMatchObject({ content: { text: 'ab' }, contentAt: [10, expect.any(Number)] });
  });

  test('that calls a tool has the times of the pieces of the call', () => {
    const call = (fields: object) => event({ choices: [{ delta: { tool_calls: [{ index: 0, ...fields }] } }] });
    const events = [
      call({ id: 'c1', function: { name: 'f', arguments: '' } }),
      ...['{"a":', '1}'].map((piece) => call({ function: { arguments: piece } })),
      event({ choices: [{ delta: {}, finish_reason: 'tool_calls' }] }),
    ];
    expect(read(events.join('|'))).toMatchObject({
      contentAt: [10, 20, 30],
      content: { text: '', toolCalls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }] },
    });
  });

  test('separates two choices, and counts the pieces of both', () => {
    const piece = (index: number, content: string): string => event({ choices: [{ index, delta: { content } }] });
    const found = read([piece(0, 'Br'), piece(1, 'A'), piece(0, 'ad'), piece(1, 'ckender')].join('|'));
    expect(found).toMatchObject({ contentAt: [10, 20, 30, 40], content: { text: 'Brad', further: ['Ackender'] } });
  });

  test('of events of an unknown form has them as its pieces', () => {
    const reader = new StreamReader(EVENTS, MAX_KEPT_BYTES);
    reader.piece(Buffer.from(event({ score: [1] })), 10);
    reader.piece(Buffer.from(event({ score: [2] })), 20);
    reader.end();
    expect(reader).toMatchObject({ contentAt: [10, 20], pieces: 2, firstOutputAt: 10 });
    expect(read(event({ type: 'ping' }) + event({ choices: [{ delta: { content: 'a' } }] })).contentAt).toEqual([10]);
  });

  test('in SageMaker’s frames is read, and so is an exception', () => {
    const reader = new SageMakerStreamReader();
    reader.piece(payloadPart(Buffer.from(event({ choices: [{ delta: { content: 'hi' } }] }))), 5);
    reader.end();
    expect(reader.contentAt).toEqual([5]);
    expect(readReplyContent(new Body(reader.body, EVENTS), undefined).text).toBe('hi');
    const cut = new SageMakerStreamReader();
    cut.piece(payloadPart(Buffer.from('x')).subarray(0, 20), 5);
    cut.end();
    expect(cut.problem).toContain('inside a message');
  });
});

describe('a line that arrives in pieces', () => {
  const PIECE = Buffer.alloc(1024, 'x');
  /** Announces a message of 20 MB. Made once, because its garbage would be collected while a reader is measured. */
  const prelude = Buffer.from(payloadPart(Buffer.alloc(20 << 20)).subarray(0, 12));
  /** Measures the time for a number of pieces of one line. */
  const timeOf = (pieces: number, feed: (piece: Buffer) => void): number => {
    const from = performance.now();
    for (let i = 0; i < pieces; i++) feed(PIECE);
    return performance.now() - from;
  };
  const readers: [string, () => (piece: Buffer) => void][] = [
    [
      'server-sent events',
      () => {
        const reader = new StreamReader(EVENTS, MAX_KEPT_BYTES);
        reader.piece(Buffer.from('data: '), 0);
        return (piece) => reader.piece(piece, 1);
      },
    ],
    [
      'JSON lines',
      () => {
        const reader = new StreamReader('application/octet-stream', MAX_KEPT_BYTES);
        reader.piece(Buffer.from('{"a":"'), 0);
        return (piece) => reader.piece(piece, 1);
      },
    ],
    [
      'one event-stream message',
      () => {
        const parser = new EventStreamParser(() => {});
        parser.feed(prelude);
        return (piece) => parser.feed(piece);
      },
    ],
    [
      'white space',
      () => {
        const reader = new StreamReader('application/octet-stream', MAX_KEPT_BYTES);
        return () => reader.piece(Buffer.alloc(1024, ' '), 1);
      },
    ],
  ];

  test.each(readers)('of %s takes time in proportion to its length', (_, open) => {
    // 8 MB take eight times as long as 1 MB, or 64 times if each piece copies all earlier ones. Use the best of three, since a busy
    // machine may delay one.
    const best = (pieces: number): number => Math.min(...[1, 2, 3].map(() => timeOf(pieces, open())));
    expect(best(8_000) / Math.max(20, best(1_000))).toBeLessThan(30);
  });

  test('and exceeds the limit is not kept: its times are known, its content is not', () => {
    const reader = new StreamReader(EVENTS, MAX_KEPT_BYTES);
    const piece = Buffer.alloc(1 << 20, 'x');
    reader.piece(Buffer.from('data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: '), 1);
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 200; i++) reader.piece(piece, 2);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100 << 20);
    reader.piece(Buffer.from('\n\ndata: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}\n\n'), 3);
    reader.piece(Buffer.from('data: {"choices":[],"usage":{"completion_tokens":2}}\n\n'), 4);
    reader.end();
    expect(reader).toMatchObject({ tooLarge: true, pieces: 3, usage: { outputTokens: 2 } });
    expect(reader.body).toHaveLength(0);
    expect([reader.contentAt[0], reader.contentAt.at(-1)]).toEqual([1, 3]);
  });
});
