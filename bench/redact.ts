/**
 * Measures what masking finds beside Presidio's pattern recognizers, on texts that are not ours, and the time that it takes beside that
 * of decoding; and that of hostile text by its length.
 *
 * `--rounds N` makes N items of each kind and locale.
 */
import { spawn } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import { ensurePythonEnvironment, type Log } from '../local/python/python-environment.ts';
import { decodeLine } from '../src/captures/decode.ts';
import { Forms, find } from '../src/captures/redact/find.ts';
import { Masker } from '../src/captures/redact/mask.ts';
import type { Capture, DecodeOptions, RawLine } from '../src/captures/types.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { REDACT_KINDS, type RedactKind } from '../src/core/settings/redact-setting.ts';
import { piiDetected } from '../src/judge/scorers/code/pii.ts';
import { type Planted, plantedItems } from '../test/helpers/planted.ts';
import { captureLine, chatBody, chatReply } from '../test/helpers/replay.ts';
import { harmlessTexts, proseTexts } from './redact-support/texts.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, median, round } from './support/result.ts';

const PACKAGES = { 'presidio-analyzer': '2.2.366', Faker: '40.63.0', phonenumbers: '9.0.43', 'python-stdnum': '2.2' };
/** What Presidio finds below this score is mostly none. */
const LEAST_SCORE = 0.35;
/** Items of each kind and locale. */
const ROUNDS_OF_LOCALE = 10;
const ITEMS = 6000;

type Spans = [kind: string, start: number, end: number][];

const FORMS = new Forms(REDACT_KINDS);
const oursIn = (text: string): Spans => find(text, FORMS).map(({ name, start, end }) => [name, start, end]);

