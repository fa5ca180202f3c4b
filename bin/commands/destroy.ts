/** `inference-monitor destroy`: removes the stack with the CDK, from the package or from a clone. */
import { runCdk } from '../cli/cdk.ts';
import { passingOn } from '../cli/options.ts';

export default passingOn('destroy', (options) => runCdk('destroy', options));
