/**
 * A person changes traces and verdicts at random moments, while runs over the same records overlap, are killed at random
 * requests, retried and repeated. `FAULT_SEED=7` repeats a test, `FAULT_ROUNDS=20` makes more of them,
 * `FAULT_MLFLOW_VERSIONS=3.13.0` selects a version.
 */

import { randomUUID } from 'node:crypto';
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

interface Found {
  assessment_id: string;
  assessment_name: string;
  source: { source_type: string };
  feedback?: { value?: unknown; error?: unknown };
  expectation?: { value?: unknown };
  rationale?: string;
  metadata?: Record<string, string>;
  overrides?: string;
  valid?: boolean;
}

interface FoundTrace {
  trace_id: string;
  tags?: Record<string, string>;
  assessments?: Found[];
}

/** A change, and how to tell from the trace in the end that it was undone. */
interface Change {
  what: string;
  traceId: string;
  isUndone(trace: FoundTrace): boolean;
}

/** What the person leaves alone at this moment. */
interface Limits {
  mayChange(one: Found): boolean;
  mayDelete(traceId: string, assessmentId: string): Promise<boolean>;
  mayDeleteTrace(traceId: string): Promise<boolean>;
}

type Act = (trace: FoundTrace, one: Found) => Promise<Change | undefined>;

const byId = ({ assessments = [] }: FoundTrace, id: string) => assessments.find((one) => one.assessment_id === id);

class Person {
  /** The changes so far, by the traces that still exist. */
  changes: Change[] = [];
  readonly deleted = new Set<string>();
  readonly #limits: Limits;
  readonly #url: string;
  readonly #experimentId: string;
  readonly #random: () => number;
  #isWorking = false;
  #work: Promise<void> = Promise.resolve();

  constructor(url: string, experimentId: string, random: () => number, limits: Limits) {
    this.#limits = limits;
    this.#url = url;
    this.#experimentId = experimentId;
    this.#random = random;
  }

  /** Begins to change things, one after another with pauses of up to `pauseMs`. */
  start(pauseMs: number): void {
    this.#isWorking = true;
    this.#work = (async () => {
      while (this.#isWorking) {
        await this.#act();
        await new Promise((resolve) => setTimeout(resolve, this.#random() * pauseMs));
      }
    })();
  }

  async stop(): Promise<void> {
    this.#isWorking = false;
    await this.#work;
  }

