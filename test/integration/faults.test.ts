/**
 * The most important faults on a deployed stack: S3 and MLflow fail, functions are killed, the judge throttles.
 * `npm run test:faults` injects all faults, with more MLflow versions.
 */

import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { GetFunctionConfigurationCommand } from '@aws-sdk/client-lambda';
import { CAPTURE_BUCKET } from '../../local/start/environment.ts';
import { BudgetTable } from '../../src/gate/table.ts';
import {
  afterReplies,
  everyNth,
  firstFault,
  firstOnes,
  mixOf,
  type ProxiedRequest,
  someOf,
  sparing,
} from '../doubles/fault-proxy.ts';
import { isAny, isTraceWrite, isVerdictWrite, isWrite, slowDown } from '../doubles/fault-rules.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import type { Outcome } from '../helpers/deployed-pipeline.ts';
import { expectEquations, expectNothingDoubled, linesOf } from '../helpers/fault-expectations.ts';
import type { Count, FoundAssessment } from '../helpers/fault-reader.ts';
import { FaultyEnvironment } from '../helpers/faulty-environment.ts';

let faulty: FaultyEnvironment;

beforeAll(async () => {
  faulty = await FaultyEnvironment.start({ endpoint: 'faulty-endpoint' });
  // The tests start every execution themselves, with the fault in place.
  await faulty.pipeline.disableRule();
});
afterAll(() => faulty?.stop());
afterEach(() => faulty.heal());

/** Uploads a file without starting an execution. */
async function stage(name: string, lines: readonly string[] = linesOf(name)): Promise<string> {
  const key = faulty.key(name);
  await faulty.pipeline.put(key, lines);
  return key;
}

const run = (key: string, options: object = {}): Promise<Outcome> =>
  faulty.pipeline.run(faulty.pipeline.event(key, options));

/** Expects that the execution succeeded, both equations hold, and every record of the file is in MLflow exactly once. */
async function expectWhole({ name, status, error, cause, summary }: Outcome, key: string): Promise<Count> {
  expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
  expect(summary?.equations).toEqual({ lines: true, verdicts: true });
  expectEquations({ equations: await faulty.equations(name) });
  const count = await faulty.count([key]);
  expectNothingDoubled(count);
  expect(count).toMatchObject({ missing: [], tokens: count.expectedTokens, traced: count.records });
  return count;
}

test('processes a file that is delivered twice at the same time once; the other execution ends as a duplicate', async () => {
  const key = await stage('twice');
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  // The first execution waits in its first write until the other one has ended.
  faulty.mlflowProxy.inject(firstOnes(1, isTraceWrite, { kind: 'passThen', work: () => released }));
  const event = faulty.pipeline.event(key);
  const arns = await Promise.all([faulty.pipeline.start(event), faulty.pipeline.start(event)]);
  const duplicate = await Promise.race(arns.map((arn) => faulty.pipeline.ended(arn))).finally(release);
  const [first, second] = await Promise.all(arns.map((arn) => faulty.pipeline.ended(arn)));
  const original = (duplicate.arn === first?.arn ? second : first) as Outcome;
  expect(duplicate.summary).toMatchObject({ status: 'duplicate', duplicateOf: original.name });
  expect(original.summary).toMatchObject({ status: 'succeeded', lines: { written: 7, duplicateLine: 1 } });
  await expectWhole(original, key);
});

test('succeeds when MLflow answers 429, answers 500 after the work, and cuts connections before and after the work', async () => {
  const key = await stage('mlflow');
  const once = [
    firstOnes(1, isTraceWrite, { kind: 'replyAfter', status: 500, body: '{}' }),
    firstOnes(2, isWrite, { kind: 'cutAfter' }),
  ];
  // A retried chunk finds verdicts of its first attempt, and does not count them as new.
  const often = sparing(
    mixOf([
      [0.2, { kind: 'reply', status: 429, headers: { 'retry-after': '0' } }],
      [0.1, { kind: 'cutBefore' }],
    ]),
  );
  faulty.mlflowProxy.inject(firstFault(...once, often));
  const outcome = await run(key);
  expect(faulty.mlflowProxy.injected()).toBeGreaterThanOrEqual(3);
  const count = await expectWhole(outcome, key);
  expect(count.failedVerdicts).toBe(0);
  expect(count.verdicts).toBe(outcome.summary?.verdicts.newVerdicts);
});

