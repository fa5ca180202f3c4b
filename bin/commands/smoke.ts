/** `inference-monitor smoke`: sends one capture through the deployed stack, and reports each step. */
import { passingOn, runInPlace } from '../cli/options.ts';

export default passingOn('smoke', (options) => runInPlace('test/aws/smoke.ts', 'smoke', options));
