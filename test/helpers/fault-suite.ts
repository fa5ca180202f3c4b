/**
 * What must hold after any fault, and the faults. After each: both equations hold, a re-run heals, MLflow holds each
 * record once and each verdict once, and tokens are not doubled. All of it is counted by the Python reader.
 */

import {
  afterReplies,
  everyNth,
  type FaultRule,
  firstFault,
  firstOnes,
  type ProxiedRequest,
  someOf,
} from '../doubles/fault-proxy.ts';
import { accessDenied, inBucket, isAny, isTraceWrite, isWrite, slowDown } from '../doubles/fault-rules.ts';
import { startSageMakerMlflowDouble } from '../doubles/sagemaker-mlflow.ts';
import { captureLine, chatLine } from './deployed-captures.ts';
import type { FaultCase, FaultPipeline, RunHooks, RunOutcome } from './fault-pipeline.ts';
import type { Count, FoundAssessment } from './fault-reader.ts';
import { MANAGED_ARNS, MANAGED_CREDENTIALS } from './mlflow-managed.ts';

const TIME = '2026-11-20T10:00:00Z';
const NOT_A_RECORD = '{"captureData": {"endpointInput": "cut off';
const CHATS = 6;

/** Chats, a table, a line twice, and one that is no record. */
export function linesOf(name: string, chats = CHATS): string[] {
  const all = Array.from({ length: chats }, (_, n) => chatLine(`${name}-${n}`, TIME));
  const csv = { contentType: 'text/csv', encoding: 'CSV' as const };
  const table = captureLine(
    `${name}-csv`,
    TIME,
    { ...csv, data: '5.1,3.5\n6.2,2.9\n' },
    { ...csv, data: '0.9\n0.1\n' },
  );
  return [...all, table, all[0] ?? '', NOT_A_RECORD];
}

/** Nothing in MLflow twice, nothing wrong; whether all of it is there is another question. */
export function expectNothingDoubled(count: Count): void {
  expect({ wrong: count.wrong, doubledVerdicts: count.doubledVerdicts }).toEqual({ wrong: [], doubledVerdicts: [] });
}

export function expectEquations({ equations }: Pick<RunOutcome, 'equations'>): void {
  expect(equations.accounted).toBe(equations.planned);
  expect(equations.verdictsAccounted).toBe(equations.verdictsExpected);
  expect(equations.quarantinedInObjects).toBe(equations.quarantinedInReceipts);
}

/** The run succeeded, both equations hold, and all of the file is in MLflow once. */
export async function expectWhole(one: FaultCase, outcome: RunOutcome, keys = [one.key()]): Promise<Count> {
  const { status, error, failedChunks, lines } = outcome.summary;
  expect({ status, error, failedChunks }).toEqual({ status: 'succeeded', error: undefined, failedChunks: [] });
  expect(outcome.summary.equations).toEqual({ lines: true, verdicts: true });
  expectEquations(outcome);
  const count = await one.count(keys);
  expectNothingDoubled(count);
  const { missing, tokens, expectedTokens } = count;
  const { quarantineReasons } = outcome.summary;
  expect({ missing, tokens, refused: quarantineReasons.MlflowFailsOnTrace }).toEqual({
    missing: [],
    tokens: expectedTokens,
    refused: undefined,
  });
  expect(lines.planned).toBe(count.lines);
  return count;
}

/** The same input once more, without faults: nothing is written, nobody is asked, nothing changes. */
export async function expectSettled(
  pipeline: FaultPipeline,
  one: FaultCase,
  before: Count,
  keys?: string[],
): Promise<void> {
  pipeline.heal();
  pipeline.judge.forget();
  const again = await one.run();
  const after = await expectWhole(one, again, keys);
  expect(again.summary.lines.written).toBe(0);
  expect(again.summary.verdicts.newVerdicts).toBe(0);
  expect(pipeline.judge.counts.calls).toBe(0);
  expect(after).toEqual(before);
}

/** A run that failed by this name and says what is missing; what it wrote is not doubled. */
export function expectFailed(outcome: RunOutcome, name: string | RegExp): void {
  expect(outcome.summary.status).toBe('failed');
  const told = [outcome.summary.error?.name, ...outcome.summary.failedChunks.map(({ error }) => error.name)];
  expect(told).toEqual(expect.arrayContaining([expect.stringMatching(name)]));
}

type Get = () => FaultPipeline;

