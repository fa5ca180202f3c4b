/** Streams that arrive in pieces, and whole bodies on the wire, are read like captured ones. */
import { decodeLine } from '../../../src/captures/decode.ts';
import { interpret } from '../../../src/captures/meaning/interpret.ts';
import { payloadOfBytes } from '../../../src/captures/payload/decode-payload.ts';
import {
  addEvent,
  type FramingOptions,
  noEvents,
  StreamFraming,
  unframed,
} from '../../../src/captures/stream/framing.ts';
import type { Capture } from '../../../src/captures/types.ts';
import { Scale, TooHeavy } from '../../../src/captures/weight.ts';
import { spokenReply } from '../../../src/captures/wire/model-text.ts';
import { readDelta } from '../../../src/captures/wire/registry.ts';
import { bedrockConverse, bedrockText } from '../../../src/captures/wire/vendors/bedrock.ts';
import { genericText, messageList } from '../../../src/captures/wire/vendors/generic.ts';
import { tgi } from '../../../src/captures/wire/vendors/hugging-face.ts';
import { ollama } from '../../../src/captures/wire/vendors/ollama.ts';
import { openAiResponses } from '../../../src/captures/wire/vendors/openai-responses.ts';
import { corpusFiles, expectationsOf, linesOf, type WireBody, wireBodyOf } from '../../helpers/corpus.ts';

type Framed = { form: string | undefined; events: (string | [string, string])[] };

/** Returns the events of a text that arrives in pieces of `size` bytes. An event with a name is a pair. */
function framed(text: string, size = text.length, options: Partial<FramingOptions> = {}): Framed {
  const events: Framed['events'] = [];
  const framing = new StreamFraming({
    onEvent: (data, name) => events.push(name === undefined ? data : [name, data]),
    onTooLong: () => events.push('(too long)'),
    ...options,
  });
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) framing.feed(bytes.subarray(at, at + size));
  framing.end();
  return { form: framing.form, events };
}

describe('a stream that arrives in pieces', () => {
  test.each<[string, string, Framed['events']]>([
    ['consists of events', 'data: a\n\ndata:b\n\n', ['a', 'b']],
    ['may lack the blank line after its last event', 'data: a\n\ndata: b', ['a', 'b']],
    ['may end lines with CRLF', 'data: a\r\n\r\ndata: b\r\n\r\n', ['a', 'b']],
    ['may end lines with CR', 'data: a\r\rdata: b\r\r', ['a', 'b']],
    ['may name its events', 'event: x\ndata: a\n\ndata: b\n\n', [['x', 'a'], 'b']],
    ['joins several lines of data', 'data: a\ndata: \ndata:  b\n\n', ['a\n\n b']],
    ['ignores comments, ids and empty events', ': ping\n\nid: 1\ndata: a\nretry: 5\n\nevent: x\n\n', ['a']],
    ['may begin with a byte order mark', '\ufeffdata: ä\n\n', ['ä']],
    ['may lack blank lines', 'data: {"a":1}\ndata: {"b":2}\ndata: [DONE]\n\n', ['{"a":1}', '{"b":2}', '[DONE]']],
    [
      'may lack blank lines between named documents',
      'event: x\ndata: {"a":1}\nevent: y\ndata: {"b":2}\n\n',
      [
        ['x', '{"a":1}'],
        ['y', '{"b":2}'],
      ],
    ],
    ['may lack the blank line before an error', 'data: {"a":1}\nerror: {"b":2}\n\n', ['{"a":1}', ['error', '{"b":2}']]],
    ['may spread a document over several lines', 'data: {\ndata: "a": 1}\n\n', ['{\n"a": 1}']],
  ])('%s', (_, text, events) => {
    for (const size of [1, 2, 3, 7, 1000]) expect(framed(text, size)).toEqual({ form: 'events', events });
  });

  test.each<[string, string, string, Framed['events'], Partial<FramingOptions>]>([
    ['may consist of JSON Lines', 'lines', '{"a":"ä"}\r\n\n{"b":2}', ['{"a":"ä"}', '{"b":2}'], {}],
    ['may consist of text', 'text', 'Hello\nthere', ['Hello\nthere'], {}],
    ['reads text as lines if announced', 'lines', 'a\nb', ['a', 'b'], { contentType: 'application/jsonlines' }],
    ['reads the beginning of a field as text at the end', 'text', 'dat', ['dat'], {}],
    ['has no form when it is empty', 'undefined', ' \n', [], {}],
    ['reports a long event', 'events', 'data: 123456789\n\ndata: a\n\n', ['(too long)', 'a'], { maxChars: 8 }],
    ['reports long lines', 'events', 'data: 12345\ndata: 6789\n\ndata: a\n\n', ['(too long)', 'a'], { maxChars: 8 }],
    ['reports a line that is too long', 'lines', '{"a":123456}\n{"b":1}\n', ['(too long)', '{"b":1}'], { maxChars: 8 }],
  ])('%s', (_, form, text, events, options) => {
    for (const size of form === 'text' ? [1000] : [1, 2, 5, 1000]) {
      const read = framed(text, size, options);
      expect(`${read.form}`).toBe(form);
      expect(read.events).toEqual(events);
    }
  });

  test('emits an event as soon as it is complete', () => {
    const events: string[] = [];
    const framing = new StreamFraming({ onEvent: (data) => events.push(data) });
    for (const piece of ['data: a\n', '\nda', 'ta: b\n', '\n']) framing.feed(piece);
    expect(events).toEqual(['a', 'b']);
  });
});

