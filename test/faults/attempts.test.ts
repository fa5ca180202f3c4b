/**
 * Faults that span several attempts at a chunk: credentials expire, a function is killed before it writes the judge's
 * answers, a quarantined line is traced later, a server fails at random. `FAULT_MLFLOW_VERSIONS=3.13.0` selects a version.
 */
import { DEFAULT_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import { firstOnes, someOf } from '../doubles/fault-proxy.ts';
import { inBucket, isAny, isTraceWrite, isVerdictWrite } from '../doubles/fault-rules.ts';
import type { Behavior, SeenRequest } from '../doubles/misbehaving-server.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import {
  expectEquations,
  expectFailed,
  expectNothingDoubled,
  expectSettled,
  expectWhole,
  linesOf,
} from '../helpers/fault-expectations.ts';
import { FaultPipeline } from '../helpers/fault-pipeline.ts';
import { START_LIMIT_MS } from '../helpers/mlflow-plain.ts';

jest.setTimeout(240_000);

/** A server that gets traces as files of spans, and one that gets them by OTLP. */
const versions = process.env.FAULT_MLFLOW_VERSIONS?.split(',') ?? ['3.10.1', DEFAULT_MLFLOW_VERSION];

/** S3’s reply to an expired session token. */
const expiredToken: Behavior = {
  kind: 'reply',
  status: 400,
  headers: { 'content-type': 'application/xml' },
  body: '<?xml version="1.0" encoding="UTF-8"?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>',
};
/** Bedrock’s reply to it. */
const EXPIRED_AT_BEDROCK = { errorShare: 1, errorStatus: 403, errorType: 'ExpiredTokenException' };

const HOUR_MS = 3_600_000;

