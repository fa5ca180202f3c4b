/**
 * The most important faults on a deployed stack: S3 and MLflow fail, functions are killed, the judge throttles. `npm run test:slow`
 * has more, and `npm run test:faults` injects all faults, with more MLflow versions.
 */

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
import { isAny, isTraceWrite, isWrite, slowDown } from '../doubles/fault-rules.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import type { Outcome } from '../helpers/deployed-pipeline.ts';
import { expectEquations, linesOf } from '../helpers/fault-expectations.ts';
import type { FoundAssessment } from '../helpers/fault-reader.ts';
import { expectWhole, faulty, run, stage } from '../helpers/faulty-runs.ts';
import { CAPTURE_BUCKET } from '../helpers/local-environment.ts';

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
  // What the killed function wrote is of this run.
  expect(outcome.summary?.lines).toMatchObject({ written: chats + 1, alreadyThere: 0 });
  const count = await expectWhole(outcome, key);
  expect(count.records).toBe(chats + 1);
});