interface Line {
  title: string;
  capture: Capture;
  request: WireBody | undefined;
  reply: WireBody | undefined;
}

const lines: Line[] = [];
beforeAll(async () => {
  for (const file of corpusFiles()) {
    const expectations = expectationsOf(file);
    for (const [index, raw] of (await linesOf(file)).entries()) {
      const { title, options } = expectations[index] ?? { title: '' };
      const decoded = decodeLine(raw, options);
      if (decoded.kind !== 'capture') continue;
      const [request, reply] = [wireBodyOf(raw, 'endpointInput'), wireBodyOf(raw, 'endpointOutput')];
      lines.push({ title: `${file}: ${title}`, capture: decoded.capture, request, reply });
    }
  }
});

const meant = ({ format, conversation, error, usage, model }: ReturnType<typeof interpret>): object => {
  return { format, conversation, error, usage, model };
};

const payloadOf = (
  body: { bytes: Buffer | string; contentType: string | null },
  side: 'request' | 'reply' = 'reply',
  scale = new Scale(),
) => payloadOfBytes({ side, notes: [], scale }, Buffer.from(body.bytes), body.contentType);
const EVENTS = 'text/event-stream';

test('reads a body on the wire like the captured one', () => {
  let compared = 0;
  for (const { title, capture, request, reply } of lines) {
    if ((request === undefined) !== (capture.request === undefined)) continue;
    if ((reply === undefined) !== (capture.response === undefined)) continue;
    const sides = { request: request && payloadOf(request, 'request'), response: reply && payloadOf(reply) };
    expect([title, meant(interpret({ ...sides, baseId: capture.inferenceId }))]).toEqual([title, meant(capture)]);
    compared += 1;
  }
  expect(compared).toBeGreaterThan(150);
});

test('the deltas of a stream add up to its assembled text', () => {
  let compared = 0;
  for (const { title, capture, reply } of lines) {
    if (!capture.streamed || reply === undefined) continue;
    const stream = noEvents();
    let [output, reasoning, hasCalls] = ['', '', false];
    const framing = new StreamFraming({
      contentType: reply.contentType,
      onEvent(data, name) {
        for (const event of addEvent(stream, data, name)) {
          const delta = readDelta(unframed(event.data));
          output += delta?.output ?? '';
          reasoning += delta?.reasoning ?? '';
          hasCalls ||= delta?.calls ?? false;
        }
      },
    });
    for (let at = 0; at < reply.bytes.length; at += 11) framing.feed(reply.bytes.subarray(at, at + 11));
    framing.end();
    // A list of events is a stream only when it is complete.
    if (framing.form === 'text') continue;
    const [first, ...others] = capture.conversation?.replies ?? [];
    // Thinking within the text is told apart when the text is complete.
    reasoning += spokenReply({ role: 'assistant', content: output }).reasoning ?? '';
    if (others.length === 0 && capture.error === undefined) {
      // Some servers repeat all earlier text in each piece.
      const said = typeof first?.content === 'string' ? first.content : '';
      expect([title, said === '' ? output : output.slice(-said.length)]).toEqual([title, said]);
      expect([title, reasoning]).toEqual([title, first?.reasoning ?? first?.reasoning_content ?? '']);
    }
    expect([title, hasCalls]).toEqual([title, first?.tool_calls !== undefined]);
    compared += 1;
  }
  expect(compared).toBeGreaterThan(20);
});

