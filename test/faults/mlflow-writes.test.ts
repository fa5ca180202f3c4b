/**
 * Faults that appear only with many requests: several runs write the same records at the same moment, and a server fails at
 * random. `FAULT_MLFLOW_VERSIONS=3.13.0` selects a version.
 */

import { DEFAULT_MLFLOW_VERSION } from '../../local/python/python-presets.ts';
import type { TraceRecord } from '../../src/captures/trace/types.ts';
import { RETRYABLE_ERRORS } from '../../src/core/errors/error-table.ts';
import { createMlflowClient, type MlflowClient } from '../../src/mlflow/client.ts';
import { pseudoRandom } from '../doubles/faulty-judge/behavior.ts';
import type { MisbehavingServer, SeenRequest } from '../doubles/misbehaving-server.ts';
import { START_LIMIT_MS, startPlainMlflow } from '../helpers/mlflow-plain.ts';
import { chatTrace } from '../helpers/mlflow-traces.ts';

jest.setTimeout(240_000);

const versions = process.env.FAULT_MLFLOW_VERSIONS?.split(',') ?? ['3.9.0', '3.10.1', '3.13.0', DEFAULT_MLFLOW_VERSION];

const TRACES = 80;
/** When three writers put a file at the same moment, two of them leave a mixture in about one of ten cases. */
const WRITERS = 3;
/** Traces per call, so that there are many requests also by OTLP, which would send all traces in one. */
const A_WRITE = 2;
/** The attempts of the state machine: the first one and six retries. */
const ATTEMPTS = 7;
/** The longest wait for the other writers, in case one of them failed. */
const LONGEST_WAIT_MS = 5_000;

/** Files of spans are written one by one, traces by OTLP in one request. */
const isWrite = ({ method, path }: SeenRequest): boolean => method === 'PUT' || path === '/v1/traces';

/** Holds the writers’ first requests for a file, or for all traces, until all of them have arrived. */
function meeting(): Parameters<MisbehavingServer['rule']>[0] {
  const waiting = new Map<string, (() => void)[]>();
  return (request) => {
    if (!isWrite(request)) return undefined;
    const others = waiting.get(request.path) ?? [];
    if (others.length >= WRITERS) return undefined;
    waiting.set(request.path, others);
    const together = new Promise<void>((resolve) => {
      others.push(resolve);
      if (others.length === WRITERS) for (const go of others) go();
      setTimeout(resolve, LONGEST_WAIT_MS).unref();
    });
    return { kind: 'after', work: () => together, next: { kind: 'pass' } };
  };
}

/** The same records from a different capture file for each writer, so that their files of spans differ, also in length. */
const recordsOf = (experimentId: string, writer: number): TraceRecord[] =>
  Array.from({ length: TRACES }, (_, n) => {
    const trace = chatTrace(experimentId, `record ${n}`);
    const place = { bucket: 'captures', key: `${'copy-of-'.repeat(writer)}records.jsonl`, line: n };
    return {
      ...trace,
      spans: trace.spans.map((span) => ({ ...span, attributes: { ...span.attributes, 'capture.place': place } })),
    };
  });

