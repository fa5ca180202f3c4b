/** A deployed stack for tests: uploads files, starts executions, waits for them, and reads their results. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import {
  DeleteFunctionConcurrencyCommand,
  GetFunctionConfigurationCommand,
  InvokeCommand,
  PutFunctionConcurrencyCommand,
  UpdateFunctionConfigurationCommand,
} from '@aws-sdk/client-lambda';
import {
  DescribeExecutionCommand,
  GetExecutionHistoryCommand,
  type HistoryEvent,
  ListExecutionsCommand,
  ListMapRunsCommand,
  StartExecutionCommand,
} from '@aws-sdk/client-sfn';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { removeObject } from '../../src/core/aws/remove-object.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { FilesInput, ListedFile } from '../../src/core/contract/input.ts';
import { resourceNames, type StackOutputs } from '../../src/core/contract/names.ts';
import type { Receipt } from '../../src/core/contract/receipts.ts';
import { areaOf } from '../../src/core/contract/work-keys.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { readRunSummary } from '../aws/smoke-steps.ts';
import { runningProcesses } from './deployed-processes.ts';
import { emulated } from './emulated.ts';
import type { LocalEnvironment } from './local-environment.ts';

export interface Outcome {
  name: string;
  arn: string;
  status: string;
  error?: string;
  cause?: string;
  input?: unknown;
  output?: unknown;
  summary?: RunSummary;
}

/** Functions that tests use, by their names in `resourceNames`. */
export type FunctionKey =
  | 'starter'
  | 'planner'
  | 'processor'
  | 'batcher'
  | 'evaluator'
  | 'replayPlanner'
  | 'replayer'
  | 'replaySummarizer'
  | 'joiner'
  | 'forwarder'
  | 'otlpSender';

const POLL_MS = 150;
/** An execution in the emulator takes a second or two. The limit allows for retries and a busy machine. */
const LIMIT_MS = 240_000;

export class DeployedPipeline {
  readonly environment: LocalEnvironment;
  readonly prefix: string;
  readonly outputs: StackOutputs;
  readonly #lists = new Map<string, string[]>();

  constructor(environment: LocalEnvironment, prefix: string, outputs: StackOutputs) {
    this.environment = environment;
    this.prefix = prefix;
    this.outputs = outputs;
  }

  get storage(): Storage {
    return new Storage(this.environment.clients.s3);
  }

  async put(key: string, lines: readonly string[]): Promise<void> {
    await this.storage.putText(this.outputs.captureBucket, key, lines.map((line) => `${line}\n`).join(''));
  }

  /** Writes JSON to the work bucket. */
  async putWork(key: string, value: unknown): Promise<void> {
    await this.storage.putJson(this.outputs.workBucket, key, value);
  }

  /** Lists the keys of a prefix in the work bucket. */
  async keysUnder(prefix: string): Promise<string[]> {
    return (await Array.fromAsync(this.storage.list(this.outputs.workBucket, prefix))).map(({ key }) => key);
  }

  /** Deletes the objects of a prefix in the work bucket. */
  async deleteWork(prefix: string): Promise<void> {
    const keys = await this.keysUnder(prefix);
    await Promise.all(keys.map((key) => removeObject(this.storage, this.outputs.workBucket, key)));
  }

  /** Lists the executions that started by themselves for an object, running or ended. */
  async executionsOf(key: string): Promise<Outcome[]> {
    const { sfn } = this.environment.clients;
    const reply = await sfn.send(new ListExecutionsCommand({ stateMachineArn: this.outputs.stateMachineArn }));
    const found: Outcome[] = [];
    for (const { executionArn } of reply.executions ?? []) {
      const facts = await sfn.send(new DescribeExecutionCommand({ executionArn }));
      if ((await this.#keysIn(facts.input)).includes(key)) {
        found.push({ name: facts.name ?? '', arn: executionArn ?? '', status: facts.status ?? '' });
      }
    }
    return found;
  }

  /** Reads the keys of the files for which an execution started by itself. */
  async keysOf(executionArn: string): Promise<string[]> {
    const { input } = await this.environment.clients.sfn.send(new DescribeExecutionCommand({ executionArn }));
    return this.#keysIn(input);
  }

  /** Reads the keys of the files that an input lists; none for another input. */
  async #keysIn(input = '{}'): Promise<string[]> {
    const { files } = JSON.parse(input) as Partial<FilesInput>;
    return files === undefined ? [] : this.#listed(files.key);
  }