/** Faults of MLflow that pass, while the run goes on. */
const PASSING_FAULTS: Record<string, () => FaultRule> = {
  'answering 429': () => someOf(0.4, isAny, { kind: 'reply', status: 429, headers: { 'retry-after': '0' } }),
  'answering 500 without doing it': () => someOf(0.4, isWrite, { kind: 'reply', status: 500, body: '{}' }),
  'answering 500 after doing it': () => someOf(0.4, isWrite, { kind: 'replyAfter', status: 500, body: '{}' }),
  'answering 502 without doing it': () => someOf(0.4, isAny, { kind: 'reply', status: 502 }),
  'answering 502 after doing it': () => someOf(0.5, isWrite, { kind: 'replyAfter', status: 502 }),
  'cutting the connection before': () => someOf(0.3, isAny, { kind: 'cutBefore' }),
  'cutting the connection after': () => someOf(0.5, isWrite, { kind: 'cutAfter' }),
};

/**
 * At a share of 40% one request in 1,500 fails all of the client's 8 attempts by chance: its chunk is then tried again, and
 * finds verdicts that it does not count as new. Here all of them are counted, so that chance must not end the attempts.
 */
const PATIENT = { baseMs: 20, capMs: 300, attempts: 16 };

export function testPassingMlflowFaults(get: Get, names: readonly string[] = Object.keys(PASSING_FAULTS)): void {
  test.each(names)('MLflow %s', async (name) => {
    const pipeline = get();
    const one = pipeline.case(`passing-${name.replace(/\W+/g, '-')}`, { retry: PATIENT });
    await one.put(linesOf(name));
    pipeline.mlflowProxy.inject(PASSING_FAULTS[name]?.() ?? (() => undefined));
    const outcome = await one.run();
    expect(pipeline.mlflowProxy.injected()).toBeGreaterThan(0);
    const count = await expectWhole(one, outcome);
    expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
    expect(count.verdicts).toBe(outcome.summary.verdicts.newVerdicts);
    await expectSettled(pipeline, one, count);
  });
}

export function testLastingMlflowFaults(get: Get): void {
  test('MLflow sending half of its answers, and no more', async () => {
    const pipeline = get();
    const one = pipeline.case('stalling', { timeoutMs: 1_500 });
    await one.put(linesOf('stalling'));
    pipeline.mlflowProxy.inject(firstOnes(3, isWrite, { kind: 'stall' }));
    const outcome = await one.run();
    expect(pipeline.mlflowProxy.injected()).toBe(3);
    await expectSettled(pipeline, one, await expectWhole(one, outcome));
  });

  test('MLflow restarting in the middle of the traces', async () => {
    const pipeline = get();
    const one = pipeline.case('restarting', { retry: { baseMs: 500, capMs: 4_000 } });
    await one.put(linesOf('restarting', 230));
    let restarted: Promise<void> | undefined;
    const restart = () => {
      restarted ??= pipeline.restartMlflow();
    };
    pipeline.mlflowProxy.inject(firstOnes(1, isTraceWrite, { kind: 'passThen', work: restart }));
    const outcome = await one.run(one.event(one.key(), { evaluate: false }));
    await restarted;
    expect(restarted).toBeDefined();
    const count = await expectWhole(one, outcome);
    expect(count.records).toBe(231);
  });

  test('MLflow away for good: the run fails and says so, and its retry heals', async () => {
    const pipeline = get();
    const one = pipeline.case('away');
    await one.put(linesOf('away'));
    const failed = await one.run(one.event(), {
      planned: async () => pipeline.mlflowProxy.inject(() => ({ kind: 'reply', status: 503 })),
    });
    expectFailed(failed, 'MlflowUnavailable');
    expect(failed.summary.lines.lost).toBe(failed.summary.lines.planned);
    pipeline.heal();
    const retry = await one.run({ retry: { run: failed.run, what: 'failed' } });
    await expectSettled(pipeline, one, await expectWhole(one, retry));
  });

  test('an experiment that is deleted in mid-run: named, and healed when it is restored', async () => {
    const pipeline = get();
    const one = pipeline.case('deleted-experiment');
    await one.put(linesOf('deleted-experiment'));
    let experimentId = '';
    const failed = await one.run(one.event(), {
      planned: async () => {
        experimentId = await one.do<string>('experiment');
        await one.do('delete_experiment', { experimentId });
      },
    });
    expectFailed(failed, /Experiment/);
    const during = await one.run();
    expectFailed(during, /Experiment/);
    await one.do('restore_experiment', { experimentId });
    const retry = await one.run({ retry: { run: failed.run, what: 'failed' } });
    await expectSettled(pipeline, one, await expectWhole(one, retry));
  });

  test('credentials for managed MLflow that expire in mid-run', async () => {
    const pipeline = get();
    let credentials = MANAGED_CREDENTIALS;
    const double = await startSageMakerMlflowDouble({
      upstream: pipeline.server.url,
      arn: MANAGED_ARNS.server,
      credentials,
    });
    try {
      const one = pipeline.case('expiring', {
        trackingUri: double.arn,
        customEndpoint: double.url,
        credentials: async () => credentials,
      });
      await one.put(linesOf('expiring'));
      const failed = await one.run(one.event(), { logged: async () => double.expire() });
      expectFailed(failed, 'CredentialsExpired');
      expect(failed.summary.lines.lost).toBe(0);
      expect(failed.summary.verdicts.lost).toBeGreaterThan(0);
      credentials = { ...MANAGED_CREDENTIALS, sessionToken: 'renewed-session-token' };
      double.setCredentials(credentials);
      const retry = await one.run({ retry: { run: failed.run, what: 'failed' } });
      await expectSettled(pipeline, one, await expectWhole(one, retry));
    } finally {
      await double.stop();
    }
  });
}

