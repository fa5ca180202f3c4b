/** Tests of writing verdicts to a server that fails. */
import { createMlflowClient } from '../../../src/mlflow/client.ts';
import type { StoredTrace } from '../../../src/mlflow/types.ts';
import { startScriptedMlflow } from '../../doubles/scripted-mlflow.ts';
import { verdict } from '../../helpers/mlflow-traces.ts';

const TRACE = 'tr-0123456789abcdef0123456789abcdef';
const INFO = { trace_id: TRACE, request_time: '2026-11-20T09:15:00Z', state: 'OK' };
const ATTEMPTS = 4;

/** A server that accepts one verdict per request, and fails the n-th request, from 1, if `fails` returns so. */
async function startServer(fails: (n: number) => 'before' | 'after' | undefined) {
  const server = await startScriptedMlflow({ version: '3.9.0' });
  const stored: unknown[] = [];
  let posts = 0;
  server.fault((request) => {
    const { path, body } = request;
    if (path.endsWith('/traces/search')) {
      const info = { ...INFO, assessments: stored };
      return { kind: 'reply', status: 200, body: JSON.stringify({ traces: [info] }) };
    }
    if (!path.endsWith('/assessments')) return undefined;
    posts += 1;
    const how = fails(posts);
    if (how !== 'before') stored.push((JSON.parse(body.toString()) as { assessment: unknown }).assessment);
    return how === undefined ? undefined : { kind: 'reply', status: 500, body: '{}' };
  });
  const retry = { baseMs: 1, capMs: 2, attempts: ATTEMPTS };
  const client = createMlflowClient({ trackingUri: server.url, retry, timeoutMs: 5_000 });
  const stop = async () => {
    client.close();
    await server.stop();
  };
  return { client, stored, stop, posts: () => posts };
}

const trace: StoredTrace = {
  traceId: TRACE,
  readAtMs: Date.now(),
  state: 'OK',
  assessments: [],
  info: { experimentId: '7', tagKeys: [] },
};
const verdicts = Array.from({ length: 12 }, (_, n) => verdict(TRACE, `scorer_${n}`));

describe.each(['before', 'after'] as const)('a server that fails every second verdict, %s storing it', (when) => {
  test('is retried for each verdict, and all are written once', async () => {
    const { client, stored, stop } = await startServer((n) => (n % 2 === 0 ? when : undefined));
    try {
      const { written } = await client.writeAssessments(trace, verdicts);
      expect([...written].sort()).toEqual(verdicts.map(({ assessmentId }) => assessmentId).sort());
      expect(stored).toHaveLength(verdicts.length);
    } finally {
      await stop();
    }
  });
});

test('a verdict that MLflow accepted and a person deleted at once is not written again', async () => {
  // The second verdict fails twice. Meanwhile the first one is deleted.
  const { client, stored, stop } = await startServer((n) => {
    if (n === 2) stored.length = 0;
    return n === 2 || n === 3 ? 'before' : undefined;
  });
  try {
    const { written } = await client.writeAssessments(trace, verdicts.slice(0, 3));
    expect(written.sort()).toEqual(
      verdicts
        .slice(0, 3)
        .map(({ assessmentId }) => assessmentId)
        .sort(),
    );
    expect(stored.map((one) => (one as { assessment_id: string }).assessment_id)).toEqual(
      verdicts.slice(1, 3).map(({ assessmentId }) => assessmentId),
    );
  } finally {
    await stop();
  }
});

test('writing fails after the attempts of the policy if the server accepts no further verdict', async () => {
  const { client, stored, stop, posts } = await startServer((n) => (n > 3 ? 'before' : undefined));
  try {
    await expect(client.writeAssessments(trace, verdicts)).rejects.toThrow(/MLflow returned a server error/);
    expect(stored).toHaveLength(3);
    // One attempt that wrote three verdicts, and then those of the policy.
    expect(posts()).toBe(3 + 1 + ATTEMPTS);
  } finally {
    await stop();
  }
});

test('verdicts wait for the rate limit of the stack before the read that they depend on', async () => {
  const server = await startScriptedMlflow({ version: '3.17.2' });
  const steps: string[] = [];
  server.fault(({ path }) => {
    steps.push(path.replace(/.*\//, ''));
    const body = JSON.stringify({ traces: [INFO] });
    return path.endsWith('/traces/search') ? { kind: 'reply', status: 200, body } : undefined;
  });
  const acquire = async () => {
    steps.push('wait');
  };
  const limited = createMlflowClient({ trackingUri: server.url, limits: { rate: { acquire, give: () => {} } } });
  try {
    await limited.writeAssessments({ ...trace, readAtMs: 0 }, verdicts.slice(0, 2));
    const [probe, read] = [
      ['wait', 'version'],
      ['wait', 'search'],
    ];
    expect(steps).toEqual(['wait', 'wait', ...probe, ...read, 'assessments', 'assessments']);
    steps.length = 0;
    await limited.writeAssessments({ ...trace, readAtMs: Date.now() }, verdicts.slice(0, 2));
    expect(steps).toEqual(['wait', 'assessments', 'wait', 'assessments']);
  } finally {
    limited.close();
    await server.stop();
  }
});

test('a trace that was deleted in the meantime is reported as missing, without any verdict', async () => {
  const server = await startScriptedMlflow({ version: '3.9.0' });
  server.fault(({ path }) =>
    path.endsWith('/assessments')
      ? { kind: 'reply', status: 404, body: JSON.stringify({ error_code: 'RESOURCE_DOES_NOT_EXIST', message: 'gone' }) }
      : undefined,
  );
  const client = createMlflowClient({ trackingUri: server.url, retry: { baseMs: 1, capMs: 2 }, timeoutMs: 5_000 });
  try {
    const result = await client.writeAssessments(trace, verdicts.slice(0, 1));
    expect(result).toEqual({ written: [], alreadyThere: [], traceMissing: true });
  } finally {
    client.close();
    await server.stop();
  }
});

test.each([
  ['was just read is not read again', 0, 0],
  ['was read minutes ago is read again', 300_000, 1],
])('a trace that %s before verdicts are written to it', async (_, ageMs, reads) => {
  const server = await startScriptedMlflow({ version: '3.17.2' });
  const seen: string[] = [];
  server.fault(({ path }) => {
    seen.push(path);
    const reply = (body: object) => ({ kind: 'reply' as const, status: 200, body: JSON.stringify(body) });
    if (path.endsWith('/traces/search')) return reply({ traces: [INFO] });
    return undefined;
  });
  const client = createMlflowClient({ trackingUri: server.url, retry: { baseMs: 1, capMs: 2 }, timeoutMs: 5_000 });
  try {
    const { written } = await client.writeAssessments({ ...trace, readAtMs: Date.now() - ageMs }, verdicts.slice(0, 2));
    expect(written).toHaveLength(2);
    expect(seen.filter((path) => /search/.test(path))).toHaveLength(reads);
    // A post of the trace could overwrite what people have changed in it.
    expect(seen).not.toContain('/api/3.0/mlflow/traces');
  } finally {
    client.close();
    await server.stop();
  }
});
