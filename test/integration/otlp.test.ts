/** Sends spans and verdicts of judged captures to a receiver over HTTP, with a real MLflow. */
import { deleteTraces } from '../../src/mlflow/delete-traces.ts';
import { anyReply } from '../../src/mlflow/replies.ts';
import { type Behavior, type MisbehavingServer, startMisbehavingServer } from '../doubles/misbehaving-server.ts';
import { callerLine, chatLine } from '../helpers/deployed-captures.ts';
import { startPlainMlflow } from '../helpers/mlflow-plain.ts';
import { itemsOf } from '../helpers/otlp-decoded.ts';
import { OtlpRig } from '../helpers/otlp-rig.ts';

let mlflow: Awaited<ReturnType<typeof startPlainMlflow>>;
let receiver: MisbehavingServer;
let rig: OtlpRig;
let experiments = 0;

beforeAll(async () => {
  [mlflow, receiver] = await Promise.all([startPlainMlflow(), startMisbehavingServer()]);
});
afterAll(async () => {
  await Promise.all([mlflow?.stop(), receiver?.stop()]);
});
beforeEach(() => {
  receiver.rule(() => undefined);
  receiver.requests.length = 0;
  experiments += 1;
  rig = new OtlpRig(mlflow.client, receiver.url, `otlp-${experiments}`);
});

const answer = (status: number, headers: Record<string, string> = {}, body = ''): Behavior => ({
  ...{ kind: 'reply', status, headers, body },
});
const spans = () => itemsOf(receiver.requests, 'traces');
const events = () => itemsOf(receiver.requests, 'logs');
/** Bytes of the answer `partial_success { rejected: 1 }`. */
const REJECTED = '\n\u0002\b\u0001';

test('each span and each verdict is sent with ids that follow from the trace and the scorer, however often', async () => {
  const parts = await rig.evaluate(Array.from({ length: 5 }, (_, n) => chatLine(`line ${n}`)));
  expect(await rig.deliver(parts)).toBe(0);
  const [first, second] = [spans(), events()];
  expect(new Set(first.map(({ spanId }) => spanId)).size).toBe(5);
  expect(first[0]).toMatchObject({
    attributes: { 'mlflow.spanInputs': expect.stringContaining('prune'), 'mlflow.traceTag.monitoring_run': 'run' },
    resource: { 'service.name': 'fern-house' },
  });
  expect(second).toHaveLength(15);
  const judged = second.find(({ attributes }) => 'gen_ai.evaluation.explanation' in attributes);
  expect(judged).toEqual({
    ...{ traceId: expect.stringMatching(/^[0-9a-f]{32}$/), event: 'gen_ai.evaluation.result' },
    spanId: first.find(({ traceId }) => traceId === judged?.traceId)?.spanId,
    resource: { 'service.name': 'fern-house' },
    attributes: {
      'log.record.uid': expect.stringMatching(/^[0-9a-f]{32}$/),
      'gen_ai.evaluation.name': expect.any(String),
      'gen_ai.evaluation.score.label': 'yes',
      'gen_ai.evaluation.explanation': 'So it is.',
    },
  });
  expect(new Set(second.map(({ attributes }) => attributes['log.record.uid'])).size).toBe(15);
  // Neighbouring lines are read by one request.
  const reads = rig.storage.reads.filter((read) => read.startsWith('p/'));
  expect(reads).toHaveLength(2);
  receiver.requests.length = 0;
  await rig.evaluate(
    Array.from({ length: 5 }, (_, n) => chatLine(`line ${n}`)),
    'again',
  );
  expect(await rig.deliver(parts)).toBe(0);
  expect([spans(), events()]).toEqual([first, second]);
  expect(await rig.deliver(parts, { hours: ['2026-11-20T11', '2026-11-20T12'] })).toBe(0);
  expect(rig.counts).toEqual({ OtlpSent: 40 });
  expect([
    await rig.deliver(['ledger/labels/x.parquet']),
    await rig.deliver(['ledger/captures/dt=2026-11-20/gone.part.parquet']),
  ]).toEqual([0, 0]);
  expect(rig.asked).toEqual(['NotAnEvent', 'OtlpPartGone']);
});

test('what a person has deleted or replaced is not sent, also if it was forgotten', async () => {
  const [captures = '', verdicts = ''] = await rig.evaluate(['a', 'b', 'c'].map((name) => chatLine(name)));
  expect(await rig.deliver([captures])).toBe(0);
  const [deleted, forgotten, kept] = spans().map(({ traceId }) => `tr-${traceId}`);
  const { id } = await mlflow.client.resolveExperiment(`otlp-${experiments}`);
  await deleteTraces(mlflow.client.rest, id, [deleted ?? '']);
  rig.storage.put('ledger/forgotten.json', [{ atMs: 0, traces: { '2026-11-20': [forgotten] } }]);
  const stored = (await mlflow.client.getTraces(id, [kept ?? ''])).get(kept ?? '');
  const path = `/api/3.0/mlflow/traces/${kept}/assessments/${stored?.assessments[0]?.assessmentId}`;
  await mlflow.client.rest.repeat({ method: 'DELETE', path }, anyReply);
  receiver.requests.length = 0;
  expect(await rig.deliver([captures, verdicts])).toBe(0);
  expect(spans().map(({ traceId }) => `tr-${traceId}`)).toEqual([kept]);
  expect(events()).toHaveLength(2);
});