describe.each(versions)('with MLflow %s', (version) => {
  let pipeline: FaultPipeline;

  beforeAll(async () => {
    pipeline = await FaultPipeline.start(version);
  }, START_LIMIT_MS);
  afterAll(() => pipeline?.stop());
  afterEach(() => pipeline.heal());

  describe('credentials for S3 that expire', () => {
    test.each([
      ['reading the captures', inBucket('fault-captures', 'GET')],
      ['writing the receipt', (request: SeenRequest) => /\/receipts\/.*evaluate-000/.test(request.path)],
    ])('while %s fail the attempt by name, and the next attempt continues with new ones', async (name, matches) => {
      const one = await pipeline.caseOf(`expired-once-${name.replace(/\W+/g, '-')}`, linesOf(name));
      const outcome = await one.run(one.event(), {
        planned: async () => pipeline.s3Proxy.inject(firstOnes(1, matches, expiredToken)),
      });
      expect(pipeline.s3Proxy.injected()).toBe(1);
      expect(outcome.errors).toEqual(['CredentialsExpired']);
      await expectSettled(pipeline, one, await expectWhole(one, outcome));
    });
  });

  describe('credentials for Bedrock that expire', () => {
    test('after some calls lose no answer, and the next attempt asks for the rest', async () => {
      const one = await pipeline.caseOf('judge-expired', linesOf('judge-expired', 12));
      pipeline.judge.forget();
      pipeline.judge.behave({ ...EXPIRED_AT_BEDROCK, errorShare: 0.4, faultyCalls: 10 });
      const outcome = await one.run();
      expect(new Set(outcome.errors)).toEqual(new Set(['CredentialsExpired']));
      const count = await expectWhole(one, outcome);
      expect(outcome.summary.verdicts.failed).toBe(0);
      expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
      await expectSettled(pipeline, one, count);
    });
  });

  test('an evaluator that is killed after the judge’s answers asks, writes and pays once', async () => {
    const one = await pipeline.caseOf('killed-evaluator', [...new Set(linesOf('killed-evaluator', 12))]);
    pipeline.judge.forget();
    let writes = 0;
    let killed = 0;
    pipeline.mlflowProxy.inject((request) => {
      if (!isVerdictWrite(request) || killed > 0) return undefined;
      writes += 1;
      if (writes < 4) return undefined;
      killed = pipeline.judge.counts.calls;
      pipeline.killWorker();
      return { kind: 'cut' };
    });
    const outcome = await one.run(one.event(), { inProcess: 'evaluate' });
    expect(killed).toBeGreaterThan(0);
    expect(outcome.errors).toEqual(['Runtime.ExitError']);
    const count = await expectWhole(one, outcome);
    expect(count.failedVerdicts).toBe(0);
    // The verdicts that the killed attempt wrote count for its run, and so do the answers that it only received.
    const { verdicts, spend } = outcome.summary;
    expect([verdicts.newVerdicts, verdicts.alreadyThere]).toEqual([count.verdicts, 0]);
    // It left no receipt. The next receipt reports what it paid, except for calls in flight when it was killed.
    expect(outcome.summary.unreportedAttempts).toBe(1);
    expect(spend.calls).toBe(12);
    expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
    await expectSettled(pipeline, one, count);
  });

  describe('an evaluator that is suspended after some answers and resumes', () => {
    test.each(['when the next attempt has finished the chunk', 'while the next attempt writes'])(
      '%s duplicates nothing',
      async (when) => {
        const one = pipeline.case(`suspended-evaluator-${when.split(' ')[0]}`);
        const judged = 12;
        await one.put([...new Set(linesOf(`suspended-${when.split(' ')[0]}`, judged))]);
        pipeline.judge.forget();
        let writes = 0;
        let thawed: Promise<void> | undefined;
        pipeline.mlflowProxy.inject((request) => {
          if (!isVerdictWrite(request)) return undefined;
          writes += 1;
          if (writes === 4) pipeline.freezeWorker();
          if (writes === 6 && when.startsWith('while')) thawed = pipeline.thawWorker();
          return undefined;
        });
        const outcome = await one.run(one.event(), {
          inProcess: 'evaluate',
          processed: async () => {
            thawed ??= pipeline.thawWorker();
            await thawed;
          },
        });
        expect(outcome.errors).toEqual(['Runtime.ExitError']);
        const count = await expectWhole(one, outcome);
        expect(count.failedVerdicts).toBe(0);
        // All answers were saved before the first trace was written.
        const { calls } = pipeline.judge.counts;
        expect(calls).toBe(judged);
        // Each call counts once, although the next attempt and the resumed evaluator both report what the latter paid.
        expect(outcome.summary.spend.calls).toBe(calls);
        expect(outcome.equations.usd).toBeCloseTo(outcome.summary.spend.usd ?? -1, 6);
        expect(outcome.summary.unreportedAttempts).toBeUndefined();
        await expectSettled(pipeline, one, count);
      },
    );
  });

  test('a processor that is suspended while it writes, and resumes after the next attempt, duplicates no trace', async () => {
    const one = await pipeline.caseOf('frozen-processor', linesOf('frozen-processor', 230));
    let frozen = 0;
    pipeline.mlflowProxy.inject((request) => {
      if (!isTraceWrite(request)) return undefined;
      frozen += 1;
      if (frozen === 2) pipeline.freezeWorker();
      return undefined;
    });
    const outcome = await one.run(one.event(one.key(), { evaluate: false }), {
      inProcess: 'log',
      processed: () => pipeline.thawWorker(),
    });
    expect(outcome.errors).toEqual(['Runtime.ExitError']);
    const count = await expectWhole(one, outcome);
    expect([count.records, count.traced]).toEqual([231, 231]);
  });

  describe('a function with a wrong clock', () => {
    const clocks = [
      ['ahead', HOUR_MS],
      ['behind', -HOUR_MS],
    ] as const;

    test.each(clocks.flatMap(([name, ms]) => (['log', 'evaluate'] as const).map((step) => [step, name, ms] as const)))(
      'in step %s, an hour %s, completes the run',
      async (step, name, clockAheadMs) => {
        const one = await pipeline.caseOf(`clock-${name}-${step}`, linesOf(`clock-${name}-${step}`));
        const outcome = await one.run(one.event(), { inProcess: step, clockAheadMs });
        expect(outcome.errors).toEqual([]);
        const count = await expectWhole(one, outcome);
        expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
        await expectSettled(pipeline, one, count);
      },
    );

    test.each(clocks)(
      'an hour %s, and killed while it has claims, leaves the rest to the next attempt',
      async (name, clockAheadMs) => {
        const one = await pipeline.caseOf(`clock-${name}-killed`, [...new Set(linesOf(`clock-${name}-killed`, 12))]);
        pipeline.judge.behave({ delayMs: 100 });
        let writes = 0;
        pipeline.mlflowProxy.inject((request) => {
          if (!isVerdictWrite(request)) return undefined;
          writes += 1;
          if (writes === 2) pipeline.killWorker();
          return undefined;
        });
        // Too little time to wait for the end of locks that the killed attempt took by its wrong clock.
        const outcome = await one.run(one.event(), { inProcess: 'evaluate', clockAheadMs, evaluateMs: () => 95_000 });
        expect(outcome.errors).toEqual(['Runtime.ExitError']);
        const count = await expectWhole(one, outcome);
        expect(count.failedVerdicts).toBe(0);
        await expectSettled(pipeline, one, count);
      },
    );
  });

  test('answers that cannot be written while MLflow is unavailable are written by a later attempt, and paid once', async () => {
    const one = await pipeline.caseOf('away-with-answers', linesOf('away-with-answers', 12), {
      retry: { baseMs: 5, capMs: 20, attempts: 2 },
    });
    pipeline.judge.forget();
    pipeline.mlflowProxy.inject(firstOnes(40, isVerdictWrite, { kind: 'reply', status: 503 }));
    const outcome = await one.run();
    expect(pipeline.mlflowProxy.injected()).toBe(40);
    expect(outcome.errors.length).toBeGreaterThan(1);
    expect(new Set(outcome.errors)).toEqual(new Set(['MlflowUnavailable']));
    const count = await expectWhole(one, outcome);
    expect(count.failedVerdicts).toBe(0);
    expect([pipeline.judge.counts.calls, outcome.summary.spend.calls]).toEqual([12, 12]);
    expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
    await expectSettled(pipeline, one, count);
  });

  test('a line that a failed attempt quarantined and the next one traced leaves the quarantine', async () => {
    const one = pipeline.case('over');
    // Without the line that is not a record, so that the next attempt quarantines nothing.
    await one.put(linesOf('over').slice(0, -1));
    const isRefused = (request: SeenRequest) => isTraceWrite(request) && request.body.includes('over-3');
    pipeline.mlflowProxy.inject((request) =>
      isRefused(request) ? { kind: 'reply', status: 400, body: '{"error_code":"INVALID_PARAMETER_VALUE"}' } : undefined,
    );
    let quarantined = 0;
    const outcome = await one.run(one.event(), {
      planned: async () =>
        pipeline.s3Proxy.inject((request) => {
          if (request.method === 'PUT' && request.path.includes('/quarantine/')) quarantined += request.body.length;
          if (!/\/receipts\/.*evaluate-000/.test(request.path)) return undefined;
          pipeline.mlflowProxy.heal();
          return expiredToken;
        }),
    });
    expect(quarantined).toBeGreaterThan(0);
    expect(outcome.errors).toEqual(['CredentialsExpired']);
    const count = await expectWhole(one, outcome);
    expect(outcome.equations).toMatchObject({ quarantinedInObjects: 0, quarantinedInReceipts: 0 });
    expect(outcome.summary.lines.quarantined).toBe(0);
    const retry = await one.retry(outcome, 'quarantined');
    expect(retry.summary.lines.planned).toBe(0);
    await expectSettled(pipeline, one, count);
  });

  const byFiles = version === DEFAULT_MLFLOW_VERSION ? test.skip : test;

  byFiles(
    'a file of spans that is mixed with another one when the function is killed is repaired by the next attempt',
    async () => {
      const one = await pipeline.caseOf('mixed', linesOf('mixed', 20));
      let mixed = 0;
      pipeline.mlflowProxy.inject((request) => {
        if (mixed > 0 || request.method !== 'PUT') return undefined;
        mixed += 1;
        const work = async () => {
          // The state that a server has after two uploads to one place at the same time.
          const body = new Uint8Array(Buffer.concat([request.body, request.body.subarray(-9)]));
          const reply = await fetch(new URL(request.path, pipeline.server.url), { method: 'PUT', body });
          expect(reply.status).toBe(200);
          expect((await one.count()).missing).not.toHaveLength(0);
          pipeline.killWorker();
        };
        return { kind: 'passThen', work };
      });
      const outcome = await one.run(one.event(one.key(), { evaluate: false }), { inProcess: 'log' });
      expect(mixed).toBe(1);
      expect(outcome.errors).toEqual(['Runtime.ExitError']);
      await expectWhole(one, outcome);
    },
  );

  test.each([0.3, 0.5])(
    'traces all records and quarantines none when MLflow fails on %d of all requests',
    async (share) => {
      const one = pipeline.case(`random-${share * 10}`);
      const name = `random-${share * 10}`;
      await one.put(linesOf(name, 40));
      pipeline.mlflowProxy.inject(someOf(share, isAny, { kind: 'reply', status: 500, body: '{}' }));
      const first = await one.run(one.event(one.key(), { evaluate: false }));
      expect(pipeline.mlflowProxy.injected()).toBeGreaterThan(0);
      expect(first.summary.quarantineReasons).not.toHaveProperty('MlflowFailsOnTrace');
      // A run that ends too early reports it. Its untraced lines are lost, not refused.
      let last = first;
      for (let runs = 1; last.summary.status === 'failed' && runs < MOST_RUNS; runs += 1) {
        expectFailed(last, 'MlflowUnavailable');
        last = await one.retry(last);
        expect(last.summary.quarantineReasons).not.toHaveProperty('MlflowFailsOnTrace');
      }
      expect(last.summary.status).toBe('succeeded');
      expectEquations(last);
      pipeline.heal();
      const count = await one.count();
      expectNothingDoubled(count);
      expect({ missing: count.missing, tokens: count.tokens }).toEqual({ missing: [], tokens: count.expectedTokens });
      await expectWhole(one, await one.run());
    },
  );

  test('quarantines only the record that MLflow cannot process while MLflow fails on 0.2 of all requests', async () => {
    const one = pipeline.case('faulty-and-random');
    const lines = [...linesOf('por', 20), chatLine('porpill', '2026-11-20T10:00:00Z')];
    await one.put(lines);
    const random = someOf(0.2, isAny, { kind: 'reply', status: 500, body: '{}' });
    pipeline.mlflowProxy.inject((request) =>
      isTraceWrite(request) && request.body.includes('porpill')
        ? { kind: 'reply', status: 500, body: '{}' }
        : random(request),
    );
    const outcome = await one.run(one.event(one.key(), { evaluate: false }));
    expect(outcome.summary.status).toBe('succeeded');
    expectEquations(outcome);
    expect(outcome.equations.quarantinedLines.sort()).toEqual([lines.at(-1), lines.at(-2)].sort());
    const count = await one.count();
    expectNothingDoubled(count);
    expect(count.missing).toHaveLength(1);
  });
});

/** The number of runs that are needed varies by chance. The share of failing requests is the same in each. */
const MOST_RUNS = 4;
