/** Decoding is the inverse of encoding, for any wire format and encoding. */
import fc from 'fast-check';
import type { Capture, CaptureFormat, DecodeOptions, TokenUsage } from '../../../src/captures/types.ts';
import { anyText } from '../../helpers/any-text.ts';
import {
  captureOf,
  decodedOf,
  type Encoding,
  encodings,
  jsonSide,
  lineOf,
  messagesOf,
  piecesOf,
  type Side,
  sideOf,
  someText,
  sse,
  type Talk,
  talks,
  texts,
} from './arbitraries.ts';

function decoded(input: Side | undefined, output: Side | undefined, options: DecodeOptions = {}): Capture {
  return decodedOf(lineOf(captureOf(input, output)), options);
}

const parts = (text: string): { text: string }[] => [{ text }];
const usageOf = ({ usage: { input, output } }: Talk): TokenUsage => ({
  inputTokens: input,
  outputTokens: output,
  totalTokens: input + output,
});

/** Writes a conversation in a wire format. */
interface Writer {
  format: CaptureFormat;
  request(talk: Talk): unknown;
  reply(talk: Talk): unknown;
}

const openAiMessages = (talk: Talk) => messagesOf(talk);
const turns = (talk: Talk) => talk.turns.map(({ role, text }) => ({ role, content: text }));

const WRITERS: Record<string, Writer> = {
  'OpenAI chat': {
    format: 'chat',
    request: (talk) => ({ messages: openAiMessages(talk) }),
    reply: ({ reply, usage }) => ({
      choices: [{ index: 0, message: { role: 'assistant', content: reply } }],
      usage: { prompt_tokens: usage.input, completion_tokens: usage.output },
    }),
  },
  'Anthropic messages': {
    format: 'messages',
    request: (talk) => ({
      anthropic_version: 'bedrock-2023-05-31',
      ...(talk.system === undefined ? {} : { system: talk.system }),
      messages: turns(talk),
    }),
    reply: ({ reply, usage }) => ({
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: reply }],
      usage: { input_tokens: usage.input, output_tokens: usage.output },
    }),
  },
  'Bedrock Converse': {
    format: 'messages',
    request: (talk) => ({
      ...(talk.system === undefined ? {} : { system: parts(talk.system) }),
      messages: talk.turns.map(({ role, text }) => ({ role, content: parts(text) })),
    }),
    reply: ({ reply, usage }) => ({
      output: { message: { role: 'assistant', content: parts(reply) } },
      usage: { inputTokens: usage.input, outputTokens: usage.output },
    }),
  },
  Gemini: {
    format: 'messages',
    request: (talk) => ({
      ...(talk.system === undefined ? {} : { systemInstruction: { parts: parts(talk.system) } }),
      contents: talk.turns.map(({ role, text }) => ({ role: role === 'user' ? 'user' : 'model', parts: parts(text) })),
    }),
    reply: ({ reply, usage }) => ({
      candidates: [{ content: { role: 'model', parts: parts(reply) }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: usage.input, candidatesTokenCount: usage.output },
    }),
  },
  'a chat under inputs': {
    format: 'text-generation',
    request: (talk) => ({ inputs: openAiMessages(talk) }),
    reply: ({ reply, usage }) => [
      { generated_text: reply, details: { generated_tokens: usage.output, input_tokens: usage.input } },
    ],
  },
};

