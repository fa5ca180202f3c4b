/** Tests of a gateway that answers 200 and stores nothing, or not everything. */
import type { SeenRequest } from '../../doubles/misbehaving-server.ts';
import { EXPERIMENT, idsOf, OTLP, POST, traces, verdict } from '../../helpers/mlflow-traces.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';

const ECHO = 'what was sent';
const REPLIES = {
  'an empty body': { status: 200, body: '' },
  '202 and an empty body': { status: 202, body: '' },
  '{}': { status: 200, body: '{}' },
  'a queue': { status: 202, body: '{"message":"queued"}' },
  'a page': { status: 200, body: '<html><body>secret-person</body></html>' },
  'what was sent': { status: 200, body: ECHO },
  null: { status: 200, body: 'null' },
  'a list': { status: 200, body: '[{"trace":{}}]' },
  'another id': {
    status: 200,
    body: '{"trace":{"trace_info":{"trace_id":"tr-0"}},"assessment":{"assessment_id":"a-0"}}',
  },
};

const mlflow = useScriptedMlflow({ retry: { baseMs: 1, capMs: 2, attempts: 4 } });

const records = traces(6);
const ids = idsOf(records);
const verdicts = new Map(ids.map((id) => [id, [verdict(id, 'safety')]]));

function write(isJudged: boolean) {
  mlflow.server.expect(ids);
  return mlflow.client.writeTraces(EXPERIMENT, records, isJudged ? verdicts : undefined);
}

/** The gateway's own reply to the n-th request of a path. */
function gateway(
  path: string,
  reply: { status: number; body: string },
  isLost: (n: number) => boolean,
  forwards = false,
) {
  let n = 0;
  mlflow.server.fault((request: SeenRequest) => {
    if (request.path !== path || request.body.length === 0 || !isLost(n++)) return undefined;
    if (forwards) mlflow.server.take(request);
    const body = reply.body === ECHO ? request.body : reply.body;
    return { kind: 'reply', ...reply, body };
  });
}

describe.each([
  ['posts of 3.10.1', '3.10.1', POST, true],
  ['posts of 3.10.1 without verdicts', '3.10.1', POST, false],
  ['posts of 3.17.2', '3.17.2', POST, true],
  ['spans of 3.17.2', '3.17.2', OTLP, true],
  ['spans of 3.17.2 without verdicts', '3.17.2', OTLP, false],
])('%s', (_name, version, path, isJudged) => {
  beforeEach(() => mlflow.start(version));

  describe.each(Object.entries(REPLIES))('are answered with %s', (_reply, reply) => {
    test('and dropped: the writing fails by name', async () => {
      gateway(path, reply, () => true);
      await expect(write(isJudged)).rejects.toMatchObject({
        name: 'MlflowNotStored',
        message: expect.not.stringContaining('secret-person'),
      });
    });

    test('and dropped once: they are written again', async () => {
      gateway(path, reply, (n) => n === 0);
      expect((await write(isJudged)).written.sort()).toEqual(ids);
      expect([...mlflow.server.stored.keys()].sort()).toEqual(ids);
    });

    test('and stored: they are found', async () => {
      gateway(path, reply, () => true, true);
      expect((await write(isJudged)).written.sort()).toEqual(ids);
      expect(mlflow.server.to(path).filter(({ body }) => body.length > 0).length).toBeLessThanOrEqual(ids.length);
    });
  });
});

describe.each(Object.entries(REPLIES))('verdicts of a trace that exists are answered with %s', (_name, reply) => {
  const id = ids[0] as string;
  const info = { experimentId: '7', tagKeys: [] };
  const trace = { traceId: id, readAtMs: Date.now(), state: 'OK', assessments: [], info };
  beforeEach(() => mlflow.start('3.17.2'));

  test('and dropped: the writing fails by name', async () => {
    mlflow.server.taken.set(id, 1);
    gateway(`${POST}/${id}/assessments`, reply, () => true);
    await expect(mlflow.client.writeAssessments(trace, [verdict(id, 'safety')])).rejects.toMatchObject({
      name: 'MlflowNotStored',
    });
  });

  test('and dropped once: they are written again', async () => {
    mlflow.server.taken.set(id, 1);
    gateway(`${POST}/${id}/assessments`, reply, (n) => n === 0);
    expect((await mlflow.client.writeAssessments(trace, [verdict(id, 'safety')])).written).toHaveLength(1);
    expect(mlflow.server.to(`${POST}/${id}/assessments`)).toHaveLength(2);
  });
});
