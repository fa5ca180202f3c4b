/** Runs the MLflow tests with other versions. */
import { OTHER_MLFLOW_VERSIONS } from '../../local/python/python-presets.ts';
import { startPlainMlflow } from '../helpers/mlflow-plain.ts';
import { testMlflow } from '../helpers/mlflow-suite.ts';

/** `MLFLOW_VERSIONS=3.14.0,3.15.2` replaces the tested versions. */
const versions = process.env.MLFLOW_VERSIONS?.split(',') ?? [...OTHER_MLFLOW_VERSIONS];

describe.each(versions)('MLflow %s', (version) => {
  let mlflow: Awaited<ReturnType<typeof startPlainMlflow>>;
  beforeAll(async () => {
    mlflow = await startPlainMlflow(version);
  });
  afterAll(() => mlflow?.stop());

  test('runs in the expected version', () => {
    expect(mlflow.version).toBe(version);
  });

  testMlflow(() => mlflow);
});
