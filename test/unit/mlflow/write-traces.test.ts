/** Tests of writing traces without loss or duplicates, on servers that refuse, fail or break connections. */
import fc from 'fast-check';
import type { TraceRecord } from '../../../src/captures/trace/types.ts';
import { pseudoRandom } from '../../doubles/faulty-judge/behavior.ts';
import { controlOf } from '../../doubles/scripted-mlflow.ts';
import { MANAGED_ARN, MANAGED_CREDENTIALS } from '../../helpers/mlflow-managed.ts';
import { chatTrace, DELETE, EXPERIMENT, idsOf, OTLP, POST as REST, traces } from '../../helpers/mlflow-traces.ts';
import { useScriptedMlflow } from '../../helpers/use-scripted-mlflow.ts';

interface Deletion {
  request_ids: string[];
}
const NOTHING = { written: [], alreadyThere: [], bare: [], refused: [] };

const mlflow = useScriptedMlflow({ retry: { baseMs: 2, capMs: 5 }, timeoutMs: 5_000 });
afterEach(() => jest.restoreAllMocks());

/** Writes the traces and checks that the server accepted all but the refused exactly once. */
async function write(records: TraceRecord[]) {
  mlflow.server.expect(idsOf(records));
  const result = await mlflow.client.writeTraces(EXPERIMENT, records);
  const refused = result.refused.map(({ traceId }) => traceId);
  const rest = idsOf(records).filter((id) => !refused.includes(id));
  expect([...result.written, ...result.alreadyThere].sort()).toEqual(rest);
  expect([...mlflow.server.taken.keys()].sort()).toEqual(rest);
  expect([...mlflow.server.taken.values()].every((times) => times === 1)).toBe(true);
  return result;
}

/** A trace with about 1,000,000 characters, whose request has the same or three times the number of bytes. */
const large = (character = 'x'): Partial<TraceRecord> => {
  const [span] = chatTrace('7', 'x').spans;
  return { spans: span ? [{ ...span, inputs: { text: character.repeat(1_000_000) } }] : [] };
};

describe('batches', () => {
  beforeEach(() => mlflow.start());

  test('have 100 traces, each batch in one request', async () => {
    await write(traces(250));
    expect(mlflow.server.to(OTLP).map((request) => mlflow.server.tracesOf(request).length)).toEqual([100, 100, 50]);
    expect(mlflow.server.to(OTLP).every(({ headers }) => headers['x-mlflow-experiment-id'] === '7')).toBe(true);
  });

  test.each(['3.17.2', '3.10.1'])(
    'one trace that cannot be serialized is refused, and the others are written (%s)',
    async (version) => {
      await mlflow.server.stop();
      await mlflow.start(version);
      const [span] = chatTrace('7', 'x').spans;
      const result = await write(traces(3, (n) => (n === 1 && span ? { spans: [{ ...span, inputs: 1n }] } : {})));
      expect(result.refused).toMatchObject([{ reason: { name: 'TraceNotBuilt' } }]);
    },
  );

  test('have few traces if they are large', async () => {
    await write(traces(10, () => large()));
    expect(mlflow.server.to(OTLP).length).toBeGreaterThanOrEqual(3);
    for (const { body } of mlflow.server.to(OTLP)) expect(body.length).toBeLessThan(4.5 * 1024 * 1024);
  });

  test('a trace larger than a batch is sent alone', async () => {
    const [span] = chatTrace('7', 'x').spans;
    const huge = chatTrace('7', 'huge', { spans: span ? [{ ...span, inputs: 'x'.repeat(12_000_000) }] : [] });
    await write([...traces(3), huge]);
    expect(mlflow.server.to(OTLP).map((request) => mlflow.server.tracesOf(request).length)).toEqual([3, 1]);
  });

  test('a trace that is passed twice is sent once', async () => {
    const [one] = traces(1);
    mlflow.server.expect([one?.traceId ?? '']);
    await expect(mlflow.client.writeTraces(EXPERIMENT, one ? [one, one] : [])).resolves.toMatchObject({
      written: [one?.traceId],
    });
    expect(mlflow.server.to(OTLP)).toHaveLength(1);
  });

  test('no request is sent if there is nothing to write', async () => {
    await expect(mlflow.client.writeTraces(EXPERIMENT, [])).resolves.toEqual(NOTHING);
    expect(mlflow.server.requests).toHaveLength(0);
  });

  test('a trace with a time outside MLflow’s range is refused, and the others are written', async () => {
    const records = traces(3, (n) => (n === 1 ? { startTimeMs: 1e16, endTimeMs: 1e16 } : {}));
    const { refused } = await write(records);
    expect(refused).toEqual([
      { traceId: records[1]?.traceId, reason: expect.objectContaining({ name: 'MlflowTimeOutOfRange' }) },
    ]);
  });
});

