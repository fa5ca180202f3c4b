/** Jest's `globalSetup` of the template's tests: the Python environment of what AWS publishes, and no MLflow. */
import { awsChecksEnvironment } from './check-environments.ts';
import { withRetries } from './python-environments.ts';

export default (): Promise<void> => withRetries(() => awsChecksEnvironment((line) => console.info(line)));
