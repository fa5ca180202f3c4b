/** The inputs of the fuzzer: changed lines of the corpus, judge’s answers, replies of MLflow and S3. */
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';

// ---------------------------------------------------------------------------------------------------- documents

/** Marks text that is written into JSON unchanged, and so can be something that no JavaScript value is. */
const raw = (text: string): string => `@@raw:${text}@@`;
const RAW = /"@@raw:([^@]*)@@"/g;
const toText = (value: unknown): string => (JSON.stringify(value) ?? 'null').replace(RAW, '$1');

const ODD_VALUES: unknown[] = [
  ...[null, true, false, 0, -1, 0.5, 2 ** 53, '', ' ', 'x', '1', 'null', '\u0000', '\ud800', '😀'],
  ...['\u2028', '{}', '[', '"'],
  ...[[], {}, [null], [[]], [{}], { a: 1 }, { toString: 1 }, { valueOf: 0, toString: 0 }, { length: -1 }, { get: 1 }],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', '$' + '{x}', '<title>', '```json', '<think>', 'data: '],
  ...[
    ...['1e999', '-1e999', '1e-320', '-0', '12345678901234567890', '0.1234567890123456789', 'NaN'],
    ...['-Infinity', '1e5', '01'],
  ].map(raw),
  raw('{"__proto__":{"a":1},"a":1,"a":2}'),
];
const ODD_KEYS = [
  ...['__proto__', 'constructor', 'toString', '', ' ', 'content', 'role', 'messages', 'choices', 'error'],
  ...['usage', 'tool_calls', 'type', 'index', 'delta', 'message', 'data', '\u0000'],
];

type Change =
  | { kind: 'set'; value: number }
  | { kind: 'drop' }
  | { kind: 'rename'; key: number }
  | { kind: 'nest'; depth: number; inObjects: boolean }
  | { kind: 'repeat'; times: number }
  | { kind: 'copy'; from: number };

const changes: fc.Arbitrary<Change> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('set' as const), value: fc.nat(ODD_VALUES.length - 1) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('drop' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('rename' as const), key: fc.nat(ODD_KEYS.length - 1) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('nest' as const),
      depth: fc.integer({ min: 1, max: 15_000 }),
      inObjects: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('repeat' as const), times: fc.integer({ min: 2, max: 20_000 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('copy' as const), from: fc.nat() }) },
);

interface Place {
  holder: Record<string, unknown> | unknown[];
  key: string;
}

function placesOf(value: unknown, found: Place[] = []): Place[] {
  if (typeof value !== 'object' || value === null || found.length > 2000) return found;
  for (const key of Object.keys(value)) {
    found.push({ holder: value as Place['holder'], key });
    placesOf((value as Record<string, unknown>)[key], found);
  }
  return found;
}

/** The most characters of a repeated text or list. */
const MAX_CHARS = 1e6;

function change(document: unknown, at: number, what: Change): void {
  const places = placesOf(document);
  const place = places[at % Math.max(1, places.length)];
  if (place === undefined) return;
  const holder = place.holder as Record<string, unknown>;
  const old = holder[place.key];
  switch (what.kind) {
    case 'set':
      holder[place.key] = ODD_VALUES[what.value];
      return;
    case 'drop':
      if (Array.isArray(place.holder)) place.holder.splice(Number(place.key), 1);
      else delete holder[place.key];
      return;
    case 'rename':
      if (Array.isArray(place.holder)) return;
      delete holder[place.key];
      Object.defineProperty(holder, ODD_KEYS[what.key] as string, {
        value: old,
        enumerable: true,
        configurable: true,
        writable: true,
      });
      return;
    case 'nest': {
      const [open, close] = what.inObjects ? ['{"a":', '}'] : ['[', ']'];
      holder[place.key] = raw(`${open.repeat(what.depth)}1${close.repeat(what.depth)}`);
      return;
    }
    case 'repeat': {
      const times = Math.min(what.times, Math.floor(MAX_CHARS / (toText(old).length + 1)));
      if (typeof old === 'string') holder[place.key] = old.repeat(Math.max(1, times));
      // Separate copies, so that a later change affects only one of them.
      else holder[place.key] = Array.from({ length: Math.max(1, times) }, () => structuredClone(old));
      return;
    }
    case 'copy': {
      const source = places[what.from % places.length] as Place;
      const copied = JSON.stringify((source.holder as Record<string, unknown>)[source.key]);
      if (copied !== undefined && copied.length < MAX_CHARS / 10) holder[place.key] = JSON.parse(copied);
    }
  }
}

// -------------------------------------------------------------------------------------------------------- lines

const CONTENT_TYPES = [
  ...[null, '', 'application/json', 'text/csv', 'text/plain', 'text/html', 'text/event-stream'],
  ...['application/jsonlines', 'application/x-ndjson', 'application/vnd.amazon.eventstream'],
  ...['application/json; charset=utf-16', 'image/png', 'application/x-npy'],
];
const ENCODINGS = ['JSON', 'CSV', 'BASE64', '', 'x', null];
const PIECES = [
  ...['\n', '\r\n\r\n', '\n'.repeat(20_000), ' '.repeat(20_000), '```', '<title> ', 'data: '],
  ...['data: [DONE]\n\n', '\u0000', '\ufffd', '"', '\\', '{', '[', ',', '1,'.repeat(20_000)],
  ...['!'.repeat(20_000), '=\t'.repeat(5000)],
];