test('a line that is gone has a span without messages, and so has one that the settings now hide', async () => {
  const line = callerLine('fern', { user: 'u', note: 'Write to ann@example.com' });
  const [captures = '', verdicts = ''] = await rig.evaluate([line]);
  rig.settings.REDACT = 'email';
  const [masked = ''] = await rig.evaluate([line.replace('fern', 'moss')], 'masked', 'b');
  const inputs = async (key: string): Promise<unknown> => {
    receiver.requests.length = 0;
    expect(await rig.deliver([key])).toBe(0);
    return spans()[0]?.attributes['mlflow.spanInputs'];
  };
  expect(await inputs(captures)).toBeUndefined();
  expect(spans()[0]?.attributes['capture.notes']).toEqual([expect.stringContaining('REDACT')]);
  expect(await rig.deliver([verdicts])).toBe(0);
  expect(JSON.stringify(events())).not.toContain('explanation');
  expect(await inputs(masked)).toMatch(/<email/);
  for (const more of [{ REDACT: 'email,phone' }, { CONTENT: 'none' }, { REDACT: 'pattern:email=x' }]) {
    Object.assign(rig.settings, more);
    expect(await inputs(masked)).toBeUndefined();
  }
  // Less is hidden now: the line is masked as its run has masked it.
  rig.settings = { OTLP_ENDPOINT: receiver.url };
  expect(await inputs(masked)).toMatch(/<email/);
  expect(await inputs(captures)).toContain('ann@example.com');
  rig.storage.put('p/AllTraffic/2026/11/20/10/a.jsonl', 'overwritten');
  expect(await inputs(captures)).toBeUndefined();
  expect(JSON.stringify(spans())).not.toContain('ann@');
});

describe('a receiver that', () => {
  let parts: string[];
  beforeEach(async () => {
    parts = await rig.evaluate([chatLine('a'), chatLine('b')]);
  });

  test.each([
    ['throttles once', [answer(429, { 'retry-after': '0.01' })], [], { OtlpSent: 8 }],
    ['is away for long', Array(4).fill(answer(503, { 'retry-after': '120' })), [120, 120], {}],
    ['breaks off', Array(4).fill({ kind: 'cut' }), [60, 60], {}],
    ['refuses', [answer(400), answer(403)], ['OtlpRefused', 'OtlpUnauthorized'], {}],
    ['has an error that may not be retried', [answer(500)], ['OtlpRefused'], { OtlpSent: 6 }],
    [
      'is another server',
      [answer(200, { 'content-type': 'text/html' }, '<html>')],
      ['OtlpAnswerUnreadable'],
      { OtlpSent: 6 },
    ],
    ['rejects a span', [answer(200, {}, REJECTED)], [], { OtlpSent: 7, OtlpRejected: 1 }],
    [
      'says so in JSON',
      [answer(200, {}, '{"partialSuccess":{"rejectedSpans":"2"}}')],
      [],
      { OtlpSent: 6, OtlpRejected: 2 },
    ],
    ['has a lower limit', [answer(413), answer(413), answer(200)], [], { OtlpSent: 7, OtlpRejected: 1 }],
  ] as [string, Behavior[], unknown[], object][])('%s', async (_, first, asked, counts) => {
    const scripted = [...first];
    receiver.rule(() => scripted.shift());
    for (const part of parts) await rig.deliver([part]);
    expect([rig.asked, rig.counts]).toEqual([asked, counts]);
  });

  test('is Phoenix: gets annotations, again for the spans that it does not have yet', async () => {
    rig.settings.OTLP_VERDICTS = 'phoenix';
    await rig.deliver(parts.slice(0, 1));
    const [missing, other] = spans().map(({ spanId }) => spanId);
    receiver.rule(({ body }) =>
      body.includes(missing ?? '')
        ? answer(404, {}, `Spans with IDs ${missing} do not exist.`)
        : answer(200, {}, '{"data":[]}'),
    );
    expect(await rig.deliver(parts.slice(1))).toBe(1);
    const { path, body, headers } = receiver.requests.at(-1) ?? {};
    expect([path, headers?.['content-encoding']]).toEqual(['/v1/span_annotations?sync=true', undefined]);
    const { data } = JSON.parse(String(body));
    expect(data).toHaveLength(3);
    expect(data[0]).toMatchObject({ span_id: other, identifier: expect.any(String), result: {} });
    expect(rig.asked).toEqual([60]);
  });
});
