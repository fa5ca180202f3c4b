/** `inference-monitor deploy`: deploys the stack with the CDK, from the package or from a clone. */
import { runCdk } from '../cli/cdk.ts';
import { passingOn } from '../cli/options.ts';

export default passingOn('deploy', (options) => runCdk('deploy', options));
