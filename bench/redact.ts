/**
 * Measures what masking finds beside Presidio's pattern recognizers, on the same texts, and the time that it takes beside that of
 * `pii_detected` as it was before, and of decoding; and that of hostile text by its length.
 *
 * `--texts N` plants fewer items.
 */
import { spawn } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import { ensurePythonEnvironment, type Log } from '../local/python/python-environment.ts';
import { decodeLine } from '../src/captures/decode.ts';
import type { Capture, DecodeOptions, RawLine } from '../src/captures/types.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { REDACT_KINDS, type RedactKind } from '../src/core/settings/redact-setting.ts';
import { piiDetected } from '../src/judge/scorers/code/pii.ts';
import { find, formsOf } from '../src/redact/find.ts';
import { Masker } from '../src/redact/mask.ts';
import { type Planted, plantedItems } from '../test/helpers/planted.ts';
import { captureLine, chatBody, chatReply } from '../test/helpers/replay.ts';
import { piiDetected as before } from './redact-support/pii-before.ts';
import { harmlessTexts, proseTexts } from './redact-support/texts.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, machine, median, round } from './support/result.ts';

const PRESIDIO = '2.2.366';
/** Presidio's own default shows all; services that use it leave out what is below. */
const SCORES = [0, 0.4];
const TEXTS = 6000;

type Spans = [kind: string, start: number, end: number][];

const FORMS = formsOf(REDACT_KINDS);
const oursIn = (text: string): Spans => find(text, FORMS).map(({ name, start, end }) => [name, start, end]);

async function presidioIn(python: string, texts: readonly string[], least: number): Promise<Spans[]> {
  const child = spawn(python, [packagePath('bench', 'peer', 'presidio.py'), String(least)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(texts.map((text) => `${JSON.stringify(text)}\n`).join(''));
  const lines = (await buffer(child.stdout)).toString().trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Spans);
}

/** Of planted items, those of which all is in spans; of spans, those that touch an item of their text. */
function figuresOf(items: readonly Planted[], spans: readonly Spans[]) {
  const byKind = new Map<RedactKind, { items: number; found: number }>();
  let [all, right] = [0, 0];
  for (const [at, found] of spans.entries()) {
    const one = items[at];
    const start = one?.sentence.indexOf(one.item) ?? -1;
    const end = start + (one?.item.length ?? 0);
    all += found.length;
    right += one === undefined ? 0 : found.filter(([, from, to]) => from < end && to > start).length;
    if (one === undefined) continue;
    const sums = byKind.get(one.kind) ?? { items: 0, found: 0 };
    byKind.set(one.kind, sums);
    sums.items += 1;
    if (found.some(([, from, to]) => from <= start && to >= end)) sums.found += 1;
  }
  const sums = [...byKind.values()];
  const recalls = Object.fromEntries([...byKind].map(([kind, { items: n, found }]) => [kind, round(found / n, 3)]));
  const sum = (of: 'items' | 'found'): number => sums.reduce((total, one) => total + one[of], 0);
  return { recall: sum('found') / sum('items'), precision: all === 0 ? 1 : right / all, wrong: all - right, recalls };
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
 * Returns the time of masking and `pii_detected` over that of `pii_detected` before. Each scores a capture that was just decoded, as in a
 * run: in a loop of its own, a detector finds all of its code in the processor's cache.
 */
function chatShare(length: number, texts: readonly string[], items: readonly Planted[] | undefined): number {
  const count = Math.ceil(CHARS / length);
  const raws = Array.from({ length: count }, (_, at) => chat(length, texts, items, 3 * at));
  const times = Math.max(1, Math.round(2_000_000 / length / count));
  const [decoding, was, is] = millisecondsOf(
    times,
    () => void raws.map((raw) => decoded(raw)),
    () => void raws.map((raw) => before.score(decoded(raw))),
    () => void raws.map((raw) => piiDetected.score(decoded(raw, { redaction }))),
  ) as [number, number, number];
  return round((is - decoding) / (was - decoding));
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
  const count = numberFlag(flags, 'texts', TEXTS);
  const items = plantedItems(count, 11);
  const harmless = harmlessTexts(count);
  const texts = [...items.map(({ sentence }) => sentence), ...harmless];
  log(`${count} planted items and ${count} harmless texts`);
  const ours = figuresOf(items, texts.map(oursIn));
  const packages = { 'presidio-analyzer': PRESIDIO };
  const { python } = await ensurePythonEnvironment({ name: 'bench-presidio', packages, log });
  const peers = [];
  for (const least of SCORES) peers.push({ least, ...figuresOf(items, await presidioIn(python, texts, least)) });
  const best = Math.max(...peers.map(({ precision }) => precision));
  const shares: Record<string, number> = {};
  const prose = proseTexts();
  for (const length of LENGTHS) {
    shares[`${length} characters`] = chatShare(length, prose, undefined);
    shares[`${length} characters with items`] = chatShare(length, prose, items);
  }
  const coded = [undefined, items].map((planted) => chatShare(1000, harmless, planted));
  const table = tableShare();
  const hostile = Object.entries(HOSTILE).map(([what, part]) => ({ what, ...hostileTimes(part) }));
  return {
    name: 'redact',
    ratio: ours.recall / Math.max(...peers.map(({ recall }) => recall)),
    ours: { recall: round(ours.recall, 4), precision: round(ours.precision, 4), wrong: ours.wrong, ...ours.recalls },
    peer: Object.fromEntries(
      peers.flatMap(({ least, recall, precision, wrong }) => [
        [`recall from score ${least}`, round(recall, 4)],
        [`precision from score ${least}`, round(precision, 4)],
        [`wrong from score ${least}`, wrong],
      ]),
    ),
    machine: machine(),
    versions: packages,
    checks: [
      atLeast('recall over the kinds', ours.recall, 0.98),
      ...Object.entries(ours.recalls).map(([kind, recall]) => atLeast(`recall of ${kind}`, recall, 0.98)),
      atLeast('precision over that of Presidio', ours.precision / best, 1),
      ...Object.entries(shares).map(([what, share]) =>
        atMost(`masking and pii_detected over pii_detected, ${what}`, share, 2),
      ),
      atMost('masking of a table over its decoding', table, 0.5),
      ...hostile.map(({ what, growth }) => atMost(`time per MB of 25 MB of ${what} over that of 5 MB`, growth, 2)),
    ],
    notes: [
      `Of chats of 1,000 characters, half of whose sentences are numbers and codes, the time is ${coded[0]} times, and with items ${coded[1]} times that of pii_detected.`,
      'An item is found if all of it is in what is found. Presidio has no recognizer of API keys and JSON Web Tokens; of dates it finds any.',
      `Milliseconds per MB of hostile text: ${hostile.map(({ what, each }) => `${what} ${each}`).join(', ')}`,
      `Presidio's recalls by kind: ${JSON.stringify(peers[0]?.recalls)}`,
    ],
  };
}
