/** A replay's MLflow run: its place, and how to find it. */
import type { Execution } from '../../core/contract/execution.ts';
import type { ReplayInput } from '../../core/contract/replay.ts';

/** Whether a replay has a run. A judge needs a run too, because its verdicts are in MLflow. */
export const isLogged = ({ mlflow = false, judge = false }: Pick<ReplayInput, 'mlflow' | 'judge'>): boolean =>
  mlflow || judge;

/** The tags that identify the run of an execution. */
export const runTags = ({ name, arn }: Pick<Execution, 'name' | 'arn'>): Record<string, string> => ({
  replay_run: name,
  // Executions of another stack may have the same name.
  replay_execution: arn,
  'mlflow.source.name': arn,
  'mlflow.source.type': 'JOB',
});

/**
 * The name of the experiment that replays are logged to.
 *
 * @param asked the experiment that the replay's input names
 * @param captures the experiment with the captures' traces
 */
export const replaysExperiment = (asked: string | undefined, captures: string): string =>
  asked ?? `${captures}-replays`;
