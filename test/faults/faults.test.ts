/** Injects every fault with every MLflow version. `FAULT_MLFLOW_VERSIONS=3.9.0,3.13.0` selects versions. */
import { DEFAULT_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import { cellsOf, sumOfCells } from '../../src/quality/counts-store.ts';
import { afterReplies, everyNth, type FaultRule, firstFault, firstOnes, someOf } from '../doubles/fault-proxy.ts';
import { accessDenied, inBucket, isAny, isTraceWrite, isWrite, slowDown } from '../doubles/fault-rules.ts';
import type { SeenRequest } from '../doubles/misbehaving-server.ts';
import { startSageMakerMlflowDouble } from '../doubles/sagemaker-mlflow.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import {
  CHATS,
  expectEquations,
  expectFailed,
  expectNothingDoubled,
  expectSettled,
  expectWhole,
  linesOf,
  TIME,
} from '../helpers/fault-expectations.ts';
import { FaultPipeline, type RunHooks, WORK } from '../helpers/fault-pipeline.ts';
import type { Count } from '../helpers/fault-reader.ts';
import { countsOfRuns } from '../helpers/ledger-rows.ts';
import { MANAGED_ARN, MANAGED_CREDENTIALS } from '../helpers/mlflow-managed.ts';
import { START_LIMIT_MS } from '../helpers/mlflow-plain.ts';

/** The slowest tests take about 20 s on an idle machine: the restart of MLflow, and 230 traces by REST. */
jest.setTimeout(180_000);

const versions = process.env.FAULT_MLFLOW_VERSIONS?.split(',') ?? ['3.9.0', '3.10.1', '3.13.0', DEFAULT_MLFLOW_VERSION];

/** Faults of MLflow that the run’s own retries overcome. */
const PASSING_FAULTS: Record<string, () => FaultRule> = {
  'answering 429': () => someOf(0.4, isAny, { kind: 'reply', status: 429, headers: { 'retry-after': '0' } }),
  'answering 500 without doing the work': () => someOf(0.4, isWrite, { kind: 'reply', status: 500, body: '{}' }),
  'answering 500 after doing the work': () => someOf(0.4, isWrite, { kind: 'passThenReply', status: 500, body: '{}' }),
  'answering 502 without doing the work': () => someOf(0.4, isAny, { kind: 'reply', status: 502 }),
  'answering 502 after doing the work': () => someOf(0.5, isWrite, { kind: 'passThenReply', status: 502 }),
  'cutting the connection before the work': () => someOf(0.3, isAny, { kind: 'cut' }),
  'cutting the connection after the work': () => someOf(0.5, isWrite, { kind: 'passThenCut' }),
};

/**
 * At a share of 40%, one request in 1,500 fails all 8 attempts of the client by chance. Its chunk is then retried, and finds
 * verdicts that it does not count as new. These tests count all verdicts as new, so they need more attempts.
 */
const PATIENT = { baseMs: 20, capMs: 300, attempts: 16 };

