/** Stops replays on a deployed stack, and waits for their results. */
import { ListExecutionsCommand, ListMapRunsCommand, StopExecutionCommand } from '@aws-sdk/client-sfn';
import { replayState } from '../../src/replay/cloud/summarize/stop-shards.ts';
import type { DeployedReplay } from './deployed-replay.ts';
import { type CliResult, runCli } from './replay.ts';

export class DeployedStop {
  readonly #replays: DeployedReplay;

  constructor(replays: DeployedReplay) {
    this.#replays = replays;
  }

  /** Stops the execution of a replay, as a user does in the console. */
  async stop(executionArn: string): Promise<void> {
    await this.#replays.environment.clients.sfn.send(new StopExecutionCommand({ executionArn }));
  }

  /** Waits until the event rule has called SummarizeReplay and the results are written. */
  async summarized(run: string): Promise<void> {
    const { storage, outputs } = this.#replays;
    await this.#replays.until(`the results of ${run}`, async () =>
      (await replayState(storage, outputs.workBucket, run, false)).end === 'summarized' ? true : undefined,
    );
  }

  /** Calls SummarizeReplay directly, as for a duplicate event. */
  async again(executionArn: string, status = 'ABORTED'): Promise<unknown> {
    const { error, payload } = await this.#replays.invoke('replaySummarizer', { detail: { executionArn, status } });
    return error ?? payload;
  }

  /** `inference-monitor stop`. */
  command(run: string): Promise<CliResult> {
    const { environment, prefix } = this.#replays;
    return runCli(['stop', run, '--stack', prefix], environment.ministack.env);
  }

  /** Waits for the children of a replay's Map. The emulator does not stop them with their execution. */
  async childrenEnded(replayArn: string): Promise<void> {
    const { sfn } = this.#replays.environment.clients;
    await this.#replays.until(`the children of ${replayArn}`, async () => {
      const { mapRuns = [] } = await sfn.send(new ListMapRunsCommand({ executionArn: replayArn }));
      for (const { mapRunArn } of mapRuns) {
        const { executions = [] } = await sfn.send(new ListExecutionsCommand({ mapRunArn }));
        if (executions.some(({ status }) => status === 'RUNNING')) return undefined;
      }
      return true;
    });
  }
}
