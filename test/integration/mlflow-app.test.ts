/** An App of the oldest and of the newest MLflow that SageMaker offers. Those between are slow tests. */
import { APP_MLFLOW_VERSIONS } from '../../local/python/python-presets.ts';
import { testApps } from '../helpers/mlflow-app-suite.ts';

testApps([APP_MLFLOW_VERSIONS[0], APP_MLFLOW_VERSIONS.at(-1) ?? '']);