test('traces everything, and quarantines nothing for it, when MLflow answers 500 to 40% of all requests', async () => {
  const key = await stage('random', linesOf('random', 30));
  faulty.mlflowProxy.inject(someOf(0.4, isAny, { kind: 'reply', status: 500, body: '{}' }));
  const outcome = await run(key, { evaluate: false });
  expect(faulty.mlflowProxy.injected()).toBeGreaterThan(0);
  const count = await expectWhole(outcome, key);
  expect(outcome.summary?.lines).toMatchObject({ quarantined: 1, lost: 0 });
  expect(count.notRecords).toBe(1);
});

test('quarantines only the record that MLflow refuses, and a retry traces it', async () => {
  const pill = chatLine('poisonouspill');
  const key = await stage('poison', [...linesOf('poison'), pill]);
  const isPoisoned = (request: ProxiedRequest) => isTraceWrite(request) && request.body.includes('poisonouspill');
  faulty.mlflowProxy.inject((request) =>
    isPoisoned(request) ? { kind: 'reply', status: 400, body: '{"error_code":"INVALID_PARAMETER_VALUE"}' } : undefined,
  );
  const outcome = await run(key, { evaluate: false });
  expect(outcome.status).toBe('SUCCEEDED');
  const equations = await faulty.equations(outcome.name);
  expectEquations({ equations });
  expect(equations.quarantineReasons).toContain('MlflowRefused');
  expect(equations.quarantinedLines).toContain(pill);
  // The other line is not a capture record.
  expect(equations.quarantinedInObjects).toBe(2);
  expect((await faulty.count([key])).missing).toHaveLength(1);

  faulty.heal();
  const retry = await faulty.pipeline.run({ retry: { run: outcome.name, what: 'quarantined' } });
  expect(retry.summary?.lines).toMatchObject({ planned: 2, traced: 1, quarantined: 1 });
  await expectWhole(retry, key);
});

describe('a capture that kills the function each time', () => {
  const pill = chatLine('deadlypill');
  const lines = [...linesOf('deadly', 9).slice(0, 5), pill, ...linesOf('deadly', 9).slice(5)];
  /** 2⌈log₂ 13⌉ + 1. */
  const FURTHER = 9;
  let key: string;

  async function expectHalved(outcome: Outcome, which: 'processor' | 'evaluator'): Promise<void> {
    const { arn, status, error, cause, summary } = outcome;
    expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
    expect(summary?.equations).toEqual({ lines: true, verdicts: true });
    expect(new Set(await faulty.pipeline.chunkErrors(arn))).toEqual(new Set(['Runtime.ExitError']));
    expect(await faulty.pipeline.childCalls(arn, which)).toBeLessThanOrEqual(1 + FURTHER);
  }

  test('ends alone in quarantine if it kills the processor, and a retry traces it', async () => {
    key = await stage('deadly', lines);
    faulty.mlflowProxy.inject((request) => {
      if (!isTraceWrite(request) || !request.body.includes('deadlypill')) return undefined;
      faulty.kill('processor');
      return { kind: 'cutBefore' };
    });
    const outcome = await run(key, { evaluate: false });
    await expectHalved(outcome, 'processor');
    expect(outcome.summary?.quarantineReasons).toEqual({ FunctionKilled: 1, NotJson: 1 });
    const equations = await faulty.equations(outcome.name);
    expectEquations({ equations });
    expect(equations.quarantinedLines).toContain(pill);
    const count = await faulty.count([key]);
    expectNothingDoubled(count);
    expect(count.missing).toHaveLength(1);

    faulty.heal();
    const retry = await faulty.pipeline.run({
      retry: { run: outcome.name, what: 'quarantined' },
      evaluate: false,
    });
    expect(retry.summary?.lines).toMatchObject({ planned: 2, traced: 1, quarantined: 1 });
  });

  test('has error assessments if it kills the evaluator, and all others are judged', async () => {
    const ids = await faulty.do<string[]>('trace_ids', { bucket: CAPTURE_BUCKET, keys: [key] });
    const deadly = ids[lines.indexOf(pill)] ?? '';
    faulty.mlflowProxy.inject((request) => {
      const isOfIt = request.path.includes(deadly) || request.body.includes(deadly);
      if (!isVerdictWrite(request) || !isOfIt || request.body.includes('FunctionKilled')) return undefined;
      faulty.kill('evaluator');
      return { kind: 'cutBefore' };
    });
    const outcome = await run(key);
    await expectHalved(outcome, 'evaluator');
    const { verdicts, unreportedAttempts } = outcome.summary ?? {};
    const errors = (await faulty.do<FoundAssessment[]>('assessments', { traceId: deadly })).filter(
      ({ value }) => value === null,
    );
    expect(errors.length).toBeGreaterThan(0);
    expect(verdicts).toMatchObject({ failed: errors.length, failedRecorded: errors.length, lost: 0 });
    expect(unreportedAttempts).toBeGreaterThan(0);
    const count = await expectWhole(outcome, key);
    expect(count.failedVerdicts).toBe(errors.length);
    // Ten of the records are chats. No answer of the judge is paid twice.
    expect(outcome.summary?.spend.calls).toBe(10);

    faulty.heal();
    const retry = await faulty.pipeline.run({ retry: { run: outcome.name, what: 'failed' } });
    expect(retry.summary?.verdicts).toMatchObject({ failed: 0, lost: 0 });
    // No verdict replaces the error of a scorer that does not apply to the capture.
    expect((await expectWhole(retry, key)).failedVerdicts).toBeLessThan(errors.length);
  });
});