export function testPoison(get: Get): void {
  test.each([500, 400])(
    'one record that MLflow answers with %i: alone in quarantine, and back from it',
    async (status) => {
      const pipeline = get();
      const marker = `poisonous${status}`;
      const one = pipeline.case(marker);
      const lines = [...linesOf(marker), chatLine(`${marker}pill`, TIME)];
      await one.put(lines);
      const isPoisoned = (request: ProxiedRequest) => isTraceWrite(request) && request.body.includes(`${marker}pill`);
      pipeline.mlflowProxy.inject((request) =>
        isPoisoned(request) ? { kind: 'reply', status, body: '{"error_code":"INTERNAL_ERROR"}' } : undefined,
      );
      const outcome = await one.run();
      expect(outcome.summary.status).toBe('succeeded');
      expectEquations(outcome);
      expect(outcome.equations.quarantinedLines).toContain(lines.at(-1));
      expect(outcome.equations.quarantinedInObjects).toBe(2);
      expect(outcome.equations.quarantineReasons).toContain(status === 500 ? 'MlflowFailsOnTrace' : 'MlflowRefused');
      const count = await one.count();
      expectNothingDoubled(count);
      expect(count.missing).toHaveLength(1);

      pipeline.heal();
      const retry = await one.run({ retry: { run: outcome.run, what: 'quarantined' } });
      expect(retry.summary.lines).toMatchObject({ planned: 2, traced: 1, quarantined: 1 });
      await expectSettled(pipeline, one, { ...(await one.count()), missing: [] });
    },
  );
}

export function testStorageFaults(get: Get): void {
  test('S3 answering 503 SlowDown to every third request', async () => {
    const pipeline = get();
    const one = pipeline.case('slow-down');
    await one.put(linesOf('slow-down'));
    pipeline.s3Proxy.inject(everyNth(3, isAny, slowDown));
    const outcome = await one.run();
    expect(pipeline.s3Proxy.injected()).toBeGreaterThan(0);
    await expectSettled(pipeline, one, await expectWhole(one, outcome));
  });

  test('S3 cutting connections, with and without effect', async () => {
    const pipeline = get();
    const one = pipeline.case('s3-cuts');
    await one.put(linesOf('s3-cuts'));
    const before = everyNth(4, isAny, { kind: 'cutBefore' });
    const after = everyNth(3, inBucket('fault-work', 'PUT'), { kind: 'cutAfter' });
    pipeline.s3Proxy.inject((request) => before(request) ?? after(request));
    await expectSettled(pipeline, one, await expectWhole(one, await one.run()));
  });

  test('the object overwritten between planning and reading', async () => {
    const pipeline = get();
    const one = pipeline.case('overwritten');
    await one.put(linesOf('older'));
    const newer = linesOf('newer', 3);
    const outcome = await one.run(one.event(), { planned: () => one.put(newer) });
    expectFailed(outcome, 'CaptureChanged');
    expect(outcome.summary.lines.lost).toBe(outcome.summary.lines.planned);
    expect((await one.count()).traced).toBe(0);
    const count = await expectWhole(one, await one.run());
    expect(count.lines).toBe(newer.length);
    await expectSettled(pipeline, one, count);
  });

  test('the object deleted between planning and reading', async () => {
    const one = get().case('removed');
    const key = await one.put(linesOf('removed'));
    const outcome = await one.run(one.event(), { planned: () => one.remove(key) });
    expectFailed(outcome, 'CaptureMissing');
    expect(outcome.summary.lines).toMatchObject({ planned: CHATS + 3, lost: CHATS + 3 });
  });

  test.each(['manifest', 'receipts', 'quarantine'])('a work bucket where %s cannot be written', async (what) => {
    const pipeline = get();
    const one = pipeline.case(`unwritable-${what}`);
    await one.put(linesOf(`unwritable-${what}`));
    const isDenied = (request: ProxiedRequest) =>
      inBucket('fault-work')(request) && ['PUT', 'POST'].includes(request.method) && request.path.includes(what);
    pipeline.s3Proxy.inject((request) => (isDenied(request) ? accessDenied : undefined));
    const failed = await one.run();
    expectFailed(failed, what === 'receipts' ? 'NoReceipt' : 'StorageAccessDenied');
    pipeline.heal();
    expectNothingDoubled(await one.count().catch(() => ({ wrong: [], doubledVerdicts: [] }) as unknown as Count));
    await expectSettled(pipeline, one, await expectWhole(one, await one.run()));
  });
}

