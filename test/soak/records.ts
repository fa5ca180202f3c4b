/** Capture lines for the soak. The n-th line is the same in every run, and adjacent lines have different formats. */
import {
  base64,
  captureLine,
  chatLine,
  chatReply,
  chatRequest,
  csv,
  json,
  type Side,
} from '../helpers/deployed-captures.ts';

/** Marks the records that MLflow refuses while the faults last. */
export const FAULTY_MARK = 'soakpoisonpill';

const TIME = Date.UTC(2026, 10, 20, 10);
const timeOf = (n: number): string => new Date(TIME + (n % 36_000) * 100).toISOString().replace(/\.\d+/, '');
const record = (n: number, input: Side | undefined, output: Side | undefined): string =>
  captureLine(`soak-${n}`, timeOf(n), input, output);
const text = (content: string, contentType = 'text/plain'): Side => base64(content, contentType);

const stream = (n: number): string =>
  ['Cut ', 'back ', `plant ${n} `, 'in spring.']
    .map((content) => ({ id: `s-${n}`, model: 'garden-llm', choices: [{ index: 0, delta: { content } }] }))
    .map((event) => `data: ${JSON.stringify(event)}\n\n`)
    .join('')
    .concat('data: [DONE]\n\n');

/** One line of each format. The remainder of n selects the format. */
const FORMATS: readonly ((n: number) => string)[] = [
  (n) => chatLine(`soak-${n}`, timeOf(n)),
  (n) =>
    record(
      n,
      base64(JSON.stringify(chatRequest(`Which soil suits plant ${n}?`))),
      base64(JSON.stringify(chatReply(`Plant ${n} likes acid soil, pH 4.5 to 5.5.`))),
    ),
  (n) =>
    record(
      n,
      json({ inputs: `Name three perennials beside number ${n}.`, parameters: { max_new_tokens: 40 } }),
      json({ generated_text: `Lavender, sage and catmint go with number ${n}.` }),
    ),
  (n) => record(n, csv(`5.1,3.5,${n}\n6.2,2.9,${n}\n`), csv('0.97\n0.12\n')),
  (n) =>
    record(
      n,
      json({ instances: [{ features: [n, 2] }, { features: [3, 4] }] }),
      json({ predictions: [{ score: 0.5 }, { score: 0.25 }] }),
    ),
  (n) =>
    record(
      n,
      json({ model: 'garden-llm', prompt: `A verse about plant ${n}:`, max_tokens: 30 }),
      json({
        object: 'text_completion',
        choices: [{ index: 0, text: `Plant ${n} stands in morning light.`, finish_reason: 'stop' }],
        usage: { prompt_tokens: 8, completion_tokens: 9, total_tokens: 17 },
      }),
    ),
  (n) =>
    record(
      n,
      json({ ...chatRequest(`How do I prune plant ${n}?`), stream: true }),
      text(stream(n), 'text/event-stream'),
    ),
  (n) =>
    record(
      n,
      json({ model: 'garden-embedder', input: `plant ${n}` }),
      json({
        object: 'list',
        data: [
          { object: 'embedding', index: 0, embedding: Array.from({ length: 64 }, (_, i) => (n % 1000) / (i + 1)) },
        ],
        usage: { prompt_tokens: 3, total_tokens: 3 },
      }),
    ),
  (n) =>
    record(
      n,
      json(chatRequest(`Why does plant ${n} wilt?`)),
      base64('{"code":424,"message":"prediction failure"}', null),
    ),
  (n) => record(n, json(chatRequest(`Is plant ${n} there?`)), undefined),
  (n) =>
    record(
      n,
      text(`{"features":[${n},1]}\n{"features":[${n},2]}\n`, 'application/jsonlines'),
      text('{"probabilities":[0.1,0.9]}\n{"probabilities":[0.8,0.2]}\n', 'application/jsonlines'),
    ),
  (n) => record(n, text(`Ist Pflanze ${n} winterhart?`), text(`Ja, Pflanze ${n} verträgt Frost bis −15 °C.`)),
];

