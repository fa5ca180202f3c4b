/** What a replay's run in MLflow is found by. */
import type { Execution } from '../../contract/execution.ts';

export const runTags = ({ name, arn }: Pick<Execution, 'name' | 'arn'>): Record<string, string> => ({
  replay_run: name,
  // Another stack's executions may have the same name.
  replay_execution: arn,
  'mlflow.source.name': arn,
  'mlflow.source.type': 'JOB',
});

/** @param asked by the replay's input @param captures name of the experiment with the captures' traces */
export const replaysExperiment = (asked: string | undefined, captures: string): string =>
  asked ?? `${captures}-replays`;