export function testJudgeFaults(get: Get): void {
  test('Bedrock throttling half of the calls', async () => {
    const pipeline = get();
    const one = pipeline.case('throttling');
    await one.put(linesOf('throttling', 12));
    pipeline.judge.behave({ throttleShare: 0.5 });
    const outcome = await one.run();
    const count = await expectWhole(one, outcome);
    expect(outcome.summary.verdicts.failed).toBe(0);
    expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
    await expectSettled(pipeline, one, count);
  });

  test('Bedrock refusing the model: the run fails and says so, and its retry heals', async () => {
    const pipeline = get();
    const one = pipeline.case('refusing');
    await one.put(linesOf('refusing'));
    pipeline.judge.behave({ models: { '*': { state: 'denied' } } });
    const failed = await one.run();
    expectFailed(failed, /Judge|Model/);
    expect(failed.summary.lines.lost).toBe(0);
    expect(failed.summary.verdicts.lost).toBeGreaterThan(0);
    pipeline.heal();
    const retry = await one.run({ retry: { run: failed.run, what: 'failed' } });
    const count = await expectWhole(one, retry);
    expect(count.failedVerdicts).toBe(0);
    await expectSettled(pipeline, one, count);
  });

  test.each(['cut', 'prose'] as const)(
    'Bedrock whose answers are %s: errors on the record, then verdicts',
    async (fault) => {
      const pipeline = get();
      const one = pipeline.case(`answers-${fault}`);
      await one.put(linesOf(`answers-${fault}`));
      pipeline.judge.behave({ fault });
      const outcome = await one.run();
      const bad = await expectWhole(one, outcome);
      expect(outcome.summary.verdicts.failed).toBeGreaterThan(0);
      expect(outcome.summary.verdicts.failed).toBe(bad.failedVerdicts);
      pipeline.heal();
      const healed = await one.run();
      const count = await expectWhole(one, healed);
      expect(count.failedVerdicts).toBe(0);
      expect(count.verdicts).toBe(bad.verdicts + bad.failedVerdicts);
      await expectSettled(pipeline, one, count);
    },
  );

  test('a function out of time in the judge: what was answered is kept, the rest is asked by the next attempt', async () => {
    const pipeline = get();
    const one = pipeline.case('out-of-time');
    await one.put(linesOf('out-of-time'));
    pipeline.judge.behave({ delayMs: 3_000 });
    // 45 s are kept back to finish: one second is left to judge.
    const evaluateMs: RunHooks['evaluateMs'] = (attempt) => {
      if (attempt > 0) pipeline.judge.behave({});
      return attempt === 0 ? 46_000 : undefined;
    };
    const outcome = await one.run(one.event(), { evaluateMs });
    expect(outcome.errors).toEqual(['ChunkOutOfTime']);
    await expectSettled(pipeline, one, await expectWhole(one, outcome));
  });
}

