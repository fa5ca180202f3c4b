/** A run without a summary, added up from its receipts. */
import { summarySoFar } from '../../../../bin/operate/run-report.ts';
import { GeneratedRun } from '../../../helpers/generated-run.ts';

test('of a run without a summary no files’ reports are written, kept or named', async () => {
  const generated = new GeneratedRun(12_000);
  const { files: _, ...expected } = generated.expected();
  const soFar = await summarySoFar(
    { storage: generated.storage, workBucket: 'work' },
    { name: generated.run.name },
    false,
  );
  expect(soFar?.summary).toMatchObject(expected);
  expect(soFar?.summary.files).toBeUndefined();
  expect(generated.fileLines).toBe(0);
});