test('names the line that kills a direct invocation in the log, and processes the others without it', async () => {
  const key = await stage('killed-by-hand', [chatLine('by-hand-1'), chatLine('deadlybyhand'), chatLine('by-hand-2')]);
  faulty.mlflowProxy.inject((request) => {
    if (!isTraceWrite(request) || !request.body.includes('deadlybyhand')) return undefined;
    faulty.kill('processor');
    return { kind: 'cutBefore' };
  });
  const file = { bucket: CAPTURE_BUCKET, key };
  const whole = await faulty.pipeline.invoke('processor', file);
  expect(whole).toMatchObject({ error: 'Unhandled', log: expect.stringMatching(/Next are 3 lines.*oneByOne/) });
  const oneByOne = await faulty.pipeline.invoke('processor', { ...file, oneByOne: true });
  expect(oneByOne.error).toBe('Unhandled');
  expect(oneByOne.log.match(/Next is line \d/g)?.at(-1)).toBe('Next is line 2');
  const without = await faulty.pipeline.invoke('processor', { ...file, leaveOut: [2] });
  expect(without).toMatchObject({ payload: { lines: 3, traced: 2, quarantined: 1 } });
});

test('succeeds when S3 answers 503 SlowDown to every third request', async () => {
  const key = await stage('slow-down');
  faulty.s3Proxy.inject(everyNth(3, isAny, slowDown));
  const outcome = await run(key, { evaluate: false });
  expect(faulty.s3Proxy.injected()).toBeGreaterThan(0);
  await expectWhole(outcome, key);
});

test('gets every verdict exactly once when Bedrock throttles half of the calls', async () => {
  const key = await stage('throttled');
  faulty.environment.judge.behave({ throttleShare: 0.5 });
  const outcome = await run(key);
  const count = await expectWhole(outcome, key);
  expect(outcome.summary?.verdicts.failed).toBe(0);
  expect(count).toMatchObject({ failedVerdicts: 0, verdicts: outcome.summary?.verdicts.newVerdicts });
  expect((await faulty.equations(outcome.name)).usd).toBeCloseTo(count.judgeCost, 6);
});

