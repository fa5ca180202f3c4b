/** Spans and verdicts reach a real OpenTelemetry collector, and a real Arize Phoenix shows each once. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../local/machine/free-port.ts';
import { type GuardedProcess, startGuarded } from '../../local/machine/guarded-process.ts';
import { ensurePythonEnvironment } from '../../local/python/python-environment.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import { START_LIMIT_MS, startPlainMlflow } from '../helpers/mlflow-plain.ts';
import { OtlpRig } from '../helpers/otlp-rig.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

const DAY_AGO = new Date(Date.now() - 86_400_000).toISOString();
const LINES = Array.from({ length: 20 }, (_, n) => chatLine(`line ${n}`, n < 10 ? '2026-11-20T10:00:00Z' : DAY_AGO));
/** Of each capture: one of the judge, and two in code. */
const VERDICTS = 3 * LINES.length;

const folder = temporaryFolder('otlp-');
const servers: GuardedProcess[] = [];
let python: string;
let mlflow: Awaited<ReturnType<typeof startPlainMlflow>>;
beforeAll(async () => {
  mlflow = await startPlainMlflow();
  ({ python } = await ensurePythonEnvironment({ name: 'phoenix', packages: { 'arize-phoenix': '20.26.1' } }));
}, 2 * START_LIMIT_MS);
afterAll(async () => {
  await Promise.all([mlflow?.stop(), ...servers.map((server) => server.stop())]);
});

/** Starts a server, and waits until it answers a request. */
async function start(name: string, [command = '', ...args]: string[], health: [string, RequestInit?], env = {}) {
  const server = startGuarded(command, args, { logFile: join(folder, `${name}.log`), env: { ...process.env, ...env } });
  servers.push(server);
  while (
    !(await fetch(...health).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (server.ended()) throw new Error(`${name} did not start: ${server.logTail()}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Sends the parts of a run, and of two more over the same captures. */
async function sendThrice(rig: OtlpRig): Promise<void> {
  for (const run of ['first', 'second', 'third']) {
    const parts = await rig.evaluate(LINES, run);
    expect(parts.length).toBeGreaterThan(1);
    // The queue delivers verdicts again while Phoenix is still storing their spans.
    while ((await rig.deliver(parts)) > 0) await new Promise((resolve) => setTimeout(resolve, 500));
  }
  expect(rig.asked.filter((error) => typeof error === 'string')).toEqual([]);
}

test('a collector writes each id of a span and of a verdict', async () => {
  const collector = join(folder, 'collector');
  const built = spawnSync('go', ['build', '-o', collector, '.'], {
    cwd: join(__dirname, 'otel-collector'),
    encoding: 'utf8',
  });
  if (built.error)
    throw new Error('The collector is built with Go 1.23 or newer, which is not on the PATH: https://go.dev/dl');
  expect(built.stderr).not.toMatch(/error|cannot/);
  const [port, file, config] = [await freePort(), join(folder, 'received.jsonl'), join(folder, 'collector.yaml')];
  const pipeline = '{ receivers: [otlp], exporters: [file] }';
  writeFileSync(
    config,
    [
      `receivers: { otlp: { protocols: { http: { endpoint: "127.0.0.1:${port}" } } } }`,
      `exporters: { file: { path: "${file}" } }`,
      `service: { telemetry: { metrics: { level: none } }, pipelines: { traces: ${pipeline}, logs: ${pipeline} } }`,
    ].join('\n'),
  );
  const url = `http://127.0.0.1:${port}`;
  const empty = { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } };
  await start('collector', [collector, '--config', config], [`${url}/v1/traces`, empty]);
  const rig = new OtlpRig(mlflow.client, url, 'collector');
  await sendThrice(rig);
  await servers.pop()?.stop();
  const received = readFileSync(file, 'utf8');
  const idsOf = (pattern: RegExp) => [...received.matchAll(pattern)].map(([, id]) => id);
  const spans = idsOf(/"spanId":"([0-9a-f]{16})","parentSpanId":"","(?:flags":\d+,")?name"/g);
  const verdicts = idsOf(/"log\.record\.uid","value":\{"stringValue":"([0-9a-f]{32})"/g);
  expect([new Set(spans).size, new Set(verdicts).size]).toEqual([LINES.length, VERDICTS]);
  expect([spans.length, verdicts.length]).toEqual([3 * LINES.length, 3 * VERDICTS]);
  expect(idsOf(/"eventName":"(gen_ai\.evaluation\.result)"/g)).toHaveLength(3 * VERDICTS);
});

test('Phoenix shows each span and each verdict once after three runs', async () => {
  const [port, grpc] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  await start('phoenix', [python, '-m', 'phoenix.server.main', 'serve'], [`${url}/healthz`], {
    PHOENIX_WORKING_DIR: folder,
    PHOENIX_HOST: '127.0.0.1',
    PHOENIX_PORT: String(port),
    PHOENIX_GRPC_PORT: String(grpc),
    PHOENIX_TELEMETRY_ENABLED: 'false',
  });
  const rig = new OtlpRig(mlflow.client, url, 'phoenix');
  rig.settings.OTLP_VERDICTS = 'phoenix';
  await sendThrice(rig);
  type Item = Record<string, unknown> & { context: { span_id: string }; result: object };
  const get = async (path: string): Promise<Item[]> =>
    ((await (await fetch(`${url}/v1/projects/default/${path}`)).json()) as { data: Item[] }).data;
  const spans = await get('spans?limit=1000');
  const ids = spans.map(({ context }) => context.span_id);
  expect([ids.length, new Set(ids).size]).toEqual([LINES.length, LINES.length]);
  expect(spans.filter(({ start_time }) => Date.parse(String(start_time)) === Date.parse(DAY_AGO))).toHaveLength(10);
  const query = ids.map((id) => `span_ids=${id}`).join('&');
  const annotations = await get(`span_annotations?limit=1000&${query}`);
  expect(annotations).toHaveLength(VERDICTS);
  expect(new Set(annotations.map(({ identifier }) => identifier)).size).toBe(VERDICTS);
  const judged = annotations.filter(({ annotator_kind }) => annotator_kind === 'LLM');
  expect(judged.map(({ result }) => result)).toEqual(
    LINES.map(() => expect.objectContaining({ label: 'yes', explanation: 'So it is.' })),
  );
});