describe.each(Object.entries(WRITERS))('%s', (_name, writer) => {
  test('decodes a conversation to what was encoded', () => {
    fc.assert(
      fc.property(talks, encodings, encodings, (talk, requestEncoding, replyEncoding) => {
        const capture = decoded(
          jsonSide('INPUT', writer.request(talk), requestEncoding),
          jsonSide('OUTPUT', writer.reply(talk), replyEncoding),
        );
        expect(capture.format).toBe(writer.format);
        expect(capture.conversation?.messages).toEqual(messagesOf(talk));
        expect(capture.conversation?.replies).toEqual([{ role: 'assistant', content: talk.reply }]);
        expect(capture.usage).toEqual(usageOf(talk));
        expect(capture.notes).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });
});

/** Writes a reply in pieces as the stream of a wire format. */
const STREAMS: Record<string, { request: Writer; format: CaptureFormat; events(pieces: string[]): unknown[] }> = {
  'OpenAI chat': {
    request: WRITERS['OpenAI chat'] as Writer,
    format: 'chat-stream',
    events: (pieces) => [
      { choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] },
      ...pieces.map((content) => ({ choices: [{ index: 0, delta: { content } }] })),
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      '[DONE]',
    ],
  },
  Anthropic: {
    request: WRITERS['Anthropic messages'] as Writer,
    format: 'messages',
    events: (pieces) => [
      { type: 'message_start', message: { role: 'assistant', content: [] } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      ...pieces.map((text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })),
      { type: 'message_stop' },
    ],
  },
  TGI: {
    request: WRITERS['a chat under inputs'] as Writer,
    format: 'text-generation',
    events: (pieces) => [
      ...pieces.map((text) => ({ token: { text, special: false }, generated_text: null })),
      { token: { text: '</s>', special: true }, details: { finish_reason: 'eos_token' } },
    ],
  },
};

describe.each(Object.entries(STREAMS))('%s, streamed', (_name, stream) => {
  test('assembles the pieces', () => {
    const streamed = talks.chain((talk) => fc.tuple(fc.constant(talk), piecesOf(talk.reply)));
    fc.assert(
      fc.property(streamed, fc.constantFrom('\n', '\r\n', '\r'), encodings, ([talk, pieces], ending, encoding) => {
        const body = sse(stream.events(pieces), ending);
        const capture = decoded(
          jsonSide('INPUT', stream.request.request(talk), 'plain'),
          sideOf('OUTPUT', body, 'text/event-stream', encoding),
        );
        expect(capture).toMatchObject({ format: stream.format, streamed: true, notes: [] });
        expect(capture.conversation?.messages).toEqual(messagesOf(talk));
        expect(capture.conversation?.replies).toEqual([{ role: 'assistant', content: talk.reply }]);
      }),
      { numRuns: 150 },
    );
  });
});

test('decodes one or several prompts and completions', () => {
  const batches = fc.array(fc.tuple(texts, texts), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(batches, fc.constantFrom('prompt', 'inputs'), encodings, (batch, name, encoding) => {
      const prompts = batch.map(([prompt]) => prompt);
      const answers = batch.map(([, answer]) => answer);
      const reply =
        name === 'prompt'
          ? { choices: answers.map((text, index) => ({ index, text })) }
          : answers.map((text) => ({ generated_text: text }));
      const capture = decoded(jsonSide('INPUT', { [name]: prompts }, encoding), jsonSide('OUTPUT', reply, encoding));
      expect(capture.format).toBe(name === 'prompt' ? 'completion' : 'text-generation');
      expect(capture.conversation?.messages.map((message) => message.content)).toEqual(prompts);
      expect(capture.conversation?.replies.map((message) => message.content)).toEqual(answers);
      const inferenceId = (index: number) => `event_${index}`;
      const paired = batch.map(([prompt, prediction], index) => {
        return { inferenceId: inferenceId(index), index, features: { prompt }, prediction };
      });
      expect(capture.inferences).toEqual(batch.length > 1 ? paired : undefined);
    }),
    { numRuns: 150 },
  );
});

test('decodes plain text in any charset that can encode it', () => {
  // A charset of the content type, and Node's name of the encoding.
  const charsets = fc.constantFrom<[string, BufferEncoding]>(['utf-8', 'utf8'], ['utf-16le', 'utf16le']);
  fc.assert(
    fc.property(someText, someText, charsets, (request, reply, [charset, encoding]) => {
      const side = (mode: Side['mode'], text: string): Side => ({
        observedContentType: `text/plain; charset=${charset}`,
        mode,
        data: Buffer.from(`fern: ${text}`, encoding).toString('base64'),
        encoding: 'BASE64',
      });
      const capture = decoded(side('INPUT', request), side('OUTPUT', reply));
      // Bytes that are mostly control characters are binary, as a person would judge.
      fc.pre(capture.request?.kind === 'text' && capture.response?.kind === 'text');
      expect(capture.format).toBe('text');
      expect(capture.conversation?.messages).toEqual([{ role: 'user', content: `fern: ${request}` }]);
      expect(capture.conversation?.replies).toEqual([{ role: 'assistant', content: `fern: ${reply}` }]);
    }),
    { numRuns: 150 },
  );
});

// -------------------------------------------------------------------------------------------------------- tabular

const cells = fc.oneof(
  fc.integer({ min: -1e9, max: 1e9 }),
  fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e9, max: 1e9 }).map((number) => (number === 0 ? 0 : number)),
  // Text that is not a number. Numbers in quotes are text, and are quoted below.
  fc.string({ maxLength: 12 }),
);
const tables = fc
  .integer({ min: 1, max: 5 })
  .chain((width) => fc.array(fc.array(cells, { minLength: width, maxLength: width }), { minLength: 1, maxLength: 6 }));

const quote = (cell: number | string): string =>
  typeof cell === 'number' ? String(cell) : `"${cell.replaceAll('"', '""')}"`;
const csvOf = (rows: (number | string)[][], ending: string): string =>
  rows.map((row) => row.map(quote).join(',') + ending).join('');
const byPosition = (row: (number | string)[]) =>
  Object.fromEntries(row.map((cell, position) => [String(position), cell]));
const idOf = (index: number, count: number): string => (count > 1 ? `event_${index}` : 'event');