type Edit =
  | { kind: 'record'; at: number; what: Change }
  | { kind: 'payload'; side: number; at: number; what: Change }
  | { kind: 'cut'; side: number; share: number }
  | { kind: 'insert'; side: number; share: number; piece: number }
  | { kind: 'field'; side: number; name: 'observedContentType' | 'encoding'; value: number }
  | { kind: 'pack'; side: number; how: 'base64' | 'gzip' | 'utf16' };

const sides = fc.nat(1);
const shares = fc.double({ min: 0, max: 1, noNaN: true });
const edits: fc.Arbitrary<Edit> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('record' as const), at: fc.nat(), what: changes }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('payload' as const), side: sides, at: fc.nat(), what: changes }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cut' as const), side: sides, share: shares }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('insert' as const),
      side: sides,
      share: shares,
      piece: fc.nat(PIECES.length - 1),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('field' as const),
      side: sides,
      name: fc.constantFrom('observedContentType' as const, 'encoding' as const),
      value: fc.nat(20),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('pack' as const),
      side: sides,
      how: fc.constantFrom('base64' as const, 'gzip' as const, 'utf16' as const),
    }),
  },
);

function edit(record: unknown, one: Edit): void {
  if (one.kind === 'record') {
    change(record, one.at, one.what);
    return;
  }
  const data = (record as { captureData?: Record<string, unknown> } | null)?.captureData;
  const side = data?.[one.side === 0 ? 'endpointInput' : 'endpointOutput'] as Record<string, unknown> | undefined;
  if (typeof side !== 'object' || side === null) return;
  if (one.kind === 'field') {
    const values = one.name === 'encoding' ? ENCODINGS : CONTENT_TYPES;
    side[one.name] = values[one.value % values.length];
    return;
  }
  if (typeof side.data !== 'string') return;
  const isPacked = side.encoding === 'BASE64';
  const text = isPacked ? Buffer.from(side.data, 'base64').toString() : side.data;
  const bytes = changedPayload(text, one);
  side.data = isPacked || one.kind === 'pack' ? bytes.toString('base64') : bytes.toString();
  if (one.kind === 'pack') side.encoding = 'BASE64';
}

function changedPayload(text: string, one: Exclude<Edit, { kind: 'record' | 'field' }>): Buffer {
  switch (one.kind) {
    case 'payload':
      try {
        const document: unknown = { payload: JSON.parse(text) };
        change(document, one.at, one.what);
        return Buffer.from(toText((document as { payload: unknown }).payload));
      } catch {
        return Buffer.from(text);
      }
    case 'cut':
      return Buffer.from(text).subarray(0, Math.floor(text.length * one.share));
    case 'insert': {
      const at = Math.floor(text.length * one.share);
      return Buffer.from(text.slice(0, at) + (PIECES[one.piece] ?? '') + text.slice(at));
    }
    case 'pack':
      return one.how === 'gzip' ? gzipSync(text) : Buffer.from(text, one.how === 'utf16' ? 'utf16le' : 'utf8');
  }
}

