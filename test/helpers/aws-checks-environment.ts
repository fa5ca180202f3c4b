/** Jest's `globalSetup` of the template's tests: the Python environment of what AWS publishes, and no MLflow. */
import { lockedEnvironment } from '../../local/python/python-presets.ts';
import { withRetries } from './python-environments.ts';

export default (): Promise<void> => withRetries(() => lockedEnvironment('aws-checks', (line) => console.info(line)));
