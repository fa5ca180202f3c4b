/**
 * A person who works in MLflow at random moments, by its REST API, and remembers each change that MLflow accepted. Shares no
 * code with the product.
 */
import { randomUUID } from 'node:crypto';

export interface Found {
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

export interface FoundTrace {
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
export interface Limits {
  mayChange(one: Found): boolean;
  mayDelete(traceId: string, assessmentId: string): Promise<boolean>;
  mayDeleteTrace(traceId: string): Promise<boolean>;
}

type Act = (trace: FoundTrace, one: Found) => Promise<Change | undefined>;

const byId = ({ assessments = [] }: FoundTrace, id: string) => assessments.find((one) => one.assessment_id === id);

export class Person {
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
    const acts: Act[] = [
      this.#override,
      this.#value,
      this.#rationale,
      this.#delete,
      this.#tag,
      this.#expect,
      this.#trash,
    ];
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
