/** Labels are joined and compared with and without masking alike, whichever key predictions and labels were kept under. */

import { logger } from '../../../src/core/process/logging.ts';
import { REDACT_KINDS, type Redaction } from '../../../src/core/settings/redact-setting.ts';
import { hashesOf } from '../../../src/ground-truth/masked.ts';
import { ChunkPredictions } from '../../../src/ground-truth/predictions/chunk-predictions.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { readAndJoin, stepsOn, type TruthFacts, tracedRow, truthFacts } from '../../helpers/ground-truth.ts';
import { decodedOf, jsonRecord, lineOf } from '../captures/arbitraries.ts';

beforeEach(() => {
  for (const level of ['info', 'warn'] as const) jest.spyOn(logger, level).mockImplementation();
});
afterEach(() => void jest.restoreAllMocks());

const MAIL = 'jane.doe@example.com';
const OLD = { key: 'the first key', keyVersion: '1' };
const NEW = { key: 'the second key', keyVersion: '2' };
const masking = (more: Partial<Redaction>): Redaction => ({
  ...{ kinds: [...REDACT_KINDS], fields: [], patterns: [], allow: [], content: 'all' },
  ...more,
});

const chat = (text: string): object => ({ choices: [{ message: { role: 'assistant', content: text } }] });
const REPLIES = [`Write to ${MAIL}.`, 'No.', `Call +49 30 1234567, or ${MAIL}`];
const LABELS = [
  { id: `${MAIL} 0`, label: `Write to ${MAIL}.` },
  { id: `${MAIL} 1`, label: 'Yes.' },
  { id: `${MAIL} 2`, label: `call +49 30 1234567, or ${MAIL}!` },
];

function deps(memory: MemoryStorage, redaction?: Redaction) {
  const steps = stepsOn(memory.storage, { GROUND_TRUTH: '{"days":400,"kind":"texts"}' });
  return { ...steps, environment: { ...steps.environment, ...(redaction && { redaction }) } };
}

/** Writes the predictions of the captures, as a run with this masking does. */
async function capture(memory: MemoryStorage, redaction?: Redaction): Promise<void> {
  const predictions = new ChunkPredictions(deps(memory, redaction).environment);
  for (const [at, reply] of REPLIES.entries()) {
    const request = { messages: [{ role: 'user', content: 'Hi' }] };
    const record = jsonRecord(request, chat(reply)) as {
      eventMetadata: object;
    };
    const eventMetadata = { ...record.eventMetadata, inferenceId: `${MAIL} ${at}` };
    const capture = decodedOf(lineOf({ ...record, eventMetadata }), redaction && { redaction });
    const key = 'captures/fern-house/blue/2026/03/04/05/file.jsonl';
    const place = { bucket: 'b', key, etag: 'e', line: 1, start: 0, end: 1, objectTimeMs: 0 };
    predictions.add(capture, `tr-${at}`, place);
  }
  const before = new Set(memory.objects.keys());
  await predictions.write(
    { storage: memory.storage, workBucket: 'work' },
    REPLIES.map((_, at) => tracedRow(`tr-${at}`)),
  );
  // After any labels.
  for (const key of memory.objects.keys()) if (!before.has(key)) memory.writtenMs.set(key, Date.now() + 60_000);
}

function putLabels(memory: MemoryStorage): void {
  memory.writtenMs.set('labels/f.jsonl', Date.now());
  memory.put('labels/f.jsonl', LABELS.map((label) => JSON.stringify(label)).join('\n'));
}

async function join(memory: MemoryStorage, redaction?: Redaction): Promise<TruthFacts> {
  await readAndJoin(deps(memory, redaction), { bucket: 'b', prefix: 'labels/' });
  return truthFacts(memory.storage);
}

/** Which texts are the same, and which are but for case and punctuation. */
const figures = ({ rows }: TruthFacts) =>
  rows
    .map((row) => {
      const [exact, normalized] = hashesOf(row) ?? [];
      const { text = [] } = row.prediction;
      return `${row.traceId} ${text[0] === exact} ${text[1] === normalized}`;
    })
    .toSorted();

const stored = (memory: MemoryStorage, facts: TruthFacts): string =>
  JSON.stringify(facts) + [...memory.objects].filter(([key]) => !key.startsWith('labels/')).join('\n');

const EXPECTED = ['tr-0 true true', 'tr-1 false false', 'tr-2 false true'];
const CASES: Record<string, [captured: Redaction | undefined, joined: Redaction | undefined]> = {
  'without masking': [undefined, undefined],
  'under one key': [masking(OLD), masking(OLD)],
  'after a rotation': [masking(OLD), masking({ ...NEW, previous: OLD })],
  'of captures that were written without a key': [undefined, masking(OLD)],
  'without texts': [masking({ ...OLD, content: 'none' }), masking({ ...OLD, content: 'none' })],
  'without texts after a rotation': [
    masking({ ...OLD, content: 'none' }),
    masking({ ...NEW, previous: OLD, content: 'none' }),
  ],
};

describe.each(Object.entries(CASES))('labels %s', (name, [captured, joined]) => {
  test('are joined and compared in the same way, before and after their captures', async () => {
    for (const isFirst of [true, false]) {
      const memory = new MemoryStorage();
      putLabels(memory);
      if (isFirst) await capture(memory, captured);
      else await join(memory, captured);
      if (!isFirst) await capture(memory, captured);
      const facts = await join(memory, joined);
      expect({ isFirst, figures: figures(facts) }).toEqual({ isFirst, figures: EXPECTED });
      expect(facts.waiting).toEqual([]);
      if (captured === undefined) continue;
      expect(stored(memory, facts)).not.toMatch(/jane\.doe|1234567/);
      if (name.startsWith('without texts')) expect(stored(memory, facts)).not.toMatch(/Write|Yes|call/i);
    }
  });
});

test('labels that wait are kept masked, with their lines', async () => {
  const memory = new MemoryStorage();
  putLabels(memory);
  const { waiting } = await join(memory, masking(OLD));
  expect(waiting.map(({ line, key }) => [line, key])).toEqual([1, 2, 3].map((line) => [line, '1']));
  expect(JSON.stringify(waiting)).not.toContain('jane');
});
