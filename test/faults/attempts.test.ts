/**
 * What one attempt of a chunk leaves behind and the next one finds: credentials that run out, a function that is killed
 * with the judge's answers in its hands, a quarantine that is over, a server that fails at random through it all.
 * `FAULT_MLFLOW_VERSIONS=3.13.0` tests this version alone.
 */
import { DEFAULT_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import { type Fault, firstOnes, type ProxiedRequest, someOf } from '../doubles/fault-proxy.ts';
import { inBucket, isAny, isTraceWrite, isVerdictWrite } from '../doubles/fault-rules.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import { FaultPipeline } from '../helpers/fault-pipeline.ts';
import {
  expectEquations,
  expectFailed,
  expectNothingDoubled,
  expectSettled,
  expectWhole,
  linesOf,
} from '../helpers/fault-suite.ts';
import { START_LIMIT_MS } from '../helpers/mlflow-plain.ts';

jest.setTimeout(240_000);

/** The one server that traces go to by files of spans, and the one that takes them by OTLP. */
const versions = process.env.FAULT_MLFLOW_VERSIONS?.split(',') ?? ['3.10.1', DEFAULT_MLFLOW_VERSION];

/** As S3 answers a session token whose time is over. */
const expiredToken: Fault = {
  kind: 'reply',
  status: 400,
  headers: { 'content-type': 'application/xml' },
  body: '<?xml version="1.0" encoding="UTF-8"?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>',
};
/** As Bedrock does. */
const EXPIRED_AT_BEDROCK = { errorShare: 1, errorStatus: 403, errorType: 'ExpiredTokenException' };

const HOUR_MS = 3_600_000;

describe.each(versions)('with MLflow %s', (version) => {
  let pipeline: FaultPipeline;

  beforeAll(async () => {
    pipeline = await FaultPipeline.start(version);
  }, START_LIMIT_MS);
  afterAll(() => pipeline?.stop());
  afterEach(() => pipeline.heal());

  describe('credentials for S3 that run out', () => {
    test.each([
      ['reading the captures', inBucket('fault-captures', 'GET')],
      ['writing the receipt', (request: ProxiedRequest) => /\/receipts\/.*log-000/.test(request.path)],
    ])('while %s: named, and the next attempt goes on with fresh ones', async (name, matches) => {
      const one = pipeline.case(`expired-once-${name.replace(/\W+/g, '-')}`);
      await one.put(linesOf(name));
      const outcome = await one.run(one.event(), {
        planned: async () => pipeline.s3Proxy.inject(firstOnes(1, matches, expiredToken)),
      });
      expect(pipeline.s3Proxy.injected()).toBe(1);
      expect(outcome.errors).toEqual(['CredentialsExpired']);
      await expectSettled(pipeline, one, await expectWhole(one, outcome));
    });

    test('for good: the run fails by that name, and its retry heals', async () => {
      const one = pipeline.case('expired-for-good');
      await one.put(linesOf('expired-for-good'));
      const failed = await one.run(one.event(), {
        planned: async () =>
          pipeline.s3Proxy.inject((request) => (inBucket('fault-captures', 'GET')(request) ? expiredToken : undefined)),
      });
      expectFailed(failed, 'CredentialsExpired');
      expect(failed.summary.lines.lost).toBe(failed.summary.lines.planned);
      expect((await one.count()).traced).toBe(0);
      pipeline.heal();
      const retry = await one.run({ retry: { run: failed.run, what: 'failed' } });
      await expectSettled(pipeline, one, await expectWhole(one, retry));
    });
  });

  describe('credentials for Bedrock that run out', () => {
    test('in the middle: what was answered is kept, and the next attempt asks for the rest', async () => {
      const one = pipeline.case('judge-expired');
      await one.put(linesOf('judge-expired', 12));
      pipeline.judge.forget();
      pipeline.judge.behave({ ...EXPIRED_AT_BEDROCK, errorShare: 0.4, faultyCalls: 10 });
      const outcome = await one.run();
      expect(new Set(outcome.errors)).toEqual(new Set(['CredentialsExpired']));
      const count = await expectWhole(one, outcome);
      expect(outcome.summary.verdicts.failed).toBe(0);
      expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
      await expectSettled(pipeline, one, count);
    });

    test('for good: the run fails by that name, and its retry heals', async () => {
      const one = pipeline.case('judge-expired-for-good');
      await one.put(linesOf('judge-expired-for-good'));
      pipeline.judge.behave(EXPIRED_AT_BEDROCK);
      const failed = await one.run();
      expectFailed(failed, 'CredentialsExpired');
      expect(failed.summary.lines.lost).toBe(0);
      expect(failed.summary.verdicts.lost).toBeGreaterThan(0);
      expectNothingDoubled(await one.count());
      pipeline.heal();
      const retry = await one.run({ retry: { run: failed.run, what: 'failed' } });
      await expectSettled(pipeline, one, await expectWhole(one, retry));
    });
  });

  test('an evaluator killed between the judge’s answer and its writing: asked once, written once, paid once', async () => {
    const one = pipeline.case('killed-evaluator');
    // Each line once: after the kill the two halves would tell of a line that is in both.
    await one.put([...new Set(linesOf('killed-evaluator', 12))]);
    pipeline.judge.forget();
    let writes = 0;
    let killed = 0;
    pipeline.mlflowProxy.inject((request) => {
      if (!isVerdictWrite(request) || killed > 0) return undefined;
      writes += 1;
      if (writes < 4) return undefined;
      killed = pipeline.judge.counts.calls;
      pipeline.killWorker();
      return { kind: 'cutBefore' };
    });
    const outcome = await one.run(one.event(), { inProcess: 'evaluate' });
    expect(killed).toBeGreaterThan(0);
    expect(outcome.errors).toEqual(['Runtime.ExitError']);
    const count = await expectWhole(one, outcome);
    expect(count.failedVerdicts).toBe(0);
    // What the killed attempt wrote is found, and so is what it had only been answered.
    const { verdicts, spend } = outcome.summary;
    expect(verdicts.alreadyThere).toBeGreaterThan(0);
    // The line that is there twice counts once more where its two places come into two parts of the chunk.
    expect(verdicts.newVerdicts + verdicts.alreadyThere).toBeGreaterThanOrEqual(count.verdicts);
    // It left no receipt: the next one tells what it had paid, save for calls whose answer was on its way when it died.
    expect(outcome.summary.unreportedAttempts).toBe(1);
    expect(spend.calls).toBe(12);
    expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
    await expectSettled(pipeline, one, count);
  });

  describe('an evaluator that is frozen with answers in hand, and goes on', () => {
    test.each(['when the next attempt has done the chunk', 'while the next attempt writes'])('%s', async (when) => {
      const one = pipeline.case(`frozen-evaluator-${when.split(' ')[0]}`);
      const judged = 12;
      await one.put([...new Set(linesOf(`frozen-${when.split(' ')[0]}`, judged))]);
      pipeline.judge.forget();
      let [claims, kept, keptWhenFrozen, writes] = [0, 0, 0, 0];
      let letGo = (): void => undefined;
      const frozen = new Promise<void>((resolve) => {
        letGo = resolve;
      });
      let thawed: Promise<void> | undefined;
      pipeline.s3Proxy.inject((request) => {
        if (request.method !== 'PUT' || !request.path.includes('/answers/')) return undefined;
        if (request.body.includes('"verdict"')) {
          const work = () => {
            kept += 1;
          };
          return { kind: 'passThen', work };
        }
        claims += 1;
        // The frozen one has claimed these lines, and learns of it when it goes on.
        return claims > judged / 2 ? { kind: 'passThen', work: () => frozen } : undefined;
      });
      pipeline.mlflowProxy.inject((request) => {
        if (!isVerdictWrite(request)) return undefined;
        writes += 1;
        if (writes === 4) {
          keptWhenFrozen = kept;
          pipeline.freezeWorker();
          letGo();
        }
        if (writes === 6 && when.startsWith('while')) thawed = pipeline.thawWorker();
        return undefined;
      });
      const outcome = await one.run(one.event(), {
        inProcess: 'evaluate',
        evaluated: async () => {
          thawed ??= pipeline.thawWorker();
          await thawed;
        },
      });
      expect(outcome.errors).toEqual(['Runtime.ExitError']);
      expect(keptWhenFrozen).toBeGreaterThanOrEqual(4);
      const count = await expectWhole(one, outcome);
      expect(count.failedVerdicts).toBe(0);
      // An answer that was in the work bucket at that moment is paid once. A line that the frozen one had claimed, and had
      // no answer to, may be paid twice: the next attempt asks, and so does the frozen one, which does not know that it stood.
      const { calls } = pipeline.judge.counts;
      expect(keptWhenFrozen).toBeLessThanOrEqual(judged / 2);
      expect(calls).toBeLessThanOrEqual(judged + (judged - keptWhenFrozen));
      // Each call is told once, though what the frozen one had paid is told by the next attempt, and by itself in the end.
      expect(outcome.summary.spend.calls).toBe(calls);
      expect(outcome.equations.usd).toBeCloseTo(outcome.summary.spend.usd ?? -1, 6);
      expect(outcome.summary.unreportedAttempts).toBeUndefined();
      await expectSettled(pipeline, one, count);
    });
  });

  test('a processor that is frozen among its writes, and goes on when the next attempt is done: each record one trace', async () => {
    const one = pipeline.case('frozen-processor');
    await one.put(linesOf('frozen-processor', 230));
    let frozen = 0;
    pipeline.mlflowProxy.inject((request) => {
      if (!isTraceWrite(request)) return undefined;
      frozen += 1;
      if (frozen === 2) pipeline.freezeWorker();
      return undefined;
    });
    const outcome = await one.run(one.event(one.key(), { evaluate: false }), {
      inProcess: 'log',
      logged: () => pipeline.thawWorker(),
    });
    expect(outcome.errors).toEqual(['Runtime.ExitError']);
    const count = await expectWhole(one, outcome);
    expect([count.records, count.traced]).toEqual([231, 231]);
  });

  describe('a function whose clock is off', () => {
    const clocks = [
      ['ahead', HOUR_MS],
      ['behind', -HOUR_MS],
    ] as const;

    test.each(clocks.flatMap(([name, ms]) => (['log', 'evaluate'] as const).map((step) => [step, name, ms] as const)))(
      'step %s, an hour %s: the run is whole',
      async (step, name, clockAheadMs) => {
        const one = pipeline.case(`clock-${name}-${step}`);
        await one.put(linesOf(`clock-${name}-${step}`));
        const outcome = await one.run(one.event(), { inProcess: step, clockAheadMs });
        expect(outcome.errors).toEqual([]);
        const count = await expectWhole(one, outcome);
        expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
        await expectSettled(pipeline, one, count);
      },
    );

    test.each(clocks)(
      'an hour %s, and killed with its claims: the next attempt asks for the rest',
      async (name, clockAheadMs) => {
        const one = pipeline.case(`clock-${name}-killed`);
        await one.put([...new Set(linesOf(`clock-${name}-killed`, 12))]);
        pipeline.judge.behave({ delayMs: 100 });
        let writes = 0;
        pipeline.mlflowProxy.inject((request) => {
          if (!isVerdictWrite(request)) return undefined;
          writes += 1;
          if (writes === 2) pipeline.killWorker();
          return undefined;
        });
        // So little time that waiting for the claims of the killed one ends the attempt.
        const outcome = await one.run(one.event(), { inProcess: 'evaluate', clockAheadMs, evaluateMs: () => 55_000 });
        expect(outcome.errors).toEqual(['Runtime.ExitError']);
        const count = await expectWhole(one, outcome);
        expect(count.failedVerdicts).toBe(0);
        await expectSettled(pipeline, one, count);
      },
    );
  });

  test('MLflow away for longer than its client tries, with the answers in hand: a later attempt writes them, each paid once', async () => {
    const one = pipeline.case('away-with-answers', { retry: { baseMs: 5, capMs: 20, attempts: 2 } });
    await one.put(linesOf('away-with-answers', 12));
    pipeline.judge.forget();
    pipeline.mlflowProxy.inject(firstOnes(60, isVerdictWrite, { kind: 'reply', status: 503 }));
    const outcome = await one.run();
    expect(pipeline.mlflowProxy.injected()).toBe(60);
    expect(outcome.errors.length).toBeGreaterThan(1);
    expect(new Set(outcome.errors)).toEqual(new Set(['MlflowUnavailable']));
    const count = await expectWhole(one, outcome);
    expect(count.failedVerdicts).toBe(0);
    expect([pipeline.judge.counts.calls, outcome.summary.spend.calls]).toEqual([12, 12]);
    expect(outcome.equations.usd).toBeCloseTo(count.judgeCost, 6);
    await expectSettled(pipeline, one, count);
  });

  test('what a failed attempt has put into quarantine, and the next one has traced, is in quarantine no longer', async () => {
    const one = pipeline.case('over');
    // Without the line that is no record: the next attempt has nothing at all for the quarantine.
    await one.put(linesOf('over').slice(0, -1));
    const isRefused = (request: ProxiedRequest) => isTraceWrite(request) && request.body.includes('over-3');
    pipeline.mlflowProxy.inject((request) =>
      isRefused(request) ? { kind: 'reply', status: 400, body: '{"error_code":"INVALID_PARAMETER_VALUE"}' } : undefined,
    );
    let quarantined = 0;
    const outcome = await one.run(one.event(), {
      planned: async () =>
        pipeline.s3Proxy.inject((request) => {
          if (request.method === 'PUT' && request.path.includes('/quarantine/')) quarantined += request.body.length;
          if (!/\/receipts\/.*log-000/.test(request.path)) return undefined;
          pipeline.mlflowProxy.heal();
          return expiredToken;
        }),
    });
    expect(quarantined).toBeGreaterThan(0);
    expect(outcome.errors).toEqual(['CredentialsExpired']);
    const count = await expectWhole(one, outcome);
    expect(outcome.equations).toMatchObject({ quarantinedInObjects: 0, quarantinedInReceipts: 0 });
    expect(outcome.summary.lines.quarantined).toBe(0);
    const retry = await one.run({ retry: { run: outcome.run, what: 'quarantined' } });
    expect(retry.summary.lines.planned).toBe(0);
    await expectSettled(pipeline, one, count);
  });

  const byFiles = version === DEFAULT_MLFLOW_VERSION ? test.skip : test;

  byFiles(
    'a function killed while its file of spans is mixed with another run’s: the next attempt mends it',
    async () => {
      const one = pipeline.case('mixed');
      await one.put(linesOf('mixed', 20));
      const copy = await one.put(linesOf('mixed', 20), one.key('copy-with-a-longer-name'));
      const withoutVerdicts = { evaluate: false };
      let mixed = 0;
      pipeline.mlflowProxy.inject((request) => {
        if (mixed > 0 || request.method !== 'PUT') return undefined;
        mixed += 1;
        const work = async () => {
          await expectWhole(one, await one.run(one.event(one.key(), withoutVerdicts)));
          // What a server is left with that copies two files to one place at once.
          const body = new Uint8Array(Buffer.concat([request.body, request.body.subarray(-9)]));
          const reply = await fetch(new URL(request.path, pipeline.server.url), { method: 'PUT', body });
          expect(reply.status).toBe(200);
          expect((await one.count()).missing).toHaveLength(1);
          pipeline.killWorker();
        };
        return { kind: 'passThen', work };
      });
      const outcome = await one.run(one.event(copy, withoutVerdicts), { inProcess: 'log' });
      expect(mixed).toBe(1);
      expect(outcome.errors).toEqual(['Runtime.ExitError']);
      expect(outcome.summary.lines.written).toBe(0);
      await expectWhole(one, outcome);
    },
  );

  test.each([0.3, 0.5])(
    'MLflow failing on %d of all requests: no good record in quarantine, all of them traced',
    async (share) => {
      const one = pipeline.case(`random-${share * 10}`);
      const name = `random-${share * 10}`;
      await one.put(linesOf(name, 40));
      pipeline.mlflowProxy.inject(someOf(share, isAny, { kind: 'reply', status: 500, body: '{}' }));
      const first = await one.run(one.event(one.key(), { evaluate: false }));
      expect(pipeline.mlflowProxy.injected()).toBeGreaterThan(0);
      expect(first.summary.quarantineReasons).not.toHaveProperty('MlflowFailsOnTrace');
      // A run that ends before the server is well says so; what it has not traced is lost, not refused.
      let last = first;
      for (let runs = 1; last.summary.status === 'failed' && runs < MOST_RUNS; runs += 1) {
        expectFailed(last, 'MlflowUnavailable');
        last = await one.run({ retry: { run: last.run, what: 'failed' } });
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

  test('a poisonous record while MLflow fails on 0.2 of all requests: it alone is in quarantine', async () => {
    const one = pipeline.case('poison-and-random');
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

/** A run more or less is luck: the share of the requests that fail is the same in each. */
const MOST_RUNS = 4;
