/** Stopping replays on a deployed stack, and what brings them to their end. */
import { ListExecutionsCommand, ListMapRunsCommand, StopExecutionCommand } from '@aws-sdk/client-sfn';
import { replayState } from '../../src/replay/cloud/stop/stop-replay.ts';
import { Storage } from '../../src/shared/storage.ts';
import type { DeployedReplay } from './deployed-replay.ts';
import { type CliResult, runCli } from './replay.ts';

export class DeployedStop {
  readonly #replays: DeployedReplay;

  constructor(replays: DeployedReplay) {
    this.#replays = replays;
  }

  /** As a person does in the console, with the execution of a replay. */
  async stop(executionArn: string): Promise<void> {
    await this.#replays.environment.clients.sfn.send(new StopExecutionCommand({ executionArn }));
  }

  /** Waits until the rule has had the function called for a replay that was stopped, and that has made the results. */
  async summarized(run: string): Promise<void> {
    const { environment, outputs } = this.#replays;
    const storage = new Storage(environment.clients.s3);
    await this.#replays.until(`the results of ${run}`, async () =>
      (await replayState(storage, outputs.workBucket, run, false)).end === 'summarized' ? true : undefined,
    );
  }

  /** Calls that function by hand, as for an event that came twice. */
  async again(executionArn: string, status = 'ABORTED'): Promise<unknown> {
    const { error, payload } = await this.#replays.invoke('replayStopper', { detail: { executionArn, status } });
    return error ?? payload;
  }

  /** `inference-monitor stop`. */
  command(run: string): Promise<CliResult> {
    const { environment, prefix } = this.#replays;
    return runCli(['stop', run, '--prefix', prefix], environment.ministack.env);
  }

  /** Waits for the children of a replay's Map, which the emulator lets go on when their execution is stopped. */
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