  /** Reads the keys in a list of the starter, which never changes. */
  async #listed(list: string): Promise<string[]> {
    const known = this.#lists.get(list);
    if (known !== undefined) return known;
    const files = await this.storage.getJsonLines<ListedFile>(this.outputs.workBucket, list);
    const keys = files.map(({ key }) => key);
    this.#lists.set(list, keys);
    return keys;
  }

  /** Uploads a file, and waits for the execution that the rule starts for it. */
  async process(key: string, lines: readonly string[]): Promise<Outcome> {
    const before = new Set((await this.executionsOf(key)).map((one) => one.arn));
    await this.put(key, lines);
    const started = await this.until(`an execution for ${key}`, async () =>
      (await this.executionsOf(key)).find((one) => !before.has(one.arn)),
    );
    return this.ended(started.arn);
  }

  /** @param name the name of the execution; by default, Step Functions chooses one */
  async start(input: unknown, name?: string): Promise<string> {
    const { stateMachineArn } = this.outputs;
    const { executionArn } = await this.environment.clients.sfn.send(
      new StartExecutionCommand({ stateMachineArn, input: JSON.stringify(input), name }),
    );
    return executionArn ?? '';
  }

  async run(input: unknown, limitMs?: number): Promise<Outcome> {
    return this.ended(await this.start(input), limitMs);
  }

  /** Returns the input that the rule would send. */
  event(key: string, more: object = {}): object {
    return { detail: { bucket: { name: this.outputs.captureBucket }, object: { key } }, ...more };
  }

  async ended(arn: string, limitMs?: number): Promise<Outcome> {
    const { sfn } = this.environment.clients;
    const facts = await this.until(
      `the end of ${arn}`,
      async () => {
        const state = await sfn.send(new DescribeExecutionCommand({ executionArn: arn }));
        return state.status === 'RUNNING' ? undefined : state;
      },
      limitMs,
    );
    const name = facts.name ?? '';
    const summary = await readRunSummary(this.environment.clients, this.outputs.workBucket, name);
    return {
      name,
      arn,
      status: facts.status ?? '',
      error: facts.error,
      cause: facts.cause,
      input: facts.input === undefined ? undefined : JSON.parse(facts.input),
      output: facts.output === undefined ? undefined : JSON.parse(facts.output),
      summary,
    };
  }

  /** Lists the errors of the tasks in a run’s chunks in order, retried or not, and of its own tasks. */
  async chunkErrors(arn: string): Promise<string[]> {
    return (await this.childHistories(arn)).flatMap(taskErrors);
  }

  /** Counts the calls of a function by a run and the children of its Maps, including retries. */
  async childCalls(arn: string, which: FunctionKey): Promise<number> {
    const scheduled = (await this.childHistories(arn)).flat().map((event) => event.taskScheduledEventDetails?.resource);
    return scheduled.filter((resource) => resource?.endsWith(`:${this.functionName(which)}`)).length;
  }

  /** Reads the histories of a run, in which its only chunk runs, and of the children of all of its Maps. */
  async childHistories(arn: string): Promise<HistoryEvent[][]> {
    const { sfn } = this.environment.clients;
    const { mapRuns } = await sfn.send(new ListMapRunsCommand({ executionArn: arn }));
    const histories = [await this.history(arn)];
    for (const { mapRunArn } of mapRuns ?? []) {
      const { executions } = await sfn.send(new ListExecutionsCommand({ mapRunArn }));
      for (const { executionArn } of executions ?? []) histories.push(await this.history(executionArn ?? ''));
    }
    return histories;
  }

  async history(arn: string): Promise<HistoryEvent[]> {
    const events: HistoryEvent[] = [];
    let nextToken: string | undefined;
    do {
      const page = await this.environment.clients.sfn.send(
        new GetExecutionHistoryCommand({ executionArn: arn, nextToken, maxResults: 1000 }),
      );
      events.push(...(page.events ?? []));
      nextToken = page.nextToken;
    } while (nextToken);
    return events;
  }

  /** Reads the receipts of a run. */
  receipts(run: string): Promise<Receipt[]> {
    return this.readWork<Receipt>(areaOf('receipts', run));
  }

  /** Reads the JSON objects of a prefix in the work bucket. */
  async readWork<T>(prefix: string): Promise<T[]> {
    const keys = await this.keysUnder(prefix);
    return Promise.all(keys.map(async (key) => (await this.storage.getJson(this.outputs.workBucket, key)) as T));
  }

  /** Invokes a function like `aws lambda invoke --log-type Tail`. */
  async invoke(which: FunctionKey, payload: unknown): Promise<{ error?: string; payload: unknown; log: string }> {
    const FunctionName = this.functionName(which);
    const Payload = Buffer.from(JSON.stringify(payload));
    const reply = await this.environment.clients.lambda.send(
      new InvokeCommand({ FunctionName, Payload, LogType: 'Tail' }),
    );
    return {
      error: reply.FunctionError,
      payload: JSON.parse(reply.Payload?.transformToString() ?? 'null'),
      log: Buffer.from(reply.LogResult ?? '', 'base64').toString(),
    };
  }

  /** Limits the concurrent invocations of a function. 0 throttles all of them; `null` removes the limit. */
  async limitConcurrency(which: FunctionKey, limit: number | null): Promise<void> {
    const { lambda } = this.environment.clients;
    const FunctionName = this.functionName(which);
    await (limit === null
      ? lambda.send(new DeleteFunctionConcurrencyCommand({ FunctionName }))
      : lambda.send(new PutFunctionConcurrencyCommand({ FunctionName, ReservedConcurrentExecutions: limit })));
  }

  /** Sets the time limit of a function, in seconds. Its next invocation starts a new process. */
  async setTimeout(which: FunctionKey, seconds: number): Promise<void> {
    await this.environment.clients.lambda.send(
      new UpdateFunctionConfigurationCommand({ FunctionName: this.functionName(which), Timeout: seconds }),
    );
  }

  /** The variables in a function’s environment. */
  async variablesOf(which: FunctionKey): Promise<Record<string, string>> {
    const FunctionName = this.functionName(which);
    const { lambda } = this.environment.clients;
    const { Environment } = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
    return Environment?.Variables ?? {};
  }

  /** A client of the emulated DynamoDB, and the stack's table of the budget. */
  async budgetTable(): Promise<{ client: DynamoDBClient; table: string }> {
    const client = new DynamoDBClient(emulated(this.environment.ministack.url));
    return { client, table: (await this.variablesOf('evaluator')).BUDGET_TABLE ?? '' };
  }

  /** Sets a variable in a function’s environment. Its next invocation starts a new process. */
  async setVariable(which: FunctionKey, name: string, value: string): Promise<void> {
    const { lambda } = this.environment.clients;
    const FunctionName = this.functionName(which);
    const Variables = { ...(await this.variablesOf(which)), [name]: value };
    await lambda.send(new UpdateFunctionConfigurationCommand({ FunctionName, Environment: { Variables } }));
  }

  /** Disables the rule, so that a test can upload a file and start the execution itself. */
  async disableRule(): Promise<void> {
    await callAws(this.environment.clients.lambda, 'events', 'DisableRule', { Name: resourceNames(this.prefix).rule });
  }

  async enableRule(): Promise<void> {
    await callAws(this.environment.clients.lambda, 'events', 'EnableRule', { Name: resourceNames(this.prefix).rule });
  }

  /** Lists the emulator’s processes of this function, busy or idle. */
  processesOf(which: FunctionKey): number[] {
    const { ministack } = this.environment;
    const folder = `/ministack-lambda-${this.functionName(which)}-`;
    return runningProcesses()
      .filter(({ parent, args }) => parent === ministack.pid && args.includes(folder))
      .map(({ pid }) => pid);
  }

  functionName(which: FunctionKey): string {
    return resourceNames(this.prefix)[which];
  }

  async until<T>(what: string, probe: () => Promise<T | undefined>, limitMs = LIMIT_MS): Promise<T> {
    const deadline = Date.now() + limitMs;
    for (;;) {
      const found = await probe();
      if (found !== undefined) return found;
      if (Date.now() > deadline) throw new Error(`Waited ${limitMs / 1000} s for ${what}, which did not happen`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }
}

const taskErrors = (events: readonly HistoryEvent[]): string[] =>
  events.flatMap((event) => event.taskFailedEventDetails?.error ?? []);