describe('a request that is too large', () => {
  beforeEach(() => mlflow.start());

  test('is halved, and later ones are smaller from the start', async () => {
    const limit = 20_000;
    mlflow.server.refuse(({ path, body }) => path === OTLP && body.length > limit, 413, 'too large');
    await write(traces(200));
    const refused = mlflow.server.to(OTLP).filter(({ body }) => body.length > limit).length;
    expect(refused).toBeGreaterThan(0);
    mlflow.server.taken.clear();
    await write(traces(200));
    expect(mlflow.server.to(OTLP).filter(({ body }) => body.length > limit)).toHaveLength(refused);
  });

  test('is halved if the gateway breaks the connection instead of answering', async () => {
    // More than the system buffers before the connection breaks: up to about 4 MB, depending on earlier requests.
    mlflow.server.cutWhileSending((bytes, path) => path === OTLP && bytes > 7_500_000);
    await write(traces(8, () => large('蕨')));
  });

  test('is refused if it is a single trace', async () => {
    mlflow.server.refuse(({ path, body }) => path === OTLP && body.length > 500_000, 413);
    const records = [...traces(3), chatTrace('7', 'large', large())];
    const { refused } = await write(records);
    expect(refused).toEqual([
      { traceId: records[3]?.traceId, reason: { name: 'MlflowRefused', message: expect.stringContaining('413') } },
    ]);
  });
});