describe('the gate of the stack', () => {
  const WINDOW_MS = 10_000;
  let dynamo: DynamoDBClient;
  let gate: BudgetTable;
  let most = 0;

  beforeAll(async () => {
    const { environment, pipeline } = faulty;
    const FunctionName = pipeline.functionName('evaluator');
    const { Environment } = await environment.clients.lambda.send(
      new GetFunctionConfigurationCommand({ FunctionName }),
    );
    const { BUDGET_TABLE = '', MAX_FUNCTIONS = '' } = Environment?.Variables ?? {};
    dynamo = new DynamoDBClient({
      endpoint: environment.ministack.url,
      region: environment.ministack.region,
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    });
    gate = new BudgetTable(dynamo, BUDGET_TABLE);
    most = Number(MAX_FUNCTIONS);
  });
  afterAll(() => dynamo?.destroy());

  /** Opens the judge’s circuit, and has new processes, which do not remember that it was closed. */
  const pause = async (until: number, forDay: 0 | 1): Promise<void> => {
    const expression = 'SET #until = :until, #level = :level, #forDay = :forDay';
    await gate.update({ scope: 'circuit#judge', expression, values: { until, level: 1, forDay } });
    faulty.kill('evaluator');
  };
  /** Waits until the run has waited and invoked the function again, while `hold` is called again and again. */
  const untilItWaits = (arn: string, hold: () => Promise<unknown>) =>
    faulty.pipeline.until('a run that waits', async () => {
      await hold();
      return (await faulty.pipeline.childCalls(arn, 'evaluator')) > 1 || undefined;
    });

  test('has a chunk wait in Step Functions for a seat, and process it then', async () => {
    const key = await stage('seatless');
    const hold = async (seats: number) => {
      const window = Math.floor(Date.now() / WINDOW_MS);
      for (const scope of [`seats#${window}`, `seats#${window + 1}`]) {
        await gate.update({ scope, expression: 'SET #functions = :seats', values: { seats } });
      }
    };
    await hold(most);
    const arn = await faulty.pipeline.start(faulty.pipeline.event(key));
    await untilItWaits(arn, () => hold(most));
    await hold(0);
    const outcome = await faulty.pipeline.ended(arn);
    const errors = await faulty.pipeline.chunkErrors(arn);
    expect([errors, outcome.summary?.unreportedAttempts]).toEqual([[], undefined]);
    await expectWhole(outcome, key);
  });

  test('has a chunk wait in Step Functions while the judge is paused, with its traces written, and pays once', async () => {
    const key = await stage('paused');
    await pause(Date.now() + 120_000, 0);
    const arn = await faulty.pipeline.start(faulty.pipeline.event(key));
    await untilItWaits(arn, async () => undefined);
    const early = await faulty.count([key]);
    expect([early.missing, early.traced]).toEqual([[], early.records]);
    await pause(Date.now(), 0);
    const outcome = await faulty.pipeline.ended(arn);
    const count = await expectWhole(outcome, key);
    expect([count.failedVerdicts, count.verdicts > early.verdicts]).toEqual([0, true]);
    expect((await faulty.equations(outcome.name)).usd).toBeCloseTo(count.judgeCost, 6);
    expect((await gate.get('circuit#judge')).level?.N).toBe('0');
  });

  test('holds what the provider’s day has no room for, until the day is over', async () => {
    const key = await stage('day');
    await pause(Date.now() + 3_600_000, 1);
    const held = await run(key);
    const { verdicts, reasons, spend } = held.summary ?? {};
    expect([held.status, reasons?.providerDay, spend?.calls]).toEqual(['SUCCEEDED', verdicts?.heldByBudget, 0]);
    expect(verdicts?.heldByBudget).toBeGreaterThan(0);
    expect(await faulty.pipeline.childCalls(held.arn, 'evaluator')).toBe(1);
    await expectWhole(held, key);
    await pause(Date.now(), 1);
    const retry = await faulty.pipeline.run({ retry: { run: held.name, what: 'held' } });
    const count = await expectWhole(retry, key);
    expect(retry.summary?.verdicts).toMatchObject({ heldByBudget: 0, newVerdicts: verdicts?.heldByBudget });
    expect((await faulty.equations(retry.name)).usd).toBeCloseTo(count.judgeCost, 6);
  });
});

test('keeps a person’s override through a second run and a re-evaluation', async () => {
  const key = await stage('overridden', [chatLine('overridden')]);
  await expectWhole(await run(key), key);
  const [traceId] = await faulty.do<string[]>('trace_ids', { bucket: CAPTURE_BUCKET, keys: [key] });
  const fluency = async () =>
    (await faulty.do<FoundAssessment[]>('assessments', { traceId })).filter(({ name }) => name === 'fluency');
  const [verdict] = await fluency();
  await faulty.do('override', { traceId, assessmentId: verdict?.id, value: 'no' });
  const overridden = await fluency();
  expect(overridden.filter(({ valid }) => valid)).toEqual([expect.objectContaining({ person: true, value: 'no' })]);
  for (const options of [{}, { reevaluate: true }]) {
    await expectWhole(await run(key, options), key);
    expect(await fluency()).toEqual(overridden);
  }
});

// Last, because the Python reader reads all traces of the experiment for each count.
test('writes the remaining traces after a processor was killed', async () => {
  const chats = 250;
  const key = await stage('killed', linesOf('killed', chats));
  // Two requests of 100 traces are in flight together: when the first is answered, the third is not yet sent.
  const kill = () => {
    faulty.kill('processor');
  };
  faulty.mlflowProxy.inject(afterReplies(1, isTraceWrite, kill));
  const outcome = await run(key, { evaluate: false });
  expect(new Set(await faulty.pipeline.chunkErrors(outcome.arn))).toEqual(new Set(['Runtime.ExitError']));
  expect(outcome.summary?.lines.alreadyThere).toBeGreaterThan(0);
  expect(outcome.summary?.lines.written).toBeGreaterThan(0);
  const count = await expectWhole(outcome, key);
  expect(count.records).toBe(chats + 1);
});
