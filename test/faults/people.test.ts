/**
 * A person changes traces and verdicts at random moments, while runs over the same records overlap, are killed at random
 * requests, retried and repeated. `FAULT_SEED=7` repeats a test, `FAULT_ROUNDS=20` makes more of them,
 * `FAULT_MLFLOW_VERSIONS=3.13.0` selects a version.
 */

import type { DynamoDBClient, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { DEFAULT_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import { createMlflowClient } from '../../src/mlflow/client.ts';
import { type FaultProxy, type FaultRule, startFaultProxy } from '../doubles/fault-proxy.ts';
import { pseudoRandom } from '../doubles/faulty-judge/behavior.ts';
import { expectEquations, linesOf } from '../helpers/fault-expectations.ts';
import {
  clientOf,
  type FaultCase,
  FaultPipeline,
  KILLED,
  type Life,
  type RunHooks,
  type RunOutcome,
  TABLE,
} from '../helpers/fault-pipeline.ts';
import { START_LIMIT_MS } from '../helpers/mlflow-plain.ts';
import { Person } from '../helpers/person.ts';

jest.setTimeout(1_500_000);

const versions = process.env.FAULT_MLFLOW_VERSIONS?.split(',') ?? ['3.10.1', DEFAULT_MLFLOW_VERSION];
const first = Number(process.env.FAULT_SEED ?? 1);
const seeds = Array.from({ length: Number(process.env.FAULT_ROUNDS ?? 3) }, (_, n) => first + n);

const CHATS = 25;
/** More requests than an attempt makes in any version: some attempts are not killed. */
const KILLED_WITHIN = 120;
const PAUSE_MS = 60;
/** Runs that are killed again and again give up. A person retries them. */
const MOST_RETRIES = 5;

describe.each(versions)('with MLflow %s', (version) => {
  let pipeline: FaultPipeline;
  const proxies: FaultProxy[] = [];
  const clients: { close(): void }[] = [];

  beforeAll(async () => {
    pipeline = await FaultPipeline.start(version);
  }, START_LIMIT_MS);
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await Promise.all(proxies.splice(0).map((proxy) => proxy.stop()));
    pipeline.heal();
  });
  afterAll(() => pipeline?.stop());

  /** Returns a life that ends at the given request to S3 or MLflow, before or after its effect. */
  async function lifeOf(lastRequest: number, isBefore: boolean): Promise<Life> {
    let die: (error: Error) => void = () => undefined;
    const killed = new Promise<never>((_, reject) => {
      die = reject;
    });
    killed.catch(() => undefined);
    let requests = 0;
    const rule: FaultRule = () => {
      requests += 1;
      if (requests < lastRequest) return undefined;
      if (requests === lastRequest) die(Object.assign(new Error('killed'), { name: KILLED }));
      if (requests > lastRequest || isBefore) return { kind: 'hang' };
      return { kind: 'passThen', work: () => new Promise(() => undefined) };
    };
    const [s3, mlflow] = await Promise.all([
      startFaultProxy(pipeline.ministack.url),
      startFaultProxy(pipeline.server.url),
    ]);
    for (const proxy of [s3, mlflow]) proxy.inject(rule);
    proxies.push(s3, mlflow);
    const client = clientOf(s3.url, 3);
    const retry = { baseMs: 20, capMs: 300 };
    const store = createMlflowClient({ trackingUri: mlflow.url, s3: client, retry, timeoutMs: 8_000 });
    clients.push(store, { close: () => client.destroy() });
    const sent = (command: UpdateItemCommand) =>
      requests < lastRequest ? pipeline.dynamo.send(command) : new Promise(() => undefined);
    const mortal = { send: sent } as unknown as DynamoDBClient;
    return { deps: { storage: new Storage(client), store, table: new LimitsTable(mortal, TABLE) }, killed };
  }

  /**
   * Whether a run has saved that it wrote the trace, or a verdict. Until then, a run that is killed and repeated cannot know
   * whether it was written and deleted since.
   */
  async function isSaved(traceId: string, assessmentId?: string): Promise<boolean> {
    const { ids } = await pipeline.table.get(`sent#${traceId}`);
    return ids !== undefined && (assessmentId === undefined || (ids.S ?? '').split(' ').includes(assessmentId));
  }

  async function completed(one: FaultCase, outcome: RunOutcome, hooks: RunHooks = {}): Promise<RunOutcome> {
    let last = outcome;
    for (let retries = 0; last.summary.status === 'failed' && retries < MOST_RETRIES; retries += 1) {
      last = await one.run({ retry: { run: last.run, what: 'failed' } }, hooks);
    }
    return last;
  }

  test.each(seeds)('undoes no change of a person (seed %d)', async (seed) => {
    const random = pseudoRandom(seed);
    const one = pipeline.case(`people-${seed}`);
    await one.put([...new Set(linesOf(`people-${seed}`, CHATS))]);
    const experiment = await one.store.resolveExperiment(one.endpoint);
    /** The runs before the re-evaluation. It replaces their verdicts, and MLflow cannot do that only if nobody edits them. */
    const before = new Set<string | undefined>();
    const person = new Person(pipeline.server.url, experiment.id, pseudoRandom(seed + 1_000), {
      mayChange: ({ source, metadata }) => source.source_type !== 'HUMAN' && !before.has(metadata?.['monitoring.run']),
      mayDelete: isSaved,
      mayDeleteTrace: isSaved,
    });
    pipeline.judge.behave({ errorShare: 0.03, faultyCalls: 20, delayMs: 20 });
    const killing: RunHooks = {
      live: () => lifeOf(1 + Math.floor(random() * KILLED_WITHIN), random() < 0.5),
    };
    const finished: RunOutcome[] = [];
    const complete = async (inputs: unknown[]): Promise<void> => {
      person.start(PAUSE_MS);
      const begun = await Promise.all(inputs.map((input) => one.run(input, killing)));
      for (const outcome of begun) finished.push(await completed(one, outcome, killing));
      await person.stop();
      expect(await person.undone()).toEqual([]);
    };
    // Another sample rate makes it another request.
    await complete([one.event(), one.event(one.key(), { sampleRate: 0.999 })]);
    expect(person.changes.length).toBeGreaterThan(0);
    for (const { assessments = [] } of await person.traces()) {
      for (const { metadata } of assessments) before.add(metadata?.['monitoring.run']);
    }
    // A re-evaluation judges again what a person has deleted before.
    person.changes = person.changes.filter(({ what }) => !what.startsWith('deletion'));
    await complete([one.event(one.key(), { reevaluate: true })]);
    for (const { run } of [...finished]) {
      // Lines that a function was killed on again and again.
      finished.push(await one.run({ retry: { run, what: 'quarantined' } }));
    }
    expect(await person.undone()).toEqual([]);
    for (const outcome of finished) {
      expect([outcome.summary.status, outcome.summary.error]).toEqual(['succeeded', undefined]);
      expectEquations(outcome);
    }
    expect((await one.count()).missing.filter((id) => !person.deleted.has(id))).toEqual([]);
  });
});