describe.each([
  ['OTLP', OTLP, '3.17.2'],
  ['REST', REST, '3.10.1'],
])('by %s', (_name, path, version) => {
  beforeEach(() => mlflow.start(version));
  const posts = () => mlflow.server.to(path);
  const records = traces(12);
  const faulty = records[7]?.traceId ?? '';
  const isPoisoned = (body: Buffer) =>
    body.includes(faulty) || body.includes(Buffer.from(faulty.replace('tr-', ''), 'hex'));
  const answersPoisoned = (status: number, body: string): void =>
    mlflow.server.refuse((request) => request.path === path && isPoisoned(request.body), status, body);

  test.each([400, 422])('finds the trace that is refused with %i, and writes the others once', async (status) => {
    answersPoisoned(status, 'cannot convert');
    const { refused } = await write(records);
    const message = expect.stringContaining(`HTTP ${status}`);
    expect(refused).toEqual([{ traceId: faulty, reason: { name: 'MlflowRefused', message, words: 'cannot convert' } }]);
  });

  test.each([
    ['and writes the others once', records],
    ['even if it is the only one', records.slice(7, 8)],
  ])('finds the trace on which the server fails, %s', async (_, sent) => {
    answersPoisoned(500, 'oops');
    const reason = { name: 'MlflowFailsOnTrace', message: expect.not.stringContaining('oops'), words: 'oops' };
    expect((await write(sent)).refused).toEqual([{ traceId: faulty, reason }]);
  });

  test('ends with the round that accepts the last suspect', async () => {
    let controls = 0;
    mlflow.server.fault((request) => {
      if (request.path !== path) return undefined;
      const isControl = mlflow.server.tracesOf(request).length === 0;
      if (isControl) controls += 1;
      // Both fail until they are suspects. Then one is accepted in the first round, and one in the second.
      const isAccepted = isControl || controls >= (isPoisoned(request.body) ? 2 : 1);
      return isAccepted ? undefined : { kind: 'reply', status: 500, body: 'oops' };
    });
    expect((await write(records.slice(6, 8))).refused).toEqual([]);
    expect(controls).toBe(2);
  });

  test('deletes the control traces', async () => {
    const controls = new Set<string>();
    mlflow.server.fault((request) => {
      if (request.path !== path) return undefined;
      if (isPoisoned(request.body)) return { kind: 'reply', status: 500, body: 'oops' };
      if (mlflow.server.tracesOf(request).length === 0) controls.add(controlOf(request.body));
      return undefined;
    });
    await write(records);
    const deleted = mlflow.server
      .to(DELETE)
      .flatMap(({ body }) => (JSON.parse(body.toString()) as Deletion).request_ids);
    // One a round, until the trace is found faulty.
    expect(controls.size).toBe(16);
    expect(deleted.sort()).toEqual([...controls].sort());
  });

  test('does not refuse a trace if the server accepts no other trace either', async () => {
    let taken = 0;
    // After three requests the disk is full.
    mlflow.server.refuse((request) => request.path === path && taken++ >= 3, 500, 'disk full');
    const few = traces(path === OTLP ? 305 : 8);
    mlflow.server.expect(idsOf(few));
    await expect(mlflow.client.writeTraces(EXPERIMENT, few)).rejects.toMatchObject({
      name: 'MlflowUnavailable',
      message: expect.stringContaining('HTTP 500'),
    });
    expect(mlflow.server.taken.size).toBeGreaterThan(0);
  });

  test.each([0.3, 0.5])(
    'a server that fails %d of all requests never causes a good trace to be refused',
    async (share) => {
      const draw = pseudoRandom(7);
      const many = traces(60);
      mlflow.server.expect(idsOf(many));
      mlflow.server.refuse(() => draw() < share, 500, 'oops');
      const refused: unknown[] = [];
      // As the state machine retries: existing traces are not written again.
      for (let attempt = 0; attempt < 7 && mlflow.server.taken.size < many.length; attempt += 1) {
        const absent = many.filter(({ traceId }) => !mlflow.server.taken.has(traceId));
        const result = await mlflow.client.writeTraces(EXPERIMENT, absent).catch((error: Error) => {
          expect(error.name).toBe('MlflowUnavailable');
        });
        refused.push(...(result?.refused ?? []));
      }
      expect(refused).toEqual([]);
      expect([...mlflow.server.taken.keys()].sort()).toEqual(idsOf(many));
      expect([...mlflow.server.taken.values()].every((times) => times === 1)).toBe(true);
    },
  );

  test('a refused trace that exists by now counts as already there', async () => {
    mlflow.server.expect(idsOf(records));
    mlflow.server.fault((request) => {
      if (request.path !== path || !isPoisoned(request.body)) return undefined;
      mlflow.server.taken.set(faulty, 1);
      return { kind: 'reply', status: 400, body: 'UNIQUE constraint failed' };
    });
    const result = await mlflow.client.writeTraces(EXPERIMENT, records);
    expect(result.alreadyThere).toEqual([faulty]);
    expect(result.refused).toEqual([]);
  });

  test('reads after a timeout, and sends only missing traces', async () => {
    mlflow.client = mlflow.connect({ timeoutMs: 200 });
    let times = 0;
    mlflow.server.fault((request) => {
      if (request.path !== path || times++ >= 2) return undefined;
      mlflow.server.take(request);
      return { kind: 'slowBody' };
    });
    await write(records);
  });

  test('an outage is an error and refuses no trace', async () => {
    mlflow.server.expect(idsOf(records));
    mlflow.server.refuse((request) => request.path === path, 500, 'disk full');
    await expect(mlflow.client.writeTraces(EXPERIMENT, traces(100))).rejects.toMatchObject({
      name: 'MlflowUnavailable',
    });
    expect(posts().length).toBeLessThan(100);
  });

  test('a server that refuses everything is an error', async () => {
    mlflow.server.refuse((request) => request.path === path, 400, 'no');
    await expect(mlflow.client.writeTraces(EXPERIMENT, traces(30))).rejects.toMatchObject({ name: 'MlflowRefusesAll' });
  });

  test('many refusals count if the server accepts a control trace', async () => {
    const many = traces(30);
    mlflow.server.expect(idsOf(many));
    mlflow.server.refuse((request) => request.path === path && mlflow.server.tracesOf(request).length > 0, 400, 'no');
    expect((await mlflow.client.writeTraces(EXPERIMENT, many)).refused).toHaveLength(30);
    expect(mlflow.server.to(DELETE)).toHaveLength(1);
  });

  test('denied access stops the writing immediately', async () => {
    mlflow.server.refuse((request) => request.path === path, 403);
    await expect(mlflow.client.writeTraces(EXPERIMENT, records)).rejects.toMatchObject({ name: 'MlflowAccessDenied' });
    expect(posts().length).toBeLessThanOrEqual(4);
  });

  test('a deleted experiment is reported', async () => {
    mlflow.server.fault((request) => {
      if (request.path === path) return { kind: 'reply', status: 400, body: '{"error_code":"INVALID_STATE"}' };
      if (!request.path.includes('/experiments/get')) return undefined;
      const deleted = { experiment: { experiment_id: '7', name: 'e', lifecycle_stage: 'deleted' } };
      return { kind: 'reply', status: 200, body: JSON.stringify(deleted) };
    });
    await expect(mlflow.client.writeTraces(EXPERIMENT, records)).rejects.toMatchObject({
      name: 'MlflowExperimentDeleted',
    });
  });

  const taken = ['takenThenCut', 'takenThenFails', 'takenThenDown'] as const;
  const mishaps = ['none', 'none', 'throttle', 'down', 'cut', ...taken] as const;

  test('writes every trace once, whatever fails', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...mishaps), { maxLength: 40 }), async (script) => {
        mlflow.server.taken.clear();
        const left = [...script];
        mlflow.server.fault((request) => {
          if (request.path !== path) return undefined;
          const mishap = left.shift() ?? 'none';
          if (mishap.startsWith('taken')) mlflow.server.take(request);
          if (mishap === 'throttle') return { kind: 'reply', status: 429 };
          if (mishap === 'takenThenFails') return { kind: 'reply', status: 500 };
          if (mishap === 'down' || mishap === 'takenThenDown') return { kind: 'reply', status: 502 };
          return mishap === 'none' ? undefined : { kind: 'cut' };
        });
        mlflow.client = mlflow.connect({ retry: { baseMs: 0, capMs: 1, attempts: 50 } });
        const { refused } = await write(traces(9));
        expect(refused).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });
});

