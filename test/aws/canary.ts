/** The canary under way: its clients, its stack, and what it has found. */
import { setTimeout as sleep } from 'node:timers/promises';
import { DescribeExecutionCommand, GetExecutionHistoryCommand, StartExecutionCommand } from '@aws-sdk/client-sfn';
import type { startProgress } from '../../bin/cli/progress.ts';
import { type AwsClients, environmentClients } from '../../bin/operate/aws-clients.ts';
import { readStackOutputs } from '../../bin/operate/stack-outputs.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { StackOutputs } from '../../src/core/contract/names.ts';
import { ASSERTION_IDS, type AssertionId, assertionOf, type StepName } from './assertions.ts';
import { readRunSummary } from './smoke-steps.ts';
import { type CanaryFinding, type CanaryState, saveState } from './state.ts';

const POLL_MS = 1_000;
const EXECUTION_LIMIT_MS = 15 * 60_000;

/** An execution that has ended. */
export type Ended = Awaited<ReturnType<Canary['ended']>>;

export class Canary {
  readonly state: CanaryState;
  readonly clients: AwsClients = environmentClients();
  readonly storage = new Storage(this.clients.s3);
  readonly progress: ReturnType<typeof startProgress>;
  readonly signal: AbortSignal;
  /** Whether AWS is an emulator. Assertions that it cannot show are skipped. */
  readonly emulated = Boolean(process.env.AWS_ENDPOINT_URL);
  #outputs: Promise<StackOutputs> | undefined;

  constructor(state: CanaryState, progress: ReturnType<typeof startProgress>, signal: AbortSignal) {
    this.state = state;
    this.progress = progress;
    this.signal = signal;
  }

  outputs(): Promise<StackOutputs> {
    this.#outputs ??= readStackOutputs(this.clients.lambda, this.state.prefix);
    return this.#outputs;
  }

  async machine(which: 'stateMachineArn' | 'replayStateMachineArn'): Promise<string> {
    return (await this.outputs())[which];
  }

  /** Records whether an assertion was seen, with the figures that show it. */
  note(id: AssertionId, seen: boolean, detail: string): void {
    if (!this.cannotSee(id)) this.#find(id, { outcome: seen ? 'seen' : 'failed', detail });
  }

  skip(id: AssertionId, reason: string): void {
    this.#find(id, { outcome: 'skipped', detail: reason });
  }

  /** Whether the emulator cannot show the assertions, which are then skipped. */
  cannotSee(...ids: AssertionId[]): boolean {
    const reasons = ids.flatMap((id) => assertionOf(id).emulator ?? []);
    if (!this.emulated || reasons.length === 0) return false;
    for (const [index, id] of ids.entries()) this.skip(id, reasons[index] ?? '');
    return true;
  }

  /** Gives every assertion of a step that has no finding yet the same one. */
  rest(step: StepName, finding: CanaryFinding): void {
    for (const id of ASSERTION_IDS) {
      if (assertionOf(id).step === step && this.state.findings[id] === undefined) this.#find(id, finding);
    }
  }

  #find(id: AssertionId, finding: CanaryFinding): void {
    this.state.findings[id] = finding;
    this.progress.log(`${finding.outcome.padEnd(7)}  ${assertionOf(id).text}: ${finding.detail}`);
    this.save();
  }

  fact(name: string, value?: string): string {
    if (value !== undefined) {
      this.state.facts[name] = value;
      this.save();
    }
    return this.state.facts[name] ?? '';
  }

  save(): void {
    saveState(this.state);
  }

  /** Starts an execution. @returns its ARN */
  async start(machine: string, input: object, name?: string): Promise<string> {
    const { executionArn = '' } = await this.clients.sfn.send(
      new StartExecutionCommand({ stateMachineArn: machine, input: JSON.stringify(input), name }),
    );
    return executionArn;
  }

  async ended(arn: string, limitMs = EXECUTION_LIMIT_MS) {
    const facts = await this.until(`the end of ${arn.split(':').at(-1)}`, limitMs, async () => {
      const state = await this.clients.sfn.send(new DescribeExecutionCommand({ executionArn: arn }));
      return state.status === 'RUNNING' ? undefined : state;
    });
    const { name = '', status = '', error = '', startDate } = facts;
    const { workBucket } = await this.outputs();
    const summary = await readRunSummary(this.clients, workBucket, name);
    return { name, arn, status, error, startedMs: startDate?.getTime() ?? 0, summary };
  }

  /** Returns the errors of the tasks of an execution, in order. */
  async taskErrors(arn: string): Promise<string[]> {
    const { events = [] } = await this.clients.sfn.send(
      new GetExecutionHistoryCommand({ executionArn: arn, maxResults: 1000 }),
    );
    return events.flatMap(({ taskFailedEventDetails }) => taskFailedEventDetails?.error ?? []);
  }

  /** @throws Error after the time limit, which names what did not happen */
  async until<T>(what: string, limitMs: number, probe: () => Promise<T | undefined>): Promise<T> {
    const deadline = Date.now() + limitMs;
    for (;;) {
      this.signal.throwIfAborted();
      const found = await probe();
      if (found !== undefined) return found;
      if (Date.now() > deadline) throw new Error(`waited ${Math.round(limitMs / 1000)} s for ${what}`);
      await sleep(this.emulated ? POLL_MS / 4 : POLL_MS * 3, undefined, { signal: this.signal }).catch(() => {});
    }
  }
}
