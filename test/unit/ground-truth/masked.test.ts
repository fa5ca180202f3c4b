/** Labels are joined, compared and measured in the same way with masking and without, and nothing that is kept has the items. */
import { logger } from '../../../src/core/process/logging.ts';
import { REDACT_KINDS, type Redaction } from '../../../src/core/settings/redact-setting.ts';
import { hashesOf } from '../../../src/ground-truth/masked.ts';
import { measureTruth } from '../../../src/ground-truth/measure/measure.ts';
import { ChunkPredictions } from '../../../src/ground-truth/predictions/chunk-predictions.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { readAndJoin, stepsOn, type TruthFacts, tracedRow, truthFacts } from '../../helpers/ground-truth.ts';
import { decodedOf, jsonRecord, lineOf } from '../captures/arbitraries.ts';

beforeEach(() => {
  for (const level of ['info', 'warn'] as const) jest.spyOn(logger, level).mockImplementation();
});
afterEach(() => void jest.restoreAllMocks());

const MAIL = 'jane.doe@example.com';
const PHONE = '030 9018201';
const OLD = { key: 'the first key', keyVersion: '1' };
const NEW = { key: 'the second key', keyVersion: '2' };
const masking = (more: Partial<Redaction>): Redaction => ({
  ...{ kinds: [...REDACT_KINDS], fields: [], patterns: [], allow: [], content: 'all' },
  ...more,
});
const said = (content: string): object => ({ choices: [{ message: { role: 'assistant', content } }] });

type Case = [reply: unknown, label: unknown];
const idOf = (at: number): string => `${MAIL} ${at}`;

/** Labels in memory, and captures that come before or after they are read. @param settings of the ground truth */
function truthOf(settings: object, cases: readonly Case[]) {
  const memory = new MemoryStorage();
  memory.writtenMs.set('labels/f.jsonl', Date.now());
  memory.put('labels/f.jsonl', cases.map(([, label], at) => JSON.stringify({ id: idOf(at), label })).join('\n'));
  const steps = stepsOn(memory.storage, { GROUND_TRUTH: JSON.stringify({ days: 400, ...settings }) });
  const settingsOf = (redaction?: Redaction) => ({ ...steps.environment, ...(redaction && { redaction }) });
  const deps = (redaction?: Redaction) => ({ ...steps, environment: settingsOf(redaction) });
  /** Writes the predictions of the captures, as a run with this masking does. */
  const capture = async (redaction?: Redaction): Promise<void> => {
    const predictions = new ChunkPredictions(deps(redaction).environment);
    for (const [at, [reply]] of cases.entries()) {
      const record = jsonRecord({ x: 1 }, reply);
      Object.assign((record as { eventMetadata: object }).eventMetadata, { inferenceId: idOf(at) });
      const decoded = decodedOf(lineOf(record), redaction && { redaction });
      const key = 'captures/fern-house/blue/2026/03/04/05/file.jsonl';
      const place = { bucket: 'b', key, etag: 'e', line: 1, start: 0, end: 1, objectTimeMs: 0 };
      predictions.add(decoded, `tr-${at}`, place);
    }
    const before = new Set(memory.objects.keys());
    const traced = cases.map((_, at) => tracedRow(`tr-${at}`));
    await predictions.write(memory.work, traced);
    // After any labels.
    for (const key of memory.objects.keys()) if (!before.has(key)) memory.writtenMs.set(key, Date.now() + 60_000);
  };
  const join = async (redaction?: Redaction): Promise<TruthFacts> => {
    await readAndJoin(deps(redaction), { bucket: 'b', prefix: 'labels/' });
    return truthFacts(memory.storage);
  };
  return { memory, setting: steps.environment.GROUND_TRUTH, capture, join };
}

const TEXTS: Case[] = [
  [said(`Write to ${MAIL}.`), `Write to ${MAIL}.`],
  [said('No.'), 'Yes.'],
  [said(`Call +49 30 1234567, or ${MAIL}`), `call +49 30 1234567, or ${MAIL}!`],
];

/** Which texts are the same, and which are but for case and punctuation. */
function figures({ rows }: TruthFacts) {
  const found = rows.map((row) => {
    const [exact, normalized] = hashesOf(row) ?? [];
    const { text = [] } = row.prediction;
    return `${row.traceId} ${text[0] === exact} ${text[1] === normalized}`;
  });
  return found.toSorted();
}

const stored = (memory: MemoryStorage, facts: TruthFacts): string =>
  JSON.stringify(facts) + [...memory.objects].filter(([key]) => !key.startsWith('labels/')).join('\n');