const MAX_LINE_CHARS = 10e6;

/** Generates lines of the corpus with a few edits. Most of them are still captures. */
export const linesFrom = (corpus: readonly string[]): fc.Arbitrary<string> =>
  fc.tuple(fc.nat(corpus.length - 1), fc.array(edits, { minLength: 1, maxLength: 4 })).map(([index, list]) => {
    const line = corpus[index] as string;
    try {
      const record: unknown = JSON.parse(line);
      for (const one of list) edit(record, one);
      const changed = toText(record);
      // Several edits together may make a line that no endpoint accepts.
      return changed.length > MAX_LINE_CHARS ? line : changed;
    } catch {
      // Not JSON, or nested too deeply to be serialized: unchanged.
      return line;
    }
  });

// ------------------------------------------------------------------------------------------------------ answers

/** An answer of the judge: well-formed, changed, truncated, or with something before and after it. */
export interface JudgeAnswer {
  changes: { at: number; what: Change }[];
  share: number;
  prefix: string;
  suffix: string;
  stop: 'end' | 'cut' | 'guardrail' | 'filtered' | 'malformed' | 'context';
  usage: { inputTokens: number; outputTokens: number; cacheReadInputTokens?: number };
}
const dress = fc.constantFrom(
  '',
  '```json\n',
  '<think>',
  '{"a":{"value":"yes"}}',
  'Sure: ',
  '{'.repeat(3000),
  '"',
  '\u0000',
  '[[',
  'x'.repeat(50_000),
);
const counts = fc.oneof(
  fc.nat(5000),
  fc.constantFrom(-1, -1e9, 1e300, Number.NaN, Number.POSITIVE_INFINITY, 0.5, 2 ** 60),
);
export const judgeAnswers: fc.Arbitrary<JudgeAnswer> = fc.record({
  changes: fc.array(fc.record({ at: fc.nat(), what: changes }), { maxLength: 3 }),
  share: fc.oneof(fc.constant(1), shares),
  prefix: dress,
  suffix: dress,
  stop: fc.constantFrom('end', 'end', 'end', 'cut', 'guardrail', 'filtered', 'malformed', 'context'),
  usage: fc.record({ inputTokens: counts, outputTokens: counts }, { noNullPrototype: true }),
});

export function answerText(good: string, { changes: list, share, prefix, suffix }: JudgeAnswer): string {
  const holder: unknown = { answer: JSON.parse(good) };
  for (const { at, what } of list) change(holder, at, what);
  const text = toText((holder as { answer: unknown }).answer);
  return prefix + text.slice(0, Math.ceil(text.length * share)) + suffix;
}

// ------------------------------------------------------------------------------------------------------- servers

/** A reply that MLflow, S3 or a proxy in front of them might give. */
export interface ServerReply {
  /** The request that gets it, counted from 0. */
  ordinal: number;
  status: number;
  contentType: string;
  body: string;
}
export const serverReplies: fc.Arbitrary<ServerReply> = fc.record({
  ordinal: fc.nat(5),
  status: fc.constantFrom(200, 200, 200, 201, 204, 301, 400, 401, 403, 404, 409, 413, 429, 500, 502, 503),
  contentType: fc.constantFrom(
    'application/json',
    'text/html',
    'application/xml',
    'text/plain',
    'application/x-protobuf',
  ),
  body: fc.oneof(
    fc.constantFrom(
      '',
      '{}',
      '[]',
      'null',
      '"x"',
      '{"traces":null}',
      '{"trace_infos":[null]}',
      '{"traces":[{"trace_info":5}]}',
      '<html><title>Sign in</title></html>',
      '{"error_code":{},"message":7}',
      '{"error_code":"RESOURCE_DOES_NOT_EXIST"}',
      '{"partialSuccess":{"rejectedSpans":3}}',
      `${'['.repeat(20_000)}`,
      '<Error><Code>SlowDown</Code></Error>',
      '{"experiment":{}}',
      '\u0000',
    ),
    fc.json(),
  ),
});