describe.each(versions)('with MLflow %s', (version) => {
  let pipeline: FaultPipeline;

  beforeAll(async () => {
    pipeline = await FaultPipeline.start(version);
  }, START_LIMIT_MS);
  afterAll(() => pipeline?.stop());
  afterEach(() => pipeline.heal());

  test('runs the expected version', () => {
    expect(pipeline.version).toBe(version);
  });

  test('gets a new capture with its verdicts in 1.2 requests, the file of its spans apart', async () => {
    const one = await pipeline.caseOf('requests', linesOf('requests', 120));
    let requests = 0;
    await one.run(one.event(), {
      planned: async () =>
        pipeline.mlflowProxy.inject(({ path }) => {
          requests += path.includes('/mlflow-artifacts/') ? 0 : 1;
          return undefined;
        }),
    });
    const count = await one.count();
    expect(count.traced).toBeGreaterThan(120);
    expect(requests / count.traced).toBeLessThanOrEqual(1.2);
  });

  describe('an MLflow that fails briefly', () => {
    test.each(Object.keys(PASSING_FAULTS))('does not fail the run by %s', async (name) => {
      const one = await pipeline.caseOf(`passing-${name.replace(/\W+/g, '-')}`, linesOf(name), { retry: PATIENT });
      pipeline.mlflowProxy.inject(PASSING_FAULTS[name]?.() ?? (() => undefined));
      const outcome = await one.run();
      expect(pipeline.mlflowProxy.injected()).toBeGreaterThan(0);
      const count = await expectWhole(one, outcome);
      expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
      expect(count.verdicts).toBe(outcome.summary.verdicts.newVerdicts);
      await expectSettled(pipeline, one, count);
    });
  });

  describe('an MLflow that fails for longer', () => {
    test('does not fail the run by truncating some answers', async () => {
      const one = await pipeline.caseOf('stalling', linesOf('stalling'), { timeoutMs: 1_500 });
      pipeline.mlflowProxy.inject(firstOnes(3, isWrite, { kind: 'stall' }));
      const outcome = await one.run();
      expect(pipeline.mlflowProxy.injected()).toBe(3);
      await expectSettled(pipeline, one, await expectWhole(one, outcome));
    });

    test('does not fail the run by restarting while traces are written', async () => {
      const one = await pipeline.caseOf('restarting', linesOf('restarting', 230), {
        retry: { baseMs: 500, capMs: 4_000 },
      });
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

    test('fails the run by name when it stays unavailable, and a retry completes it', async () => {
      const one = await pipeline.caseOf('away', linesOf('away'));
      const failed = await one.run(one.event(), {
        planned: async () => pipeline.mlflowProxy.inject(() => ({ kind: 'reply', status: 503 })),
      });
      expectFailed(failed, 'MlflowUnavailable');
      expect(failed.summary.lines.lost).toBe(failed.summary.lines.planned);
      pipeline.heal();
      await expectSettled(pipeline, one, await expectWhole(one, await one.retry(failed)));
    });

    test('fails the run by name when it denies posts from then on, and what it has taken counts once, with the retry', async () => {
      const one = await pipeline.caseOf('denied', linesOf('denied', 24));
      let posts = 0;
      pipeline.mlflowProxy.inject((request) => {
        if (isTraceWrite(request)) posts += 1;
        return posts > 15 && isTraceWrite(request) ? { kind: 'reply', status: 401 } : undefined;
      });
      const failed = await one.run();
      expectFailed(failed, /Mlflow/);
      pipeline.heal();
      const retry = await one.retry(failed);
      const count = await expectWhole(one, retry);
      const captures = async ({ run }: { run: string }) =>
        sumOfCells(cellsOf(await countsOfRuns(pipeline.storage, WORK, [run], true))).captures ?? 0;
      const [before, after] = [await captures(failed), await captures(retry)];
      expect(before).toBeGreaterThan(4);
      expect(before + after).toBe(count.records);
      await expectSettled(pipeline, one, count);
    });

    test('fails the run by name when the experiment is deleted, and a retry completes it once the experiment is restored', async () => {
      const one = await pipeline.caseOf('deleted-experiment', linesOf('deleted-experiment'));
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
      await expectSettled(pipeline, one, await expectWhole(one, await one.retry(failed)));
    });

    test('fails the run by name when the credentials for managed MLflow expire, and a retry completes it', async () => {
      let credentials = MANAGED_CREDENTIALS;
      const app = { upstream: pipeline.server.url, arn: MANAGED_ARN, credentials };
      const double = await startSageMakerMlflowDouble(app);
      try {
        const managed = { trackingUri: double.arn, customEndpoint: double.url, credentials: async () => credentials };
        const one = pipeline.case('expiring', managed);
        await one.put(linesOf('expiring'));
        const failed = await one.run(one.event(), { planned: async () => double.expire() });
        expectFailed(failed, 'CredentialsExpired');
        expect(failed.summary.lines.lost).toBe(failed.summary.lines.planned);
        credentials = { ...MANAGED_CREDENTIALS, sessionToken: 'renewed-session-token' };
        double.setCredentials(credentials);
        await expectSettled(pipeline, one, await expectWhole(one, await one.retry(failed)));
      } finally {
        await double.stop();
      }
    });
  });

  describe('a record that MLflow cannot process', () => {
    test.each([500, 400])(
      'answered with HTTP %i is the only line in quarantine, and a retry traces it',
      async (status) => {
        const marker = `faulty${status}`;
        const one = pipeline.case(marker);
        const lines = [...linesOf(marker), chatLine(`${marker}pill`, TIME)];
        await one.put(lines);
        const isPoisoned = (request: SeenRequest) => isTraceWrite(request) && request.body.includes(`${marker}pill`);
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
        const retry = await one.retry(outcome, 'quarantined');
        expect(retry.summary.lines).toMatchObject({ planned: 2, traced: 1, quarantined: 1 });
        await expectSettled(pipeline, one, { ...(await one.count()), missing: [] });
      },
    );
  });

  describe('S3', () => {
    test('does not fail the run by answering 503 SlowDown to every third request', async () => {
      const one = await pipeline.caseOf('slow-down', linesOf('slow-down'));
      pipeline.s3Proxy.inject(everyNth(3, isAny, slowDown));
      const outcome = await one.run();
      expect(pipeline.s3Proxy.injected()).toBeGreaterThan(0);
      await expectSettled(pipeline, one, await expectWhole(one, outcome));
    });

    test('does not fail the run by cutting connections before and after the work', async () => {
      const one = await pipeline.caseOf('s3-cuts', linesOf('s3-cuts'));
      const before = everyNth(4, isAny, { kind: 'cut' });
      const after = everyNth(3, inBucket('fault-work', 'PUT'), { kind: 'passThenCut' });
      pipeline.s3Proxy.inject((request) => before(request) ?? after(request));
      await expectSettled(pipeline, one, await expectWhole(one, await one.run()));
    });

    test('fails the run by name when the object is overwritten between planning and reading', async () => {
      const one = await pipeline.caseOf('overwritten', linesOf('older'));
      const newer = linesOf('newer', 3);
      const outcome = await one.run(one.event(), { planned: () => one.put(newer) });
      expectFailed(outcome, 'CaptureChanged');
      expect(outcome.summary.lines.lost).toBe(outcome.summary.lines.planned);
      expect((await one.count()).traced).toBe(0);
      const count = await expectWhole(one, await one.run());
      expect(count.lines).toBe(newer.length);
      await expectSettled(pipeline, one, count);
    });

    test('fails the run by name when the object is deleted between planning and reading', async () => {
      const one = pipeline.case('removed');
      const key = await one.put(linesOf('removed'));
      const outcome = await one.run(one.event(), { planned: () => one.remove(key) });
      expectFailed(outcome, 'CaptureMissing');
      expect(outcome.summary.lines).toMatchObject({ planned: CHATS + 3, lost: CHATS + 3 });
    });

    test.each(['plan', 'receipts', 'quarantine'])(
      'fails the run when the %s cannot be written, and the same input completes it later',
      async (what) => {
        const one = await pipeline.caseOf(`unwritable-${what}`, linesOf(`unwritable-${what}`));
        const isDenied = (request: SeenRequest) =>
          inBucket('fault-work')(request) && ['PUT', 'POST'].includes(request.method) && request.path.includes(what);
        pipeline.s3Proxy.inject((request) => (isDenied(request) ? accessDenied : undefined));
        const failed = await one.run();
        expectFailed(failed, what === 'receipts' ? 'NoReceipt' : 'StorageAccessDenied');
        pipeline.heal();
        expectNothingDoubled(await one.count().catch(() => ({ wrong: [], doubledVerdicts: [] }) as unknown as Count));
        await expectSettled(pipeline, one, await expectWhole(one, await one.run()));
      },
    );
  });

  describe('the judge', () => {
    test('does not lose a verdict when Bedrock throttles half of the calls', async () => {
      const one = await pipeline.caseOf('throttling', linesOf('throttling', 12));
      pipeline.judge.behave({ throttleShare: 0.5 });
      const outcome = await one.run();
      const count = await expectWhole(one, outcome);
      expect(outcome.summary.verdicts.failed).toBe(0);
      expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
      await expectSettled(pipeline, one, count);
    });

    test('fails the run by name when Bedrock refuses the model, and a retry completes it', async () => {
      const one = await pipeline.caseOf('refusing', linesOf('refusing'));
      pipeline.judge.behave({ models: { '*': { state: 'denied' } } });
      const failed = await one.run();
      expectFailed(failed, /Judge|Model/);
      expect(failed.summary.lines.lost).toBe(0);
      expect(failed.summary.verdicts.lost).toBeGreaterThan(0);
      pipeline.heal();
      const retry = await one.retry(failed);
      const count = await expectWhole(one, retry);
      expect(count.failedVerdicts).toBe(0);
      await expectSettled(pipeline, one, count);
    });

    test.each(['cut', 'prose'] as const)(
      'records errors for %s answers, and the next run replaces them by verdicts',
      async (fault) => {
        const one = await pipeline.caseOf(`answers-${fault}`, linesOf(`answers-${fault}`));
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

    test('keeps the answers of a function that runs out of time, and the next attempt asks for the rest', async () => {
      const one = await pipeline.caseOf('out-of-time', linesOf('out-of-time'));
      pipeline.judge.behave({ delayMs: 3_000 });
      // 45 s are reserved to finish, so one second is left to judge.
      const evaluateMs: RunHooks['evaluateMs'] = (attempt) => {
        if (attempt > 0) pipeline.judge.behave({});
        return attempt === 0 ? 46_000 : undefined;
      };
      const outcome = await one.run(one.event(), { evaluateMs });
      expect(outcome.errors).toEqual(['ChunkOutOfTime']);
      await expectSettled(pipeline, one, await expectWhole(one, outcome));
    });
  });

  describe('killed and concurrent runs', () => {
    const lines = 300;

    test('writes the remaining traces after a function was killed', async () => {
      const one = await pipeline.caseOf('killed', linesOf('killed', lines));
      // By OTLP, two requests of 100 traces are in flight together: when the first is answered, the third is not yet sent.
      const isOtlp = (request: SeenRequest) => request.path === '/v1/traces';
      const isPost = (request: SeenRequest) => isTraceWrite(request) && request.method === 'POST' && !isOtlp(request);
      const kill = () => pipeline.killWorker();
      pipeline.mlflowProxy.inject(firstFault(afterReplies(1, isOtlp, kill), afterReplies(20, isPost, kill)));
      const outcome = await one.run(one.event(one.key(), { evaluate: false }), { inProcess: 'log' });
      expect(outcome.errors).toEqual(['Runtime.ExitError']);
      const count = await expectWhole(one, outcome);
      // What the killed function wrote counts for the run too.
      expect(outcome.summary.lines).toMatchObject({ written: count.traced, alreadyThere: 0 });
      expect(count.records).toBe(lines + 1);
    });

    test('duplicates nothing when two runs process the same records from different files', async () => {
      const one = await pipeline.caseOf('overlapping', linesOf('overlapping', 20));
      const copy = await one.put(linesOf('overlapping', 20), one.key('copy'));
      const outcomes = await Promise.all([one.run(), one.run(one.event(copy))]);
      for (const outcome of outcomes) await expectWhole(one, outcome);
      await expectSettled(pipeline, one, await one.count());
    });
  });
});
