/** What the commands about monitoring runs say of cloud replays. */
import { PermanentError } from '../../src/core/errors/errors.ts';

/** The error of a command that knows only monitoring runs. */
export const isReplay = (run: string): PermanentError =>
  new PermanentError('NotAMonitoringRun', 'The run is a cloud replay', {
    got: run,
    expected: 'a monitoring run; for replays there are inference-monitor runs --replays, stop and compare',
  });