test('decodes rows of CSV', () => {
  const encoded = fc.constantFrom<Encoding>('plain', 'base64');
  fc.assert(
    fc.property(tables, encoded, fc.constantFrom('\n', '\r\n'), (rows, encoding, ending) => {
      const answers = rows.map((_, index) => index + 0.5);
      const capture = decoded(
        sideOf('INPUT', csvOf(rows, ending), 'text/csv', encoding),
        sideOf(
          'OUTPUT',
          csvOf(
            answers.map((answer) => [answer]),
            ending,
          ),
          'text/csv',
          encoding,
        ),
      );
      expect(capture.format).toBe('tabular-csv');
      const wanted = rows.map((row, index) => ({
        inferenceId: idOf(index, rows.length),
        index,
        features: byPosition(row),
        prediction: answers[index],
      }));
      expect(capture.inferences).toEqual(wanted);
      expect(capture.notes).toEqual([]);
    }),
    { numRuns: 150 },
  );
});

const names = fc.uniqueArray(
  fc.string({ minLength: 1, maxLength: 6 }).map((name) => `f_${name}`),
  { minLength: 5, maxLength: 5 },
);

test('decodes instances and predictions by position, by name, by configured names, and as JSON Lines', () => {
  fc.assert(
    fc.property(
      tables,
      names,
      encodings,
      fc.constantFrom('lists', 'features', 'maps', 'lines'),
      (rows, given, encoding, form) => {
        const width = (rows[0] as unknown[]).length;
        const featureNames = given.slice(0, width);
        const named = (row: (number | string)[]) => Object.fromEntries(row.map((cell, at) => [featureNames[at], cell]));
        const instances = rows.map((row) =>
          form === 'lists' ? row : form === 'maps' ? named(row) : { features: row },
        );
        const predictions = rows.map((_, index) => ({ score: index / 4 }));
        const isLines = form === 'lines';
        const write = (mode: Side['mode'], list: object[], name: string): Side =>
          isLines
            ? sideOf(mode, list.map((item) => JSON.stringify(item)).join('\n'), 'application/jsonlines', encoding)
            : jsonSide(mode, { [name]: list }, encoding);
        const capture = decoded(write('INPUT', instances, 'instances'), write('OUTPUT', predictions, 'predictions'), {
          featureNames,
        });
        expect(capture.format).toBe(isLines ? 'jsonlines' : 'tabular-json');
        expect(capture.inferences).toEqual(
          rows.map((row, index) => ({
            inferenceId: idOf(index, rows.length),
            index,
            features: named(row),
            prediction: predictions[index],
          })),
        );
      },
    ),
    { numRuns: 150 },
  );
});

test('keeps the size and digest of bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 100 }), (bytes) => {
      const data = Buffer.from(bytes).toString('base64');
      const side: Side = { observedContentType: 'image/png', mode: 'INPUT', data, encoding: 'BASE64' };
      const capture = decoded(side, undefined);
      expect(capture.request?.value).toMatchObject({ binary: true, bytes: bytes.length });
      expect(capture.request?.bytes).toBe(bytes.length);
    }),
  );
});

test('keeps any document of an unknown form unchanged', () => {
  const leaves = fc.oneof(fc.integer(), fc.boolean(), anyText());
  const documents = fc.dictionary(
    fc.string({ minLength: 1, maxLength: 5 }).map((name) => `x_${name}`),
    leaves,
  );
  fc.assert(
    fc.property(documents, documents, encodings, (request, reply, encoding) => {
      const capture = decoded(jsonSide('INPUT', request, encoding), jsonSide('OUTPUT', reply, encoding));
      expect(capture.format).toBe('json');
      expect(capture.request?.value).toEqual({ ...request });
      expect(capture.response?.value).toEqual({ ...reply });
    }),
    { numRuns: 150 },
  );
});

test('keeps a number as the same double, and one that no double represents as it was written', () => {
  const literals = fc.stringMatching(/^-?[1-9]\d{0,40}(?:\.\d{0,30}[1-9])?(?:e-?[1-9]\d{0,2})?$/);
  fc.assert(
    fc.property(literals, (literal) => {
      const data = `{"x":${literal}}`;
      const input: Side = { observedContentType: 'application/json', mode: 'INPUT', data, encoding: 'JSON' };
      const written = JSON.stringify(decoded(input, undefined).request?.value);
      const number = written.slice('{"x":'.length, -1);
      expect(Number(number)).toBe(Number(literal));
      const { significant } = exact(literal);
      const isWhole = /^-?\d+$/.test(literal);
      // A double has 53 bits: always 15 digits, at most 17.
      if (significant.length > 17 || (isWhole && significant.length > 15))
        expect(exact(number)).toEqual(exact(literal));
    }),
    { numRuns: 1000 },
  );
});

/** Returns digits and power of ten, so that 1.5e3 and 1500 are equal. */
function exact(literal: string): { sign: string; significant: string; power: number } {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  const all = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = all.replace(/0+$/, '');
  const power = Number(exponent) - fraction.length + all.length - significant.length;
  return { sign, significant, power };
}
