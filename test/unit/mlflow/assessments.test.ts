/** Tests of writing verdicts to a server that fails. */
import type { StoredTrace } from '../../../src/mlflow/types.ts';
import { verdict } from '../../helpers/mlflow-traces.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';

const TRACE = 'tr-0123456789abcdef0123456789abcdef';
const INFO = { trace_id: TRACE, request_time: '2026-11-20T09:15:00Z', state: 'OK' };
const ATTEMPTS = 4;

const mlflow = useScriptedMlflow({ retry: { baseMs: 1, capMs: 2, attempts: ATTEMPTS }, timeoutMs: 5_000 });

/** The server's reply to a search: the one trace. */
const found = (assessments: unknown[] = []) =>
  ({ kind: 'reply', status: 200, body: JSON.stringify({ traces: [{ ...INFO, assessments }] }) }) as const;

/** Starts a server that accepts one verdict per request, and fails the n-th request, from 1, if `fails` returns so. */
async function startFailing(fails: (n: number) => 'before' | 'after' | undefined) {
  await mlflow.start('3.9.0');
  const stored: { assessment_id: string }[] = [];
  let posts = 0;
  mlflow.server.fault(({ path, body }) => {
    if (path.endsWith('/traces/search')) return found(stored);
    if (!path.endsWith('/assessments')) return undefined;
    posts += 1;
    const how = fails(posts);
    if (how !== 'before') stored.push(JSON.parse(body.toString()).assessment);
    return how === undefined ? undefined : { kind: 'reply', status: 500, body: '{}' };
  });
  return { stored, posts: () => posts };
}

const info = { experimentId: '7', tagKeys: [] };
const trace: StoredTrace = { traceId: TRACE, readAtMs: Date.now(), state: 'OK', assessments: [], info };
const verdicts = Array.from({ length: 12 }, (_, n) => verdict(TRACE, `scorer_${n}`));
const ids = verdicts.map(({ assessmentId }) => assessmentId);

describe.each(['before', 'after'] as const)('a server that fails every second verdict, %s storing it', (when) => {
  test('is retried for each verdict, and all are written once', async () => {
    const { stored } = await startFailing((n) => (n % 2 === 0 ? when : undefined));
    const { written } = await mlflow.client.writeAssessments(trace, verdicts);
    expect([...written].sort()).toEqual([...ids].sort());
    expect(stored).toHaveLength(verdicts.length);
  });
});

test('a verdict that MLflow accepted and a person deleted at once is not written again', async () => {
  // The second verdict fails twice. Meanwhile the first one is deleted.
  const { stored } = await startFailing((n) => {
    if (n === 2) stored.length = 0;
    return n === 2 || n === 3 ? 'before' : undefined;
  });
  const { written } = await mlflow.client.writeAssessments(trace, verdicts.slice(0, 3));
  expect(written.sort()).toEqual(ids.slice(0, 3).sort());
  expect(stored.map(({ assessment_id: id }) => id)).toEqual(ids.slice(1, 3));
});

test('writing fails after the attempts of the policy if the server accepts no further verdict', async () => {
  const { stored, posts } = await startFailing((n) => (n > 3 ? 'before' : undefined));
  await expect(mlflow.client.writeAssessments(trace, verdicts)).rejects.toThrow(/MLflow returned a server error/);
  expect(stored).toHaveLength(3);
  // One attempt that wrote three verdicts, and then those of the policy.
  expect(posts()).toBe(3 + 1 + ATTEMPTS);
});

test('verdicts wait for the rate limit of the stack before the read that they depend on', async () => {
  await mlflow.start('3.17.2');
  const steps: string[] = [];
  mlflow.server.fault(({ path }) => {
    steps.push(path.replace(/.*\//, ''));
    return path.endsWith('/traces/search') ? found() : undefined;
  });
  const acquire = async () => {
    steps.push('wait');
  };
  const limited = mlflow.connect({ limits: { rate: { acquire } } });
  await limited.writeAssessments({ ...trace, readAtMs: 0 }, verdicts.slice(0, 2));
  const [probe, read] = [
    ['wait', 'version'],
    ['wait', 'search'],
  ];
  expect(steps).toEqual(['wait', 'wait', ...probe, ...read, 'assessments', 'assessments']);
  steps.length = 0;
  await limited.writeAssessments({ ...trace, readAtMs: Date.now() }, verdicts.slice(0, 2));
  expect(steps).toEqual(['wait', 'assessments', 'wait', 'assessments']);
});

test('a trace that was deleted in the meantime is reported as missing, without any verdict', async () => {
  await mlflow.start('3.9.0');
  const body = JSON.stringify({ error_code: 'RESOURCE_DOES_NOT_EXIST', message: 'gone' });
  mlflow.server.fault(({ path }) => (path.endsWith('/assessments') ? { kind: 'reply', status: 404, body } : undefined));
  const result = await mlflow.client.writeAssessments(trace, verdicts.slice(0, 1));
  expect(result).toEqual({ written: [], alreadyThere: [], traceMissing: true });
});

test.each([
  ['was just read is not read again', 0, 0],
  ['was read minutes ago is read again', 300_000, 1],
])('a trace that %s before verdicts are written to it', async (_, ageMs, reads) => {
  await mlflow.start('3.17.2');
  mlflow.server.fault(({ path }) => (path.endsWith('/traces/search') ? found() : undefined));
  const old = { ...trace, readAtMs: Date.now() - ageMs };
  const { written } = await mlflow.client.writeAssessments(old, verdicts.slice(0, 2));
  expect(written).toHaveLength(2);
  const seen = mlflow.server.requests.map(({ path }) => path);
  expect(seen.filter((path) => /search/.test(path))).toHaveLength(reads);
  // A post of the trace could overwrite what people have changed in it.
  expect(seen).not.toContain('/api/3.0/mlflow/traces');
});
