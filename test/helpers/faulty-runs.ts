/** A deployed stack with proxies that inject faults. Each test file that imports this starts its own. */
import type { Outcome } from './deployed-pipeline.ts';
import { expectEquations, expectNothingDoubled, linesOf } from './fault-expectations.ts';
import type { Count } from './fault-reader.ts';
import { FaultyEnvironment } from './faulty-environment.ts';

export let faulty: FaultyEnvironment;

beforeAll(async () => {
  faulty = await FaultyEnvironment.start({ endpoint: 'faulty-endpoint' });
  // The tests start every execution themselves, with the fault in place.
  await faulty.pipeline.disableRule();
});
afterAll(() => faulty?.stop());
afterEach(() => faulty.heal());

/** Uploads a file without starting an execution. */
export async function stage(name: string, lines: readonly string[] = linesOf(name)): Promise<string> {
  const key = faulty.key(name);
  await faulty.pipeline.put(key, lines);
  return key;
}

export const run = (key: string, options: object = {}): Promise<Outcome> =>
  faulty.pipeline.run(faulty.pipeline.event(key, options));

/** Expects that the execution succeeded, both equations hold, and every record of the file is in MLflow exactly once. */
export async function expectWhole({ name, status, error, cause, summary }: Outcome, key: string): Promise<Count> {
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  expect(summary?.equations).toEqual({ lines: true, verdicts: true });
  expectEquations({ equations: await faulty.equations(name) });
  const count = await faulty.count([key]);
  expectNothingDoubled(count);
  expect(count).toMatchObject({ missing: [], tokens: count.expectedTokens, traced: count.records });
  return count;
}