  async traces(): Promise<FoundTrace[]> {
    const locations = [{ type: 'MLFLOW_EXPERIMENT', mlflow_experiment: { experiment_id: this.#experimentId } }];
    const { body } = await this.#call('POST', '/api/3.0/mlflow/traces/search', { locations, max_results: 500 });
    return (body as { traces?: FoundTrace[] }).traces ?? [];
  }

  /** Returns what was undone, and verdicts that are doubled. */
  async undone(): Promise<string[]> {
    const traces = new Map((await this.traces()).map((trace) => [trace.trace_id, trace]));
    const found = [...this.deleted].filter((id) => traces.has(id)).map((id) => `trace ${id} is back`);
    for (const { what, traceId, isUndone } of this.changes) {
      const trace = traces.get(traceId);
      if (trace === undefined ? !this.deleted.has(traceId) : isUndone(trace)) found.push(`${traceId}: ${what}`);
    }
    for (const [id, { assessments = [] }] of traces) {
      const ofRuns = assessments.filter((one) => one.source.source_type !== 'HUMAN' && one.valid !== false);
      const names = ofRuns.map((one) => one.assessment_name);
      for (const name of new Set(names.filter((one, at) => names.indexOf(one) !== at))) {
        found.push(`${id}: ${name} has more than one verdict`);
      }
    }
    return found;
  }

  async #act(): Promise<void> {
    const traces = await this.traces();
    const trace = traces[Math.floor(this.#random() * traces.length)];
    const verdicts = (trace?.assessments ?? []).filter((one) => one.feedback && this.#limits.mayChange(one));
    const one = verdicts[Math.floor(this.#random() * verdicts.length)];
    if (trace === undefined || one === undefined) return;
    const own: Act[] = [this.#override, this.#value, this.#rationale, this.#delete];
    const acts = [...own, this.#tag, this.#expect, this.#trash];
    const act = acts[Math.floor(this.#random() * acts.length)] as Act;
    const change = await act.call(this, trace, one);
    if (change === undefined) return;
    this.changes.push(change);
  }

  async #override(trace: FoundTrace, one: Found): Promise<Change | undefined> {
    if (one.valid === false) return undefined;
    const traceId = trace.trace_id;
    const now = new Date().toISOString();
    const assessment = {
      trace_id: traceId,
      assessment_name: one.assessment_name,
      source: { source_type: 'HUMAN', source_id: 'person@example.com' },
      create_time: now,
      last_update_time: now,
      feedback: { value: 'no' },
      overrides: one.assessment_id,
      valid: true,
    };
    const { status, body } = await this.#call('POST', this.#path(traceId), { assessment });
    if (status !== 200) return undefined;
    const id = (body as { assessment: { assessment_id: string } }).assessment.assessment_id;
    // What was overridden is not worked on again.
    this.#forget(one.assessment_id);
    return {
      what: `override of ${one.assessment_name}`,
      traceId,
      isUndone: (now) => {
        const own = byId(now, id);
        const others = (now.assessments ?? []).filter(
          (other) => other.assessment_name === one.assessment_name && other.source.source_type !== 'HUMAN',
        );
        return own?.valid === false || own?.feedback?.value !== 'no' || others.some(({ valid }) => valid !== false);
      },
    };
  }

  #value(trace: FoundTrace, one: Found): Promise<Change | undefined> {
    const value = `edited ${randomUUID()}`;
    return this.#edit(trace, one, 'value', { feedback: { value } }, (now) => now?.feedback?.value !== value);
  }

  #rationale(trace: FoundTrace, one: Found): Promise<Change | undefined> {
    const rationale = `edited ${randomUUID()}`;
    return this.#edit(trace, one, 'rationale', { rationale }, (now) => now?.rationale !== rationale);
  }

  async #edit(
    { trace_id: traceId }: FoundTrace,
    { assessment_id: id, assessment_name: name, valid }: Found,
    field: string,
    content: object,
    isUndone: (now: Found | undefined) => boolean,
  ): Promise<Change | undefined> {
    if (valid === false) return undefined;
    const assessment = { assessment_id: id, trace_id: traceId, ...content };
    const mask = { assessment, update_mask: field === 'value' ? 'feedback' : field };
    const { status } = await this.#call('PATCH', `${this.#path(traceId)}/${id}`, mask);
    if (status !== 200) return undefined;
    this.#forget(id, field);
    const what = `${field} of ${name} ${id}`;
    return { what, traceId, isUndone: (now) => isUndone(byId(now, id)) || byId(now, id)?.valid === false };
  }

  async #delete({ trace_id: traceId, assessments = [] }: FoundTrace, one: Found): Promise<Change | undefined> {
    const { assessment_id: id, assessment_name: name } = one;
    // To delete what overrides another one, or is overridden, changes that one too.
    if (one.overrides !== undefined || assessments.some(({ overrides }) => overrides === id)) return undefined;
    if (!(await this.#limits.mayDelete(traceId, id))) return undefined;
    const { status } = await this.#call('DELETE', `${this.#path(traceId)}/${id}`);
    if (status !== 200) return undefined;
    this.#forget(id);
    return { what: `deletion of ${name} ${id}`, traceId, isUndone: (now) => byId(now, id) !== undefined };
  }

  async #tag({ trace_id: traceId, tags = {} }: FoundTrace): Promise<Change | undefined> {
    const own = Object.keys(tags).filter((key) => !key.startsWith('mlflow.') && key !== 'event_id');
    const key = [...own, 'person'][Math.floor(this.#random() * (own.length + 1))] ?? 'person';
    const value = randomUUID();
    const { status } = await this.#call('PATCH', `/api/3.0/mlflow/traces/${traceId}/tags`, { key, value });
    if (status !== 200) return undefined;
    this.#forget(`${traceId} tag ${key}`);
    return { what: `${traceId} tag ${key}`, traceId, isUndone: (now) => now.tags?.[key] !== value };
  }

  async #expect({ trace_id: traceId }: FoundTrace): Promise<Change | undefined> {
    const value = randomUUID();
    const now = new Date().toISOString();
    const assessment = {
      trace_id: traceId,
      assessment_name: `expected ${value}`,
      source: { source_type: 'HUMAN', source_id: 'person@example.com' },
      create_time: now,
      last_update_time: now,
      expectation: { value },
    };
    const { status } = await this.#call('POST', this.#path(traceId), { assessment });
    if (status !== 200) return undefined;
    const isThere = ({ assessments = [] }: FoundTrace) =>
      assessments.some((one) => one.assessment_name === assessment.assessment_name && one.expectation?.value === value);
    return { what: 'expectation', traceId, isUndone: (trace) => !isThere(trace) };
  }

  async #trash({ trace_id: traceId }: FoundTrace): Promise<undefined> {
    if (!(await this.#limits.mayDeleteTrace(traceId))) return;
    const json = { experiment_id: this.#experimentId, request_ids: [traceId] };
    const { status, body } = await this.#call('POST', '/api/2.0/mlflow/traces/delete-traces', json);
    if (status === 200 && (body as { traces_deleted?: number }).traces_deleted === 1) this.deleted.add(traceId);
  }

  /** A later change of the same thing takes the place of an earlier one. */
  #forget(id: string, field = ''): void {
    this.changes = this.changes.filter(({ what }) => !what.endsWith(id) || !what.startsWith(field));
  }

  #path(traceId: string): string {
    return `/api/3.0/mlflow/traces/${traceId}/assessments`;
  }

  async #call(method: string, path: string, json?: object): Promise<{ status: number; body: unknown }> {
    const body = json === undefined ? {} : { body: JSON.stringify(json) };
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(new URL(path, this.#url), { method, headers, ...body });
    const text = await reply.text();
    return { status: reply.status, body: reply.status === 200 && text !== '' ? JSON.parse(text) : text };
  }
}

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
    const one = await pipeline.caseOf(`people-${seed}`, [...new Set(linesOf(`people-${seed}`, CHATS))]);
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