export function testKillsAndTwins(get: Get, lines = 300): void {
  test('a function killed after writing some of its traces', async () => {
    const pipeline = get();
    const one = pipeline.case('killed');
    await one.put(linesOf('killed', lines));
    // By OTLP two requests of 100 are under way at once: at the first answer the third is not sent yet.
    const isOtlp = (request: ProxiedRequest) => request.path === '/v1/traces';
    const isPost = (request: ProxiedRequest) => isTraceWrite(request) && request.method === 'POST' && !isOtlp(request);
    const kill = () => pipeline.killWorker();
    pipeline.mlflowProxy.inject(firstFault(afterReplies(1, isOtlp, kill), afterReplies(20, isPost, kill)));
    const outcome = await one.run(one.event(one.key(), { evaluate: false }), { inProcess: 'log' });
    expect(outcome.errors).toEqual(['Runtime.ExitError']);
    expect(outcome.summary.lines.alreadyThere).toBeGreaterThan(0);
    expect(outcome.summary.lines.written).toBeGreaterThan(0);
    const count = await expectWhole(one, outcome);
    expect(count.records).toBe(lines + 1);
  });

  test('a file delivered twice at once: one run does it, the other is its duplicate', async () => {
    const pipeline = get();
    const one = pipeline.case('twice');
    await one.put(linesOf('twice'));
    const outcomes = await Promise.all([one.run(), one.run()]);
    expect(outcomes.map(({ summary }) => summary.status).sort()).toEqual(['duplicate', 'succeeded']);
    const original = outcomes.find(({ summary }) => summary.status === 'succeeded') as RunOutcome;
    const count = await expectWhole(one, original);
    expect(original.equations.usd).toBeCloseTo(count.judgeCost, 6);
    await expectSettled(pipeline, one, count);
  });

  test('two runs that no claim keeps apart, over the same records', async () => {
    const pipeline = get();
    const one = pipeline.case('overlapping');
    await one.put(linesOf('overlapping', 20));
    const copy = await one.put(linesOf('overlapping', 20), one.key('copy'));
    const outcomes = await Promise.all([one.run(), one.run(one.event(copy))]);
    for (const outcome of outcomes) await expectWhole(one, outcome);
    await expectSettled(pipeline, one, await one.count());
  });
}

export function testPersons(get: Get): void {
  const valuesOf = async (one: FaultCase, traceId: string, name: string) =>
    (await one.do<FoundAssessment[]>('assessments', { traceId })).filter((found) => found.name === name);

  test('a trace that a person deletes before it is judged stays deleted; logging its file again brings it back', async () => {
    const pipeline = get();
    const one = pipeline.case('deleted-trace');
    await one.put(linesOf('deleted-trace'));
    const outcome = await one.run(one.event(), {
      logged: async () => one.do('delete_traces', { traceIds: (await one.traceIds()).slice(1, 2) }),
    });
    expect(outcome.summary.status).toBe('succeeded');
    expectEquations(outcome);
    expect(outcome.summary.reasons.traceMissing).toBe(one.scorers.length);
    const count = await one.count();
    expectNothingDoubled(count);
    expect(count.missing).toEqual((await one.traceIds()).slice(1, 2));
    const again = await one.run();
    expect(again.summary.lines).toMatchObject({ written: 1 });
    await expectSettled(pipeline, one, await expectWhole(one, again));
  });

  test('what a person has assessed no run judges', async () => {
    const pipeline = get();
    const one = pipeline.case('assessed');
    await one.put(linesOf('assessed'));
    await one.run(one.event(one.key(), { evaluate: false }));
    const [traceId = ''] = await one.traceIds();
    await one.do('feedback', { traceId, name: 'safety', value: 'no' });
    for (const options of [{}, { reevaluate: true }]) {
      await expectWhole(one, await one.run(one.event(one.key(), options)));
      expect(await valuesOf(one, traceId, 'safety')).toEqual([
        expect.objectContaining({ person: true, value: 'no', valid: true }),
      ]);
    }
  });

  test('a person’s override of a verdict survives a re-run and a re-evaluation', async () => {
    const pipeline = get();
    const one = pipeline.case('overridden');
    await one.put(linesOf('overridden'));
    await expectWhole(one, await one.run());
    const [traceId = ''] = await one.traceIds();
    const [verdict] = await valuesOf(one, traceId, 'fluency');
    await one.do('override', { traceId, assessmentId: verdict?.id, value: 'no' });
    const overridden = await valuesOf(one, traceId, 'fluency');
    for (const options of [{}, { reevaluate: true }]) {
      await expectWhole(one, await one.run(one.event(one.key(), options)));
      const found = await valuesOf(one, traceId, 'fluency');
      expect(found).toEqual(overridden);
      expect(found.filter(({ valid }) => valid)).toEqual([expect.objectContaining({ person: true, value: 'no' })]);
    }
  });
}
