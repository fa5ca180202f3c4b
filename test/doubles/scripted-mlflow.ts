/**
 * A server for the parts of MLflow's protocol that the fault tests use. It accepts traces by OTLP and REST, counts how often it
 * has accepted each, and returns those that it has. The rule of the test decides all other replies and the faults.
 */
import { type Behavior, type SeenRequest, startMisbehavingServer } from './misbehaving-server.ts';

export type ScriptedMlflow = Awaited<ReturnType<typeof startScriptedMlflow>>;

interface StoredInfo {
  tags: Record<string, string>;
  assessments: { assessment_id: string }[];
}

const SPANS_TAG = 'mlflow.trace.spansLocation';

/** Indented, as MLflow's own: a reply that is what was sent would be a gateway's. */
const json = (value: unknown, status = 200): Behavior => ({
  kind: 'reply',
  status,
  body: JSON.stringify(value, null, 2),
});

/** Returns the id of the control trace in a request, which comes before its name in both formats. */
export function controlOf(body: Buffer): string {
  const text = body.toString('latin1');
  const inJson = /tr-[0-9a-f]{32}/.exec(text)?.[0];
  // In protobuf it is field 1 of the span, 16 bytes.
  return (
    inJson ??
    `tr-${body
      .subarray(text.indexOf('\x0a\x10') + 2)
      .subarray(0, 16)
      .toString('hex')}`
  );
}

/** MLflow's reply to a written assessment names it. */
export function assessed({ path, body }: Pick<SeenRequest, 'path' | 'body'>): unknown {
  const { assessment } = JSON.parse(body.toString()) as { assessment: object };
  return { assessment: { assessment_id: path.split('/assessments/')[1], ...assessment } };
}

export async function startScriptedMlflow(options: { version?: string; artifactLocation?: string } = {}) {
  const server = await startMisbehavingServer();
  const taken = new Map<string, number>();
  const stored = new Map<string, StoredInfo>();
  const files = new Map<string, Buffer>();
  let expected: { id: string; bytes: Buffer }[] = [];
  let fault: (request: SeenRequest, ordinal: number) => Behavior | undefined = () => undefined;

  /** Spans have ids as bytes, and JSON has them as text. A body may be megabytes long, so it is searched once. */
  const tracesOf = ({ path, body }: SeenRequest) => {
    const isSpans = path.startsWith('/v1/traces');
    return expected.filter(({ id, bytes }) => body.includes(isSpans ? bytes : id)).map(({ id }) => id);
  };
  const takeTraces = (ids: readonly string[]) => {
    for (const id of ids) taken.set(id, (taken.get(id) ?? 0) + 1);
  };
  /** Like MLflow, makes a trace whose spans arrive and that does not exist. */
  const takeSpans = (request: SeenRequest, ids: readonly string[]) => {
    const run = /mlflow\.traceTag\.monitoring_run[^"]*"([^"]*)"/.exec(request.body.toString('latin1'))?.[1];
    const ownTags: Record<string, string> = request.body.includes('mlflow.traceTag.')
      ? { event_id: 'of the spans', ...(run === undefined ? {} : { monitoring_run: run }) }
      : {};
    for (const id of ids) {
      const { tags = ownTags, assessments = [] } = stored.get(id) ?? {};
      stored.set(id, { tags: { ...tags, [SPANS_TAG]: 'TRACKING_STORE' }, assessments });
    }
  };
  const takePost = ({ body }: SeenRequest) => {
    const { trace_id: id, tags = {}, assessments = [] } = JSON.parse(body.toString()).trace.trace_info;
    stored.set(id, { tags, assessments });
  };
  const info = (id: string) => ({
    trace_id: id,
    request_time: '2026-11-20T09:15:00Z',
    state: 'OK',
    trace_location: { mlflow_experiment: { experiment_id: '7' } },
    ...stored.get(id),
  });

  const take = (request: SeenRequest): Behavior => {
    const path = request.path.split('?')[0] ?? '';
    if (path === '/version') return { kind: 'reply', status: 200, body: options.version ?? '3.17.2' };
    if (path === '/v1/traces') {
      const announced = tracesOf(request);
      const ids = announced.length > 0 || request.body.length === 0 ? announced : [controlOf(request.body)];
      takeTraces(ids);
      takeSpans(request, ids);
      return { kind: 'reply', status: 200 };
    }
    if (path === '/api/3.0/mlflow/traces') {
      takeTraces(tracesOf(request));
      takePost(request);
      return json(JSON.parse(request.body.toString()));
    }
    if (path.endsWith('/delete-traces')) {
      const { request_ids: ids } = JSON.parse(request.body.toString()) as { request_ids: string[] };
      for (const id of ids) {
        taken.delete(id);
        stored.delete(id);
      }
      return json({});
    }
    if (path.startsWith('/api/2.0/mlflow-artifacts/') && request.method === 'PUT') {
      files.set(path, request.body);
      return json({});
    }
    if (path.startsWith('/api/2.0/mlflow-artifacts/')) {
      const body = files.get(path);
      return body === undefined ? { kind: 'reply', status: 404 } : { kind: 'reply', status: 200, body };
    }
    if (path.includes('/assessments')) return json(assessed(request));
    if (path.endsWith('/traces/search')) {
      const { filter } = JSON.parse(request.body.toString()) as { filter: string };
      return json({ traces: [...taken.keys()].filter((id) => filter.includes(id)).map(info) });
    }
    if (path.includes('/experiments/get')) {
      const artifactLocation = options.artifactLocation ?? 'mlflow-artifacts:/7';
      return json({ experiment: { experiment_id: '7', name: 'e', artifact_location: artifactLocation } });
    }
    return json({});
  };

  server.rule((request, ordinal) => fault(request, ordinal) ?? take(request));
  return Object.assign(server, {
    /** How often each trace was accepted. */
    taken,
    /** The traces as they are stored. */
    stored,
    /** The files of spans, by path. */
    files,
    /** Returns the ids in a request among those that the test has announced with `expect`. */
    tracesOf,
    /** Applies a request and returns its reply. */
    take,
    expect: (ids: string[]) => {
      expected = ids.map((id) => ({ id, bytes: Buffer.from(id.replace('tr-', ''), 'hex') }));
    },
    /** Returns the requests to a path so far. */
    to: (path: string) => server.requests.filter((request) => request.path.split('?')[0] === path),
    /** Sets the rule for faults, which is applied before a request has an effect. */
    fault: (next: typeof fault) => {
      fault = next;
    },
    /** Answers with a status where a rule says so, before the request has an effect. */
    refuse: (isRefused: (request: SeenRequest) => boolean, status: number, body?: string | Buffer) => {
      fault = (request) => (isRefused(request) ? { kind: 'reply', status, body } : undefined);
    },
  });
}
