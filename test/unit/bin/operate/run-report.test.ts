/** A run without a summary, added up from its receipts. */
import { summarySoFar } from '../../../../bin/operate/run-report.ts';
import { GeneratedRun } from '../../../helpers/generated-run.ts';

test('a run without a summary is the sum of its receipts', async () => {
  const generated = new GeneratedRun(12_000);
  const soFar = await summarySoFar(
    { storage: generated.storage, workBucket: 'work' },
    { name: generated.run.name },
    false,
  );
  expect(soFar?.summary).toMatchObject(generated.expected());
});