test.each<[string, string, object]>([
  ['JSON strings', 'data: "Brack"\n\ndata: "en"\n\n', { generated_text: 'Bracken' }],
  ['texts in quotes and others', 'data: "Brack"\n\ndata: en\n\n', { generated_text: '"Brack"en' }],
  [
    'a blocked prompt',
    'data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n',
    { candidates: [], promptFeedback: { blockReason: 'SAFETY' } },
  ],
  ['bytes that are not a document', 'data: {"bytes":"AAAA"}\n\n', [{ bytes: 'AAAA' }]],
])('assembles a stream of %s', (_title, text, value) => {
  expect(payloadOf({ bytes: text, contentType: EVENTS }).value).toEqual(value);
});

test('counts the values of a document within a frame before parsing it', () => {
  const bytes = Buffer.from(`{"a":[${'[],'.repeat(50_000)}[]]}`).toString('base64');
  const read = (maxWeight?: number): unknown =>
    payloadOf({ bytes: `data: ${JSON.stringify({ bytes })}\n\n`, contentType: null }, 'reply', new Scale(maxWeight));
  expect(read()).toMatchObject({ kind: 'event-stream' });
  expect(() => read(1_000_000)).toThrow(TooHeavy);
});

const streamed = (events: readonly string[]) =>
  interpret({
    response: payloadOf({ bytes: events.join(''), contentType: EVENTS }, 'reply', new Scale(Number.MAX_VALUE)),
  });

test.each<[string, string]>([
  ['TGI', '{"token":{"text":"ab"}}'],
  ['OpenAI', '{"choices":[{"delta":{"content":"ab"}}]}'],
  ['Ollama', '{"message":{"content":"ab"},"done":false}'],
  ['Cohere, version 2', '{"type":"content-delta","delta":{"message":{"content":{"text":"ab"}}}}'],
  ['Cohere, version 1', '{"event_type":"text-generation","text":"ab"}'],
])('reads all 150,000 events of a stream: %s', (_, event) => {
  const { conversation } = streamed(Array(150_000).fill(`data: ${event}\n\n`));
  expect(conversation?.replies[0]?.content).toHaveLength(300_000);
});

test('reads an event of 150,000 choices as one piece', () => {
  const choices = Array(150_000).fill({ delta: { content: 'a' } });
  expect(readDelta({ choices })?.output).toHaveLength(150_000);
});

test('parses an unfinished document once, however many fields follow it', () => {
  const { events } = framed(`data: {"a":"${'x'.repeat(10_000_000)}\n${'event: x\n'.repeat(100_000)}\n`);
  expect(events).toHaveLength(1);
});

test('keeps the code of an error event without a type', () => {
  const data = '{"code":"rate_limit_exceeded","message":"slow down"}';
  expect(streamed([`event: error\ndata: ${data}\n\n`]).error).toMatchObject({ statusCode: 429, message: 'slow down' });
});