/** Returns the values that a Python program prints, each as a line of JSON. */
async function printedBy<T>(
  python: string,
  script: string,
  argument: number,
  input: readonly string[] = [],
): Promise<T[]> {
  const child = spawn(python, [packagePath('bench', 'peer', script), String(argument)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(input.map((text) => `${JSON.stringify(text)}\n`).join(''));
  const lines = (await buffer(child.stdout)).toString().trim().split('\n');
  return lines.map((line) => JSON.parse(line) as T);
}

/** A text of other people: an item of a kind in a form, or, without a kind, a harmless one. */
interface Foreign {
  kind: RedactKind | '';
  item: string;
  sentence: string;
  form: 'form' | 'code' | 'word' | 'field' | 'alone' | 'harmless';
}

/** Presidio finds any date and URL: those are no false finds of personal data. */
const ANY = new Set(['date_of_birth', 'url_credentials']);

const covers = (spans: Spans, kind: string, start: number, end: number): boolean =>
  spans.some(([name, from, to]) => name === kind && from <= start && to >= end);

/** Whether all of an item is masked. The name of a field announces its value, so that a record is masked as JSON. */
function isMasked({ kind, item, sentence, form }: Foreign, start: number): boolean {
  if (form !== 'field') return covers(oursIn(sentence), kind, start, start + item.length);
  const value = new Masker(redaction).value(JSON.parse(sentence), true) as Record<string, string>;
  return Object.values(value).some((one) => new RegExp(`^<${kind}:\\w+>$`).test(one));
}

/** Counts by kind and form: texts, and those of which ours and the peer find the item, or anything in a harmless text. */
function recalls(texts: readonly Foreign[], peer: readonly Spans[]) {
  const counts: Record<string, { texts: number; ours: number; peer: number }> = {};
  for (const [at, one] of texts.entries()) {
    const { kind, item, sentence, form } = one;
    const spans = peer[at] ?? [];
    const name = `${kind} ${form}`.trim();
    const count = counts[name] ?? { texts: 0, ours: 0, peer: 0 };
    counts[name] = count;
    const start = sentence.indexOf(item);
    // Python counts characters, of which some have two units.
    const from = [...sentence.slice(0, start)].length;
    const isHarmless = kind === '';
    count.texts += 1;
    if (isHarmless ? oursIn(sentence).length > 0 : isMasked(one, start)) count.ours += 1;
    const isFound = isHarmless
      ? spans.some(([name]) => !ANY.has(name))
      : covers(spans, kind, from, from + [...item].length);
    if (isFound) count.peer += 1;
  }
  return counts;
}

/** What has no word, field, code or form of its own has no target. Nor has Presidio's find of a whole URL. */
function recallChecks({ harmless, ...counts }: ReturnType<typeof recalls>) {
  const measured = Object.entries(counts).filter(([name]) => !name.endsWith(' alone'));
  const wrong = harmless ?? { texts: 1, ours: 1, peer: 1 };
  return [
    ...measured.map(([name, { texts, ours, peer }]) =>
      atLeast(`recall: ${name}`, round(ours / texts, 4), round(peer / texts, 4)),
    ),
    atMost('harmless texts with a find over those of Presidio', round(wrong.ours / wrong.peer, 4), 0.5),
    atMost('share of harmless texts with a find', round(wrong.ours / wrong.texts, 4), 1 / 200),
  ];
}

// ------------------------------------------------------------------------------------------------------------ time

const ROUNDS = 5;
const LENGTHS = [1_000, 10_000, 100_000, 2_000_000];
const redaction = { kinds: [...REDACT_KINDS], fields: [], patterns: [], allow: [], content: 'all' as const, key: 'k' };

const rawOf = (line: string): RawLine => ({
  bytes: Buffer.from(line),
  place: { bucket: 'b', key: 'k', etag: 'e', line: 1, start: 0, end: 1, objectTimeMs: 0 },
});

function decoded(raw: RawLine, options: DecodeOptions = {}): Capture {
  const line = decodeLine(raw, options);
  if (line.kind !== 'capture') throw new Error(line.reason.message);
  return line.capture;
}

/**
 * Returns the median time of each work. Of the processor, since other work on the machine may take longer than the masking; by turns, since
 * all become faster while V8 compiles them.
 */
function millisecondsOf(times: number, ...works: (() => void)[]): number[] {
  const timeOf = (work: () => void): number => {
    const started = process.cpuUsage();
    for (let n = 0; n < times; n += 1) work();
    return process.cpuUsage(started).user / 1000 / times;
  };
  for (const work of works) timeOf(work);
  const rounds = Array.from({ length: ROUNDS }, () => works.map(timeOf));
  return works.map((_, at) => median(rounds.map((round) => round[at] ?? 0)));
}

/** A chat of texts, with an item after every third one, or none. @param from the first text */
function chat(length: number, texts: readonly string[], items: readonly Planted[] | undefined, from: number): RawLine {
  let text = '';
  for (let at = from; text.length < length; at += 1) {
    text += ` ${texts[at % texts.length]}`;
    if (items && at % 3 === 0) text += ` ${items[at % items.length]?.sentence}`;
  }
  return rawOf(captureLine('a', 0, { data: chatBody(text) }, { data: chatReply(text.slice(0, length / 2)) }));
}

/** Short chats differ, so that several are measured: one is slow for a detector that meets a rare letter in it. */
const CHARS = 40_000;

/**
 * Returns the time of masking and `pii_detected` over that of decoding. A capture that was just decoded is scored, as in a run: in a loop
 * of its own, a detector finds all of its code in the processor's cache.
 */
function chatShare(length: number, texts: readonly string[], items: readonly Planted[] | undefined): number {
  const count = Math.ceil(CHARS / length);
  const raws = Array.from({ length: count }, (_, at) => chat(length, texts, items, 3 * at));
  const times = Math.max(1, Math.round(2_000_000 / length / count));
  const [decoding, masked] = millisecondsOf(
    times,
    () => void raws.map((raw) => decoded(raw)),
    () => void raws.map((raw) => piiDetected.score(decoded(raw, { redaction }))),
  ) as [number, number];
  return round(masked / decoding - 1);
}

function tableShare(): number {
  const row = (at: number): string => Array.from({ length: 20 }, (_, n) => ((at * 31 + n * 17) % 1009) / 7).join(',');
  const data = Array.from({ length: 5000 }, (_, at) => row(at)).join('\n');
  const raw = rawOf(
    captureLine('a', 0, { data, encoding: 'CSV', contentType: 'text/csv' }, { data: '{"predictions":[1]}' }),
  );
  const [decoding, masked] = millisecondsOf(
    3,
    () => decoded(raw),
    () => decoded(raw, { redaction }),
  ) as [number, number];
  return masked / decoding - 1;
}

/** Repeated, each makes some pattern begin everywhere and end nowhere, or find an item in every word. */
const HOSTILE: Record<string, string> = {
  digits: '1234567890',
  'dotted digits': '1.1.1.',
  ats: 'a@',
  hyphens: '-',
  'one letter': 'a',
  colons: ':',
  'beginnings of URLs': 'a://b:',
  'beginnings of keys': '-----BEGIN PRIVATE KEY-----',
  'names of keys': 'api_key1',
  'mail addresses': 'jane.doe@example.com ',
  base64: Buffer.from(Array.from({ length: 3000 }, (_, at) => (at * at * 31 + at) >> 3)).toString('base64'),
  // JSON in strings of a list, each of which is read as JSON again.
  'JSON in strings': `${JSON.stringify(JSON.stringify({ a: JSON.stringify({ b: '+49 30 901820' }) }))},`,
};
const [SMALL, LARGE] = [5e6, 25e6];

/** Returns milliseconds per megabyte of masking hostile text, and how many times that of the smaller text it is in the larger one. */
function hostileTimes(part: string): { each: number; growth: number } {
  const [small = 0, large = 0] = [SMALL, LARGE].map((length) => {
    const text = part.repeat(length / part.length);
    const value = part.startsWith('"') ? JSON.parse(`[${text}""]`) : { text };
    const masker = new Masker(redaction);
    const started = process.cpuUsage();
    masker.value(value, true);
    return process.cpuUsage(started).user / 1000 / (length / 1e6);
  });
  return { each: round(large), growth: large / small };
}

export default async function bench(log: Log, flags: string[] = []): Promise<BenchResult> {
  const { python } = await ensurePythonEnvironment({ name: 'bench-redact', packages: PACKAGES, log });
  const rounds = numberFlag(flags, 'rounds', ROUNDS_OF_LOCALE);
  const texts = await printedBy<Foreign>(python, 'foreign_texts.py', rounds);
  log(`${texts.length} texts`);
  const sentences = texts.map(({ sentence }) => sentence);
  const counts = recalls(texts, await printedBy<Spans>(python, 'presidio.py', LEAST_SCORE, sentences));
  log(
    Object.entries(counts)
      .map(([name, of]) => `${name}: ${of.ours} and Presidio ${of.peer} of ${of.texts}`)
      .join('\n'),
  );
  const items = plantedItems(ITEMS, 11);
  const shares: Record<string, number> = {};
  const prose = proseTexts();
  for (const length of LENGTHS) {
    shares[`${length} characters`] = chatShare(length, prose, undefined);
    shares[`${length} characters with items`] = chatShare(length, prose, items);
  }
  const codes = harmlessTexts(ITEMS);
  const coded = [undefined, items].map((planted) => chatShare(1000, codes, planted));
  const hostile = Object.entries(HOSTILE).map(([what, part]) => ({ what, ...hostileTimes(part) }));
  const sum = (of: 'ours' | 'peer'): number =>
    Object.values({ ...counts, harmless: undefined }).reduce((total, count) => total + (count?.[of] ?? 0), 0);
  return {
    ratio: sum('ours') / sum('peer'),
    ours: Object.fromEntries(
      Object.entries(counts).map(([name, { texts: all, ours }]) => [name, round(ours / all, 4)]),
    ),
    peer: Object.fromEntries(
      Object.entries(counts).map(([name, { texts: all, peer }]) => [name, round(peer / all, 4)]),
    ),
    versions: PACKAGES,
    checks: [
      ...recallChecks(counts),
      ...Object.entries(shares).map(([what, share]) =>
        atMost(`masking and pii_detected over decoding, ${what}`, share, what.endsWith('items') ? 9 : 3),
      ),
      ...coded.map((share, at) => atMost(`the same, texts of codes${at ? ' with items' : ''}`, share, at ? 11 : 5)),
      atMost('masking of a table over its decoding', tableShare(), 0.5),
      ...hostile.flatMap(({ what, growth, each }) => [
        atMost(`time per MB of 25 MB of ${what} over that of 5 MB`, growth, 2),
        atMost(`milliseconds per MB of ${what}`, each, 400),
      ]),
    ],
    notes: [
      'An item is found if all of it is in a find of its kind. `alone` has no word, field, country code or form of its own, and no target.',
      'Presidio finds any date and any URL; neither counts as a find in a harmless text.',
    ],
  };
}
