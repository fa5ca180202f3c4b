/** `inference-monitor start`: runs the whole pipeline on this machine, as `npm start` does in a clone. */
import { passingOn, runInPlace } from '../cli/options.ts';

export default passingOn('start', (options) => runInPlace('local/start/start.ts', 'start', options));
