/** The figures of labels are the same with and without masking, whatever predictions and labels are. */

import { logger } from '../../../src/core/process/logging.ts';
import { REDACT_KINDS, type Redaction } from '../../../src/core/settings/redact-setting.ts';
import { measureTruth } from '../../../src/ground-truth/measure/measure.ts';
import { ChunkPredictions } from '../../../src/ground-truth/predictions/chunk-predictions.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { readAndJoin, stepsOn, tracedRow, truthFacts } from '../../helpers/ground-truth.ts';
import { decodedOf, jsonRecord, lineOf } from '../captures/arbitraries.ts';

beforeEach(() => {
  for (const level of ['info', 'warn'] as const) jest.spyOn(logger, level).mockImplementation();
});
afterEach(() => void jest.restoreAllMocks());

const masking = (content: 'all' | 'none'): Redaction => ({
  ...{ kinds: [...REDACT_KINDS], fields: ['answer'], patterns: [], allow: [] },
  ...{ content, key: 'a key', keyVersion: '1' },
});

type Case = [reply: unknown, label: unknown];

/** Labels that come before or after their captures, with the figures that follow. */
async function figuresOf(settings: object, cases: readonly Case[], redaction: Redaction | undefined, isFirst: boolean) {
  const memory = new MemoryStorage();
  const steps = stepsOn(memory.storage, { GROUND_TRUTH: JSON.stringify({ days: 400, ...settings }) });
  const deps = { ...steps, environment: { ...steps.environment, ...(redaction && { redaction }) } };
  memory.writtenMs.set('labels/f.jsonl', Date.now());
  memory.put('labels/f.jsonl', cases.map(([, label], at) => JSON.stringify({ id: `id-${at}`, label })).join('\n'));
  const join = () => readAndJoin(deps, { bucket: 'b', prefix: 'labels/' });
  if (isFirst) await join();
  const predictions = new ChunkPredictions(deps.environment);
  for (const [at, [reply]] of cases.entries()) {
    const record = jsonRecord({ x: 1 }, reply);
    Object.assign((record as { eventMetadata: object }).eventMetadata, { inferenceId: `id-${at}` });
    const capture = decodedOf(lineOf(record), redaction && { redaction });
    const key = 'captures/fern-house/blue/2026/03/04/05/file.jsonl';
    predictions.add(capture, `tr-${at}`, { bucket: 'b', key, etag: 'e', line: 1, start: 0, end: 1, objectTimeMs: 0 });
  }
  const before = new Set(memory.objects.keys());
  await predictions.write(
    { storage: memory.storage, workBucket: 'work' },
    cases.map((_, at) => tracedRow(`tr-${at}`)),
  );
  for (const key of memory.objects.keys()) if (!before.has(key)) memory.writtenMs.set(key, Date.now() + 60_000);
  await join();
  const { rows } = await truthFacts(memory.storage);
  const read = async function* () {
    yield* rows;
  };
  const { kind, groups } = await measureTruth(read, deps.environment.GROUND_TRUTH);
  const stored = JSON.stringify(rows);
  // Names of classes are masked.
  const figures = groups.map(({ compared, notCompared, measures }) => ({ kind, compared, notCompared, measures }));
  // Sums over classes are in the order of their names.
  const rounded = (_: string, value: unknown) => (typeof value === 'number' ? Number(value.toFixed(9)) : value);
  return { figures: JSON.stringify(figures, rounded), stored };
}

const said = (content: string) => ({ choices: [{ message: { role: 'assistant', content } }] });
const MAIL = 'jane.doe@example.com';
const PHONE = '030 9018201';

test.each<[string, object, Case[]]>([
  [
    'short texts',
    { kind: 'texts', prediction: 'reply' },
    [
      [{ reply: 'yes' }, 'yes'],
      [{ reply: MAIL }, MAIL],
    ],
  ],
  [
    'texts in other notations',
    { kind: 'texts' },
    [
      [said('To JANE.DOE@example.com'), `To ${MAIL}`],
      [said(MAIL), MAIL],
    ],
  ],
  ['phones in other notations', { kind: 'texts' }, [[said('At +1 212 555 0123'), 'At (212) 555-0123']]],
  [
    'classes with an item',
    { kind: 'classes' },
    [
      [{ label: MAIL, score: 0.9 }, MAIL],
      [{ label: 'no', score: 0.8 }, 'yes'],
    ],
  ],
  ['values whose name announces them', { kind: 'classes', prediction: 'phone' }, [[{ phone: PHONE }, PHONE]]],
  ['texts whose name announces them', { kind: 'texts', prediction: 'phone' }, [[{ phone: PHONE }, PHONE]]],
  [
    'values of a masked field',
    { kind: 'classes', prediction: 'answer' },
    [
      [{ answer: 'yes' }, 'yes'],
      [{ answer: 'no' }, 'yes'],
    ],
  ],
  ['nested values of a masked field', { kind: 'classes', prediction: 'a.answer' }, [[{ a: { answer: 'yes' } }, 'yes']]],
  [
    'numbers',
    { kind: 'numbers' },
    [
      [{ prediction: 4111111111111111 }, 4111111111111111],
      [{ prediction: 2 }, 1],
    ],
  ],
])('%s', async (_, settings, cases) => {
  for (const isFirst of [true, false]) {
    const { figures } = await figuresOf(settings, cases, undefined, isFirst);
    for (const content of ['all', 'none'] as const) {
      const masked = await figuresOf(settings, cases, masking(content), isFirst);
      expect({ isFirst, content, figures: masked.figures }).toEqual({ isFirst, content, figures });
      expect(masked.stored).not.toMatch(/doe@|9018201|555.0123/);
    }
  }
});
