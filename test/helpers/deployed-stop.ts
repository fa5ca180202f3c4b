/** Stopping replays on a deployed stack, and the state machine that brings them to their end. */
import {
  DescribeExecutionCommand,
  ListExecutionsCommand,
  ListMapRunsCommand,
  StopExecutionCommand,
} from '@aws-sdk/client-sfn';
import { resourceNames } from '../../lambda/contract.ts';
import { DeployedPipeline, type Outcome } from './deployed-pipeline.ts';
import type { DeployedReplay } from './deployed-replay.ts';

export class DeployedStop extends DeployedPipeline {
  constructor({ environment, prefix, outputs }: DeployedReplay) {
    const { replayStateMachine, replayStopStateMachine } = resourceNames(prefix);
    const stateMachineArn = outputs.stateMachineArn.replace(replayStateMachine, replayStopStateMachine);
    super(environment, prefix, { ...outputs, stateMachineArn });
  }

  /** As a person does, with the execution of a replay. */
  async stop(executionArn: string): Promise<void> {
    await this.environment.clients.sfn.send(new StopExecutionCommand({ executionArn }));
  }

  /** The executions that bring a replay to its end, whoever started them. */
  async endings(replayArn: string): Promise<string[]> {
    const { sfn } = this.environment.clients;
    const { stateMachineArn } = this.outputs;
    const { executions = [] } = await sfn.send(new ListExecutionsCommand({ stateMachineArn }));
    const found: string[] = [];
    for (const { executionArn = '' } of executions) {
      const { input = '{}' } = await sfn.send(new DescribeExecutionCommand({ executionArn }));
      const { detail } = JSON.parse(input) as { detail?: { executionArn?: string } };
      if (detail?.executionArn === replayArn) found.push(executionArn);
    }
    return found;
  }

  /** Waits until EventBridge has started the one for a replay, and until that has ended. */
  async ending(replayArn: string): Promise<Outcome> {
    const arn = await this.until(`what ends ${replayArn}`, async () => (await this.endings(replayArn))[0]);
    return this.ended(arn);
  }

  /** As a person does when no event has come. */
  endByHand(replayArn: string): Promise<Outcome> {
    return this.run({ detail: { status: 'ABORTED', executionArn: replayArn } });
  }

  /** Waits for the children of a replay's Map, which the emulator lets go on when their execution is stopped. */
  async childrenEnded(replayArn: string): Promise<void> {
    const { sfn } = this.environment.clients;
    await this.until(`the children of ${replayArn}`, async () => {
      const { mapRuns = [] } = await sfn.send(new ListMapRunsCommand({ executionArn: replayArn }));
      for (const { mapRunArn } of mapRuns) {
        const { executions = [] } = await sfn.send(new ListExecutionsCommand({ mapRunArn }));
        if (executions.some(({ status }) => status === 'RUNNING')) return undefined;
      }
      return true;
    });
  }
}