test('a reply by OTLP with status 200 refuses the traces whose spans it rejects', async () => {
  await mlflow.start();
  const records = traces(5);
  const bad = records[2]?.traceId ?? '';
  const partial = Buffer.from([0x0a, 5, 0x08, 1, 0x12, 1, 0x61]);
  mlflow.server.refuse(
    (request) => request.path === OTLP && mlflow.server.tracesOf(request).includes(bad),
    200,
    partial,
  );
  expect((await write(records)).refused).toEqual([
    { traceId: bad, reason: { name: 'MlflowRefused', message: expect.stringContaining('1 spans rejected') } },
  ]);
});

describe('the protocol', () => {
  test('writes the file of spans before the trace without OTLP', async () => {
    await mlflow.start('3.10.1');
    const records = traces(6);
    await write(records);
    expect(mlflow.server.to(OTLP)).toHaveLength(0);
    for (const { traceId } of records) {
      const steps = mlflow.server.requests.filter(({ path, body }) => path.includes(traceId) || body.includes(traceId));
      expect(steps.map(({ method, path }) => `${method} ${path}`)).toEqual([
        `PUT /api/2.0/mlflow-artifacts/artifacts/7/traces/${traceId}/artifacts/traces.json`,
        `GET /api/2.0/mlflow-artifacts/artifacts/7/traces/${traceId}/artifacts/traces.json`,
        `POST ${REST}`,
      ]);
    }
  });

  test('is determined again after a while, because the server may have been rolled back', async () => {
    await mlflow.start();
    await write(traces(2));
    mlflow.server.taken.clear();
    await write(traces(2));
    expect(mlflow.server.to('/version')).toHaveLength(1);
    const later = Date.now() + 61_000;
    jest.spyOn(Date, 'now').mockImplementation(() => later);
    mlflow.server.refuse(({ path }) => path === '/version', 200, '3.16.0');
    mlflow.server.taken.clear();
    await write(traces(2));
    expect([mlflow.server.to(OTLP).length, mlflow.server.to(REST).length]).toEqual([2, 2]);
  });

  test.each([404, 405, 501])('switches to REST after %i for OTLP, and stays there', async (status) => {
    await mlflow.start();
    mlflow.server.refuse(({ path }) => path === OTLP, status, '{"detail":"Not Found"}');
    await write(traces(5));
    expect(mlflow.server.to(OTLP)).toHaveLength(1);
    expect(mlflow.server.to('/version')).toHaveLength(2);
    mlflow.server.taken.clear();
    await write(traces(5));
    expect(mlflow.server.to(OTLP)).toHaveLength(1);
  });

  test.each([403, 404])('switches to REST after %i for OTLP by managed MLflow', async (status) => {
    await mlflow.start();
    mlflow.client = mlflow.connect({
      trackingUri: MANAGED_ARN,
      customEndpoint: mlflow.server.url,
      credentials: async () => MANAGED_CREDENTIALS,
    });
    mlflow.server.refuse(({ path }) => path === OTLP, status);
    await write(traces(5));
    expect(mlflow.server.to(OTLP)).toHaveLength(1);
    mlflow.server.refuse(() => true, 403);
    await expect(mlflow.client.writeTraces(EXPERIMENT, traces(1))).rejects.toMatchObject({
      name: 'MlflowAccessDenied',
    });
  });

  test('reports an artifact store that is not supported', async () => {
    await mlflow.start('3.10.1');
    const elsewhere = { ...EXPERIMENT, artifactLocation: 'gs://bucket/7' };
    await expect(mlflow.client.writeTraces(elsewhere, traces(1))).rejects.toMatchObject({
      name: 'MlflowArtifactStoreUnsupported',
      message: expect.stringContaining('gs://bucket/7'),
    });
    const inS3 = { ...EXPERIMENT, artifactLocation: 's3://bucket/7' };
    await expect(mlflow.client.writeTraces(inS3, traces(1))).rejects.toMatchObject({ name: 'MlflowS3ClientMissing' });
  });
});

