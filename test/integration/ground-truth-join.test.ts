/** The labels of `examples/tabular` and our captures of it, joined by pandas: the product joins the same pairs. */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { decodeLine } from '../../src/captures/decode.ts';
import { scanLines } from '../../src/captures/lines/scan-lines.ts';
import { traceIdOf } from '../../src/captures/trace/ids.ts';
import { logger } from '../../src/core/process/logging.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { classOf } from '../../src/ground-truth/label-value.ts';
import { ChunkPredictions } from '../../src/ground-truth/predictions/chunk-predictions.ts';
import type { Row } from '../../src/ledger/tables.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';
import { readAndJoin, stepsOn, tracedRow, truthFacts } from '../helpers/ground-truth.ts';

const inExample = (pattern: string): string[] => globSync(packagePath('examples', 'tabular', pattern)).toSorted();
const DAY_MS = 86_400_000;

test('captures and labels of several forms are joined as pandas joins them', async () => {
  jest.spyOn(logger, 'info').mockImplementation();
  const captures = inExample('garden-club/**/*.jsonl');
  const labels = inExample('labels/*');
  const memory = new MemoryStorage();
  const deps = stepsOn(memory.storage);
  const predictions = new ChunkPredictions(deps.environment);
  const traced: Row<'captures'>[] = [];
  for (const file of captures) {
    const key = file.slice(packagePath('examples', 'tabular').length + 1);
    for await (const { bytes, line, start, end } of scanLines(
      (async function* () {
        yield readFileSync(file);
      })(),
      1e6,
    )) {
      const place = { bucket: 'b', key, etag: 'e', line, start, end, objectTimeMs: 0 };
      const decoded = decodeLine({ bytes: bytes as Buffer, place });
      if (decoded.kind !== 'capture') continue;
      const traceId = traceIdOf('1', bytes as Buffer);
      predictions.add(decoded.capture, traceId, place);
      traced.push(tracedRow(traceId, key, decoded.capture.inferenceTimeMs));
    }
  }
  await predictions.write(memory.work, traced);
  for (const [day, file] of labels.entries()) {
    const key = `labels/${file.split('/').at(-1)}`;
    memory.objects.set(key, readFileSync(file));
    memory.writtenMs.set(key, Date.now() - DAY_MS * (labels.length - day));
  }
  await readAndJoin(deps, { bucket: 'b', prefix: 'labels/' });

  const { python } = await defaultPythonEnvironment();
  const input = JSON.stringify({ captures, labels });
  const pairs = JSON.parse(
    execFileSync(python, [packagePath('test', 'helpers', 'label_join.py')], { input, encoding: 'utf8' }),
  ) as Record<string, [string, string]>;
  const { rows, reports } = await truthFacts(memory.storage);
  const ours = Object.fromEntries(
    rows.map(({ id, label, prediction: { value } }) => [id, [classOf(label), Number(value)]]),
  );
  expect(ours).toEqual(
    Object.fromEntries(Object.entries(pairs).map(([id, [label, value]]) => [id, [classOf(label), Number(value)]])),
  );
  expect(rows.length).toBeGreaterThan(300);
  // Of the files together, a label of each prediction counts, and none is lost.
  const sum = (name: keyof (typeof reports)[number]['counts']): number =>
    reports.reduce((all, { counts }) => all + counts[name], 0);
  expect(sum('joined')).toBe(rows.length);
  expect(sum('replaced')).toBeGreaterThan(0);
  expect(sum('lines')).toBe(
    sum('joined') + sum('replaced') + sum('repeated') + sum('outdated') + sum('waiting') + sum('invalid'),
  );
});
