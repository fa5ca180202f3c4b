/** Apps of the MLflow versions that SageMaker offers. */
import { APP_MLFLOW_VERSIONS } from '../../local/python/python-presets.ts';
import { testApps } from '../helpers/mlflow-app-suite.ts';

testApps(APP_MLFLOW_VERSIONS);
