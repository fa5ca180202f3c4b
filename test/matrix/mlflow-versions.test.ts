/** Other MLflow versions, each with the same tests. */
import { OTHER_MLFLOW_VERSIONS } from '../../local/python/python-presets.ts';
import { START_LIMIT_MS, startPlainMlflow } from '../helpers/mlflow-plain.ts';
import { testMlflow } from '../helpers/mlflow-suite.ts';

jest.setTimeout(60_000);

/** `MLFLOW_VERSIONS=3.14.0,3.15.2` tests these instead. */
const versions = process.env.MLFLOW_VERSIONS?.split(',') ?? [...OTHER_MLFLOW_VERSIONS];

describe.each(versions)('MLflow %s', (version) => {
  let mlflow: Awaited<ReturnType<typeof startPlainMlflow>>;
  beforeAll(async () => {
    mlflow = await startPlainMlflow(version);
  }, START_LIMIT_MS);
  afterAll(() => mlflow?.stop());

  test('is the one that runs', () => {
    expect(mlflow.version).toBe(version);
  });

  testMlflow(() => mlflow);
});