describe.each(versions)('with MLflow %s', (version) => {
  let mlflow: Awaited<ReturnType<typeof startPlainMlflow>>;
  const clients: MlflowClient[] = [];

  beforeAll(async () => {
    mlflow = await startPlainMlflow(version);
  }, START_LIMIT_MS);
  afterAll(async () => {
    for (const client of clients) client.close();
    await mlflow?.stop();
  });

  test('keeps all records complete when several files with the same records are written at the same time', async () => {
    const { proxy } = mlflow.faulty;
    const experiment = await mlflow.client.resolveExperiment('at once');
    proxy.rule(meeting());
    const results = await Promise.all(
      Array.from({ length: WRITERS }, (_, writer) => {
        const client = createMlflowClient({ trackingUri: proxy.url, retry: { baseMs: 20, capMs: 200 } });
        clients.push(client);
        return client.writeTraces(experiment, recordsOf(experiment.id, writer));
      }),
    );
    proxy.rule(() => undefined);
    for (const { written, alreadyThere, refused } of results) {
      expect({ taken: written.length + alreadyThere.length, refused }).toEqual({ taken: TRACES, refused: [] });
    }
    const found = await mlflow.reader.search(experiment.id);
    const expected = recordsOf(experiment.id, 0);
    expect(found.map(({ traceId }) => traceId).sort()).toEqual(expected.map(({ traceId }) => traceId).sort());
    const inputs = new Map(expected.map(({ traceId, spans }) => [traceId, spans[0]?.inputs]));
    for (const { traceId, spans, tokenUsage } of found) {
      expect(spans.map((span) => span.inputs)).toEqual([inputs.get(traceId)]);
      expect(tokenUsage).toMatchObject({ total_tokens: 38 });
    }
  });

  test.each([0.3, 0.5])('writes all records, and refuses none, when %d of all requests fail', async (share) => {
    const { proxy, client } = mlflow.faulty;
    const experiment = await mlflow.client.resolveExperiment(`failing on ${share}`);
    const records = recordsOf(experiment.id, 0);
    const draw = pseudoRandom(3);
    let failed = 0;
    proxy.rule(() => {
      if (draw() >= share) return undefined;
      failed += 1;
      // Half of the failures come after the work is done.
      return draw() < 0.5 ? { kind: 'reply', status: 500 } : { kind: 'passThenReply', status: 500 };
    });
    // Like the state machine: each attempt writes the traces that it does not find.
    let refused: unknown[] = [];
    let isWhole = false;
    for (let attempt = 0; attempt < ATTEMPTS && !isWhole; attempt += 1) {
      try {
        const ids = records.map(({ traceId }) => traceId);
        const existing = await client.getTraces(experiment.id, ids);
        const absent = records.filter(({ traceId }) => !existing.has(traceId));
        for (let from = 0; from < absent.length; from += A_WRITE) {
          const result = await client.writeTraces(experiment, absent.slice(from, from + A_WRITE));
          refused = [...refused, ...result.refused];
        }
        isWhole = true;
      } catch (error) {
        expect(RETRYABLE_ERRORS).toContain((error as Error).name);
      }
    }
    proxy.rule(() => undefined);
    expect({ isWhole, refused }).toEqual({ isWhole: true, refused: [] });
    expect(failed).toBeGreaterThan(5);
    // The control traces are deleted too.
    const found = await mlflow.reader.search(experiment.id);
    expect(found.map(({ traceId }) => traceId).sort()).toEqual(records.map(({ traceId }) => traceId).sort());
    for (const { spans, tokenUsage } of found) {
      expect(spans).toHaveLength(1);
      expect(tokenUsage).toMatchObject({ total_tokens: 38 });
    }
  });

  test('refuses only the record that MLflow cannot process', async () => {
    const { proxy, client } = mlflow.faulty;
    const experiment = await mlflow.client.resolveExperiment('poisonous');
    const records = recordsOf(experiment.id, 0);
    const poison = records.at(-1)?.traceId ?? '';
    const bytes = Buffer.from(poison.replace('tr-', ''), 'hex');
    const isPoisoned = ({ body }: SeenRequest) => body.includes(poison) || body.includes(bytes);
    proxy.rule((request) => {
      const isTrace = isWrite(request) || request.path === '/api/3.0/mlflow/traces';
      return isTrace && isPoisoned(request) ? { kind: 'reply', status: 500, body: 'cannot encode' } : undefined;
    });
    const { refused } = await client.writeTraces(experiment, records);
    proxy.rule(() => undefined);
    expect(refused).toEqual([
      {
        traceId: poison,
        reason: expect.objectContaining({ name: 'MlflowFailsOnTrace', message: expect.stringContaining('HTTP 500') }),
      },
    ]);
    const found = await mlflow.reader.search(experiment.id);
    expect(found.map(({ traceId }) => traceId).sort()).toEqual(
      records
        .slice(0, -1)
        .map(({ traceId }) => traceId)
        .sort(),
    );
  });
});