describe('a file of spans', () => {
  beforeEach(() => mlflow.start('3.13.0'));
  const records = traces(6);
  const [one] = records;
  const isFileOf = (traceId: string | undefined, { method, path }: { method: string; path: string }) =>
    method === 'PUT' && path.includes(traceId ?? '?');
  const spansOf = (traceId: string) => {
    const [, file] = [...mlflow.server.files].find(([path]) => path.includes(traceId)) ?? [];
    return (JSON.parse(file?.toString() ?? '{}') as { spans: unknown[] }).spans;
  };
  /** A mixture of two concurrent puts: the beginning of one file and the end of the other. */
  const mixed = (body: Buffer) => Buffer.concat([body, body.subarray(-7)]);

  test.each([1, 3])('is put again after a concurrent put has spoiled it %d times', async (times) => {
    let left = times;
    mlflow.server.fault((request) => {
      if (!isFileOf(one?.traceId, request) || left === 0) return undefined;
      left -= 1;
      mlflow.server.files.set(request.path, mixed(request.body));
      return { kind: 'reply', status: 200, body: '{}' };
    });
    await write(records);
    for (const { traceId } of records) expect(spansOf(traceId)).toHaveLength(1);
  });

  test('is repaired if its put was interrupted while another run wrote the trace', async () => {
    // The number of sends before existing traces are read again.
    let left = 3;
    mlflow.server.fault((request) => {
      if (!isFileOf(one?.traceId, request) || left === 0) return undefined;
      left -= 1;
      mlflow.server.files.set(request.path, request.body.subarray(0, 100));
      mlflow.server.taken.set(one?.traceId ?? '', 1);
      return { kind: 'reply', status: 500 };
    });
    await write(records);
    for (const { traceId } of records) expect(spansOf(traceId)).toHaveLength(1);
  });

  test('of an existing trace is put again only if it is incomplete', async () => {
    await write(records);
    const [broken, other, missing] = [...mlflow.server.files.keys()];
    const whole = mlflow.server.files.get(other ?? '');
    mlflow.server.files.set(broken ?? '', mixed(mlflow.server.files.get(broken ?? '') ?? Buffer.alloc(0)));
    mlflow.server.files.delete(missing ?? '');
    const before = mlflow.server.requests.length;
    await mlflow.client.mendTraces(EXPERIMENT, records);
    for (const { traceId } of records) expect(spansOf(traceId)).toHaveLength(1);
    expect(mlflow.server.files.get(other ?? '')).toBe(whole);
    const puts = mlflow.server.requests.slice(before).filter(({ method }) => method === 'PUT');
    expect(puts.map(({ path }) => path).sort()).toEqual([broken, missing].sort());
  });

  test('is an error, and no trace, if the server always stores other content', async () => {
    mlflow.server.expect(idsOf(records));
    mlflow.server.fault((request) => {
      if (!isFileOf(one?.traceId, request)) return undefined;
      mlflow.server.files.set(request.path, mixed(request.body));
      return { kind: 'reply', status: 200, body: '{}' };
    });
    await expect(mlflow.client.writeTraces(EXPERIMENT, records)).rejects.toMatchObject({
      name: 'MlflowUnavailable',
      message: expect.stringContaining('stored a file with other content'),
    });
    expect(mlflow.server.taken.has(one?.traceId ?? '')).toBe(false);
  });
});

test('any number of ids are read in requests of 100', async () => {
  await mlflow.start();
  const records = traces(250);
  await write(records);
  mlflow.server.requests.length = 0;
  const found = await mlflow.client.getTraces('7', [...idsOf(records), 'tr-0', ...idsOf(records)]);
  expect([...found.keys()].sort()).toEqual(idsOf(records));
  expect(mlflow.server.requests.filter(({ path }) => path.endsWith('traces/search'))).toHaveLength(3);
});
