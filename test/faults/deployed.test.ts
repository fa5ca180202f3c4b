/** The most important faults on a deployed stack in one run. `npm run test:slow` and `npm run test:faults` inject more. */
import { afterReplies, everyNth, firstFault, firstOnes, mixOf, sparing } from '../doubles/fault-proxy.ts';
import { isAny, isTraceWrite, isWrite, slowDown } from '../doubles/fault-rules.ts';
import { linesOf } from '../helpers/fault-expectations.ts';
import { expectWhole, faulty, run, stage } from '../helpers/faulty-runs.ts';

test('succeeds when MLflow answers 429, answers 500 after the work and cuts connections, S3 is slow, and Bedrock throttles', async () => {
  const key = await stage('mlflow');
  const once = [
    firstOnes(1, isTraceWrite, { kind: 'passThenReply', status: 500, body: '{}' }),
    firstOnes(2, isWrite, { kind: 'passThenCut' }),
  ];
  // A retried chunk counts the verdicts that its first attempt wrote, once.
  const often = sparing(
    mixOf([
      [0.2, { kind: 'reply', status: 429, headers: { 'retry-after': '0' } }],
      [0.1, { kind: 'cut' }],
    ]),
  );
  faulty.mlflowProxy.inject(firstFault(...once, often));
  faulty.s3Proxy.inject(everyNth(3, isAny, slowDown));
  faulty.environment.judge.behave({ throttleShare: 0.5 });
  const outcome = await run(key);
  expect(faulty.mlflowProxy.injected()).toBeGreaterThanOrEqual(3);
  expect(faulty.s3Proxy.injected()).toBeGreaterThan(0);
  const count = await expectWhole(outcome, key);
  expect(count.failedVerdicts).toBe(0);
  expect(count.verdicts).toBe(outcome.summary?.verdicts.newVerdicts);
  expect((await faulty.equations(outcome.name)).usd).toBeCloseTo(count.judgeCost, 6);
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
