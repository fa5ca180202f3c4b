/** Labels in an MLflow without review queues. */
import { MANAGED_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import { Calibration } from '../helpers/calibration.ts';
import { testPeopleAndJudge } from '../helpers/people-and-judge.ts';

let calibration: Calibration;
beforeAll(async () => {
  calibration = await Calibration.start();
});
afterAll(() => calibration?.stop());

testPeopleAndJudge(MANAGED_MLFLOW_VERSION, () => calibration);