describe('a body that resembles a known form', () => {
  test('is an error of OpenAI’s Responses only if the response has failed with one', () => {
    const error = { code: 'server_error', message: 'x' };
    const failed = { object: 'response', status: 'failed', error };
    expect(openAiResponses.error?.(failed)).toEqual({ message: error, type: 'server_error' });
    const others = [{ object: 'batch' }, { status: 'completed' }, { error: null }];
    for (const other of others) expect(openAiResponses.error?.({ ...failed, ...other })).toBeUndefined();
  });

  test('is assembled by OpenAI’s Responses even if an item is missing', () => {
    const events = [{ type: 'response.output_item.added' }, { type: 'response.output_text.delta', delta: 'a' }];
    expect(openAiResponses.assemble?.(events)).toMatchObject({ value: { output: [{ type: 'message' }] } });
  });

  test('is text under a usual name, alone or as the only item of a list', () => {
    const replies = [{ text: 'a' }, [{ text: 'a' }], ['a', 'b'], [['a']], [{ text: 'a' }, { text: 'b' }], ['a', 1]].map(
      (value) => genericText.reply?.({}, value)?.replies.map(({ content }) => content),
    );
    expect(replies).toEqual([['a'], ['a'], ['a', 'b'], undefined, undefined, undefined]);
  });

  test('is a stream of text only if all events but the last have the text', () => {
    const assembled = genericText.assemble?.([{ text: 'a' }, { text: 'b' }, { stop: true }]);
    expect(assembled).toMatchObject({ value: { generated_text: 'ab' }, ended: true });
    expect(genericText.assemble?.([{ text: 'a' }, { row: 1 }, { row: 2 }])).toBeUndefined();
  });

  test('is a stream of Ollama only if every event says whether it is the last', () => {
    expect(ollama.assemble?.([{ response: 'a', done: false }])).toMatchObject({ value: { response: 'a' } });
    expect(ollama.assemble?.([{ response: 'a', done: false }, { response: 'b' }])).toBeUndefined();
  });

  test('has a thought in Ollama’s stream only if the model sent one', () => {
    const chat = (message: object) =>
      ollama.assemble?.([
        { message, done: false },
        { message: {}, done: true },
      ])?.value;
    expect(chat({ content: 'a' })).toEqual({ done: true, message: { role: 'assistant', content: 'a' } });
    expect(chat({ content: 'a', thinking: 'b' })).toHaveProperty('message.reasoning', 'b');
  });

  test('is a piece of a Bedrock model only if it has one item and tells why it ended', () => {
    const item = (text: string, stop_reason: string | null = null) => ({ text, stop_reason });
    const assembled = (...outputs: object[][]) =>
      bedrockText.assemble?.(outputs.map((list) => ({ outputs: list })))?.value;
    expect(assembled([item('a')], [item('b', 'stop')])).toEqual({ generation: 'ab', stop_reason: 'stop' });
    expect(assembled([item('a'), item('x')], [item('b', 'stop')], [item('c')])).toMatchObject({ generation: 'bc' });
    expect(assembled([{ text: 'a' }], [{ text: 'b' }])).toBeUndefined();
  });

  test('has parts of text, and other parts, among an item of OpenAI’s Responses', () => {
    const content = [{ type: 'input_text', text: 'a' }, 'b', { type: 'input_image', image_url: 'data:x' }];
    expect(openAiResponses.request?.({ model: 'm', input: [{ role: 'user', content }] }, undefined)?.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
          { type: 'image_url', image_url: { url: 'data:x' } },
        ],
      },
    ]);
  });

  test('has the parameters of a list of messages on both levels', () => {
    const inputs = { messages: [{ role: 'user', content: 'a' }], tools: [], top_k: 3 };
    const read = messageList.request?.({ inputs, model: 'm', temperature: 1 }, { inputs });
    expect(read?.parameters).toEqual({ top_k: 3, temperature: 1 });
  });

  test('is a generation only if it is text', () => {
    const contents = [['a', 'b'], ['a', 1], [1]].map((generated_text) =>
      tgi.reply?.({}, { generated_text })?.replies.map(({ content }) => content),
    );
    expect(contents).toEqual([['a', 'b'], undefined, undefined]);
  });

  test('is a request of Converse if its blocks have no type', () => {
    const isConverse = (block: object) => bedrockConverse.recognises?.({ messages: [{ content: [block] }] });
    expect([{ text: 'a' }, { type: 'text', text: 'a' }, { other: 'a' }].map(isConverse)).toEqual([true, false, false]);
  });
});
