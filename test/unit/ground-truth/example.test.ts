/** The captures and labels of `examples/tabular`, through the ledger, the join and the figures. */

import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { filesBelow } from '../../../bin/operate/capture-files.ts';
import { truthFigures, waitingLabels } from '../../../bin/operate/truth-run.ts';
import { decodeLine } from '../../../src/captures/decode.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { dotenvSettings } from '../../../src/core/settings/dotenv-file.ts';
import { pageText } from '../../../src/core/text/page.ts';
import type { TruthFigures, TruthGroup } from '../../../src/ground-truth/measure/figures.ts';
import { truthPage } from '../../../src/ground-truth/measure/figures-page.ts';
import type { TruthQuery } from '../../../src/ground-truth/measure/measure.ts';
import { ChunkPredictions } from '../../../src/ground-truth/predictions/chunk-predictions.ts';
import type { Row } from '../../../src/ledger/tables.ts';
import { decodeOptions } from '../../../src/monitoring/chunk/decode-lines.ts';
import { localFiles } from '../../../src/replay/source/open-source.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { readAndJoin, stepsOn, tracedRow, truthFacts } from '../../helpers/ground-truth.ts';

const EXAMPLE = packagePath('examples', 'tabular');
const memory = new MemoryStorage();
const { storage } = memory;
const deps = stepsOn(storage, dotenvSettings(join(EXAMPLE, 'settings.env')));
const { environment } = deps;

beforeAll(async () => {
  // A label waits for 30 days.
  jest.spyOn(Date, 'now').mockReturnValue(Date.parse('2026-12-06'));
  const predictions = new ChunkPredictions(environment);
  const traced: Row<'captures'>[] = [];
  for (const { path } of await localFiles(EXAMPLE)) {
    for (const [n, text] of readFileSync(path, 'utf8').trimEnd().split('\n').entries()) {
      const key = relative(EXAMPLE, path);
      const place = { bucket: 'b', key, etag: 'e', line: n + 1, start: 0, end: 1, objectTimeMs: 0 };
      const line = decodeLine({ bytes: Buffer.from(text), place }, decodeOptions(environment));
      if (line.kind !== 'capture') throw new Error(line.reason.message);
      const traceId = `tr-${path}:${n}`;
      predictions.add(line.capture, traceId, place);
      traced.push(tracedRow(traceId, key, line.capture.inferenceTimeMs));
    }
  }
  await predictions.write(memory.work, traced);
  for (const path of await filesBelow(join(EXAMPLE, 'labels'), () => true)) {
    const key = `labels/${relative(EXAMPLE, path)}`;
    memory.put(key, readFileSync(path, 'utf8'));
    // One after the other, and each run before the next file is written.
    memory.writtenMs.set(key, Date.parse('2026-12-05') + memory.objects.size);
    await readAndJoin(deps, { bucket: 'b', key });
  }
});

test('each line of the labels has the outcome that the README says', async () => {
  const { reports } = await truthFacts(storage);
  const sum = (name: keyof (typeof reports)[0]['counts']): number =>
    reports.reduce((all, { counts }) => all + counts[name], 0);
  expect((['lines', 'joined', 'repeated', 'replaced', 'outdated'] as const).map(sum)).toEqual([497, 489, 5, 1, 0]);
  expect((['waiting', 'unknown', 'ambiguous', 'invalid'] as const).map(sum)).toEqual([1, 0, 0, 1]);
  const [letters] = reports.filter(({ key }) => key.includes('letters'));
  expect(letters?.faults).toEqual([expect.objectContaining({ line: 91, name: 'NotALabel' })]);
  expect(letters?.replacedLabels).toEqual([{ line: 237, id: 'renewal-682b4650ce_0', from: 0, to: 1 }]);
  expect(await waitingLabels(memory.work)).toMatchObject({
    labels: 1,
    files: 1,
    more: false,
  });
});

const figures = (query: TruthQuery) => truthFigures(memory.work, environment.GROUND_TRUTH, query);

/** Rows by label and prediction, 0 before 1, as a script of a few lines counts them from the files. */
const CONFUSION = { blue: [128, 21, 32, 60], green: [137, 17, 15, 79] };

test.each(Object.entries(CONFUSION))('%s is as good as it was made', async (variant, cells) => {
  const found = await figures({ by: 'variant', variant });
  const [only] = found?.groups ?? [];
  expect(only?.classes?.confusion.map(({ count }) => count)).toEqual(cells);
  expect(only?.rows).toBe(cells.reduce((sum, count) => sum + count));
});

test('the comparison of groups shows whom blue misses', async () => {
  const found = await figures({ by: 'variant' });
  const missed = ({ groups }: TruthGroup) =>
    groups?.age_group
      ?.filter(({ difference }) => (difference?.truePositiveRate.high ?? 0) < 0)
      .map(({ value }) => value);
  const missedBy = found?.groups.map(({ group, ...figures }) => `${group} ${missed(figures as TruthGroup)}`);
  expect(missedBy).toEqual(['blue 60+', 'green ']);
});

describe('the table', () => {
  const textOf = async (by: 'hour' | 'variant'): Promise<string> => {
    return pageText(truthPage((await figures({ by })) as TruthFigures, by));
  };

  test('compares variants in a row each, and has the details of each below, in a pipe', async () => {
    const text = await textOf('variant');
    expect(text).toMatch(
      /^The model predicts classes: GROUND_TRUTH says so\. A probability of 0\.5 or more counts as 1\./,
    );
    expect(text).toMatch(/^variant {2}labels {2}accuracy {16}precision .* AUC$/m);
    expect(text).toMatch(/^blue {8}241 {2}78\.0% \(72\.\d% to 82\.8%\) /m);
    expect(text).toMatch(
      /^── variant green ──\n── .* ──\nlabel {5}→ 0 {2}→ 1 {2}precision .*\n0 {9}137 {3}17 {2}90\.1% /m,
    );
    expect(text).toMatch(/^60\+ +43 {2}18\.6% .* 26\.7% \(10\.9% to 52\.0%\) +-34\.0 \(-60\.2 to -1\.5\), lower$/m);
  });

  test('says that an AUC is that of a sample', async () => {
    const found = await figures({});
    const { classes } = found?.groups[0] ?? {};
    if (classes !== undefined) classes.scored.rows = 1_000_000;
    const text = pageText(truthPage(found as TruthFigures, undefined));
    expect(text).toMatch(/^AUC: of a random sample of 489 of 1,000,000 rows with scores$/m);
  });

  test('has a row for each hour, and no details', async () => {
    const text = await textOf('hour');
    expect(text).toMatch(/^hour {11}labels {2}accuracy/m);
    expect(text.match(/^2026-11-\d\dT\d\d /gm)).toHaveLength(6);
    expect(text).not.toContain('→');
  });
});
