/** Every fault against every MLflow version. `FAULT_MLFLOW_VERSIONS=3.9.0,3.13.0` tests these alone. */
import { DEFAULT_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import { FaultPipeline } from '../helpers/fault-pipeline.ts';
import {
  testJudgeFaults,
  testKillsAndTwins,
  testLastingMlflowFaults,
  testPassingMlflowFaults,
  testPersons,
  testPoison,
  testStorageFaults,
} from '../helpers/fault-suite.ts';
import { START_LIMIT_MS } from '../helpers/mlflow-plain.ts';

/** A run of the slowest takes some 20 s on an idle machine: the restart of MLflow, or 230 traces by REST. */
jest.setTimeout(180_000);

const versions = process.env.FAULT_MLFLOW_VERSIONS?.split(',') ?? ['3.9.0', '3.10.1', '3.13.0', DEFAULT_MLFLOW_VERSION];

describe.each(versions)('with MLflow %s', (version) => {
  let pipeline: FaultPipeline;
  const get = () => pipeline;

  beforeAll(async () => {
    pipeline = await FaultPipeline.start(version);
  }, START_LIMIT_MS);
  afterAll(() => pipeline?.stop());
  afterEach(() => pipeline.heal());

  test('is the version that runs', () => {
    expect(pipeline.version).toBe(version);
  });

  describe('MLflow that fails for a moment', () => testPassingMlflowFaults(get));
  describe('MLflow that fails for longer', () => testLastingMlflowFaults(get));
  describe('a poisonous record', () => testPoison(get));
  describe('S3', () => testStorageFaults(get));
  describe('the judge', () => testJudgeFaults(get));
  describe('killed and twin runs', () => testKillsAndTwins(get));
  describe('persons', () => testPersons(get));
});