const EXPECTED = ['tr-0 true true', 'tr-1 false false', 'tr-2 false true'];
const NO_TEXT: Partial<Redaction> = { ...OLD, content: 'none' };
const CASES: Record<string, [captured: Redaction | undefined, joined: Redaction | undefined]> = {
  'without masking': [undefined, undefined],
  'under one key': [masking(OLD), masking(OLD)],
  'after a rotation': [masking(OLD), masking({ ...NEW, previous: OLD })],
  'of captures that were written without a key': [undefined, masking(OLD)],
  'without texts': [masking(NO_TEXT), masking(NO_TEXT)],
  'without texts after a rotation': [masking(NO_TEXT), masking({ ...NO_TEXT, ...NEW, previous: OLD })],
};

describe.each(Object.entries(CASES))('labels %s', (name, [captured, joined]) => {
  test('are joined and compared in the same way, before and after their captures', async () => {
    for (const isFirst of [true, false]) {
      const { memory, capture, join } = truthOf({ kind: 'texts' }, TEXTS);
      if (!isFirst) await join(captured);
      await capture(captured);
      const facts = await join(joined);
      expect({ isFirst, figures: figures(facts) }).toEqual({ isFirst, figures: EXPECTED });
      expect(facts.waiting).toEqual([]);
      if (captured === undefined) continue;
      expect(stored(memory, facts)).not.toMatch(/jane\.doe|1234567/);
      if (name.startsWith('without texts')) expect(stored(memory, facts)).not.toMatch(/Write|Yes|call/i);
    }
  });
});

test('labels that wait are kept masked, with their lines', async () => {
  const { waiting } = await truthOf({ kind: 'texts' }, TEXTS).join(masking(OLD));
  expect(waiting.map(({ line, key }) => [line, key])).toEqual([1, 2, 3].map((line) => [line, '1']));
  expect(JSON.stringify(waiting)).not.toContain('jane');
});

/** The figures of labels that come before or after their captures, and the rows that they are of. */
async function measured(settings: object, cases: readonly Case[], redaction: Redaction | undefined, isFirst: boolean) {
  const { setting, capture, join } = truthOf(settings, cases);
  if (isFirst) await join(redaction);
  await capture(redaction);
  const { rows } = await join(redaction);
  const read = async function* () {
    yield* rows;
  };
  const { kind, groups } = await measureTruth(read, setting);
  // Names of classes are masked.
  const own = groups.map(({ compared, notCompared, measures }) => ({ kind, compared, notCompared, measures }));
  // Sums over classes are in the order of their names.
  const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Number(value.toFixed(9)) : value);
  return { figures: JSON.stringify(own, rounded), rows: JSON.stringify(rows) };
}

test.each<[string, object, ...Case[]]>([
  ['short texts', { kind: 'texts', prediction: 'reply' }, [{ reply: 'yes' }, 'yes'], [{ reply: MAIL }, MAIL]],
  ['texts in other notations', { kind: 'texts' }, [said('To JANE.DOE@example.com'), `To ${MAIL}`], [said(MAIL), MAIL]],
  ['phones in other notations', { kind: 'texts' }, [said('At +1 212 555 0123'), 'At (212) 555-0123']],
  [
    'classes with an item',
    { kind: 'classes' },
    [{ label: MAIL, score: 0.9 }, MAIL],
    [{ label: 'no', score: 0.8 }, 'yes'],
  ],
  ['values whose name announces them', { kind: 'classes', prediction: 'phone' }, [{ phone: PHONE }, PHONE]],
  ['texts whose name announces them', { kind: 'texts', prediction: 'phone' }, [{ phone: PHONE }, PHONE]],
  [
    'values of a masked field',
    { kind: 'classes', prediction: 'answer' },
    [{ answer: 'yes' }, 'yes'],
    [{ answer: 'no' }, 'yes'],
  ],
  ['nested values of a masked field', { kind: 'classes', prediction: 'a.answer' }, [{ a: { answer: 'yes' } }, 'yes']],
  ['numbers', { kind: 'numbers' }, [{ prediction: 4111111111111111 }, 4111111111111111], [{ prediction: 2 }, 1]],
])('figures of %s', async (_, settings, ...cases) => {
  for (const isFirst of [true, false]) {
    const plain = await measured(settings, cases, undefined, isFirst);
    for (const content of ['all', 'none'] as const) {
      const masked = await measured(settings, cases, masking({ ...OLD, fields: ['answer'], content }), isFirst);
      expect({ isFirst, content, figures: masked.figures }).toEqual({ isFirst, content, figures: plain.figures });
      expect(masked.rows).not.toMatch(/doe@|9018201|555.0123/);
    }
  }
});