/** Lines that are not capture records, each for a different reason. */
const BAD: readonly ((n: number) => string)[] = [
  (n) => `{"captureData": {"endpointInput": "cut off ${n}`,
  (n) => `line ${n} is no JSON`,
  (n) => JSON.stringify([n, 'not an object']),
  (n) => JSON.stringify({ eventMetadata: { eventId: `bad-${n}` }, eventVersion: '0' }),
];

/** One line in 200 is bad, one in 50 repeated, and every 3,001st as long as a document. */
const BAD_EVERY = 200;
const REPEATED_EVERY = 50;
const LONG_EVERY = 3_001;
const LONG_REPEATS = 30_000;
const POISON_EVERY = 1_511;

export interface SoakLine {
  text: string;
  /** The line is not a capture record. */
  bad: boolean;
  /** The line is identical to an earlier one. */
  repeated: boolean;
}

/** Returns the n-th line, from 0, without its line ending. */
export function soakLine(n: number): SoakLine {
  const good = (text: string): SoakLine => ({ text, bad: false, repeated: false });
  if (n % BAD_EVERY === 117) {
    return { text: BAD[Math.floor(n / BAD_EVERY) % BAD.length]?.(n) ?? '', bad: true, repeated: false };
  }
  // Some repeat a line of the same file, others a line of a much earlier file.
  if (n % REPEATED_EVERY === 41) return { ...soakLine(n % 4 === 1 ? n - 3 : Math.floor(n / 2)), repeated: true };
  if (n % POISON_EVERY === 777) {
    return good(record(n, json(chatRequest(`${FAULTY_MARK} ${n}`)), json(chatReply(`A reply to number ${n}.`))));
  }
  if (n % LONG_EVERY === 1_234) {
    const words = `number ${n} `.repeat(LONG_REPEATS);
    return good(record(n, json(chatRequest(`Sum up: ${words}`)), json(chatReply(`It says number ${n} again.`))));
  }
  const line = FORMATS[n % FORMATS.length]?.(n) ?? '';
  // Some captures have no time, others no event id.
  if (n % 97 === 5) return good(without(line, 'inferenceTime'));
  if (n % 89 === 5) return good(without(line, 'eventId'));
  return good(line);
}

function without(line: string, field: 'inferenceTime' | 'eventId'): string {
  const captured = JSON.parse(line) as { eventMetadata: Record<string, unknown> };
  delete captured.eventMetadata[field];
  return JSON.stringify(captured);
}

export interface SoakFile {
  name: string;
  /** The hour in the S3 path. */
  hour: number;
  /** The lines, with `\r` in files with CRLF. Some are blank. */
  lines: string[];
  /** The counts of the lines that are not blank. */
  counts: SoakCounts;
}

export interface SoakCounts {
  lines: number;
  bad: number;
  /** Distinct capture records. */
  records: number;
}

/** The numbers of lines of the files in turn, from one to several chunks. */
const SIZES = [1, 40, 500, 7, 1_300, 501, 120, 3_000, 2, 2_200];
const BLANK_EVERY = 150;
export const HOURS = 6;

/** Yields the lines `from` to `to` (exclusive) in files of various sizes. */
export function* soakFiles(from: number, to: number, prefix: string): Generator<SoakFile> {
  for (let n = from, file = 0; n < to; file += 1) {
    const end = Math.min(to, n + (SIZES[file % SIZES.length] ?? 1));
    const isCrlf = file % 5 === 3;
    const lines: string[] = [];
    const counts = { lines: 0, bad: 0, records: 0 };
    for (; n < end; n += 1) {
      const { text: content, bad, repeated } = soakLine(n);
      if (n % BLANK_EVERY === 0) lines.push('');
      lines.push(isCrlf ? `${content}\r` : content);
      counts.lines += 1;
      counts.bad += bad ? 1 : 0;
      counts.records += bad || repeated ? 0 : 1;
    }
    yield { name: `${prefix}-${String(file).padStart(4, '0')}`, hour: file % HOURS, lines, counts };
  }
}
