/**
 * Measures MLflow's own ceiling: a bare client posts the recorded write requests of our side to an idle server. No client
 * can write the same data to this server faster.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { forEachConcurrently } from '../../src/shared/concurrency.ts';

/** A write request. */
interface Write {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Buffer;
}

/** Concurrencies to try. The best one depends on the server's workers. */
const AT_ONCE = [1, 2, 4];
const KEPT_HEADERS = ['content-type', 'x-mlflow-experiment-id'];

/** Routes that write traces, by OTLP or as an artifact and a trace, or verdicts. All other requests read. */
const isWrite = (method: string, path: string): boolean =>
  (method === 'POST' && (path === '/v1/traces' || path === '/api/3.0/mlflow/traces')) ||
  (method === 'PUT' && path.startsWith('/api/2.0/mlflow-artifacts/artifacts/'));

/** Returns MLflow's reply: a posted trace with its tags. */
function answerTo(path: string, body: Buffer): unknown {
  if (path !== '/api/3.0/mlflow/traces') return {};
  const { trace } = JSON.parse(body.toString()) as { trace: { trace_info: Record<string, unknown> } };
  return { trace: { trace_info: { ...trace.trace_info, tags: { event_id: 'recorded' } } } };
}

/** A proxy between a client and MLflow that records writes without forwarding them, and forwards all other requests. */
export class WriteRecorder {
  readonly #writes: Write[] = [];
  readonly #server: Server;
  readonly #target: string;

  private constructor(target: string) {
    this.#target = target;
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => response.destroy(error as Error));
    });
  }

  static async start(target: string): Promise<WriteRecorder> {
    const recorder = new WriteRecorder(target);
    await new Promise<void>((resolve) => recorder.#server.listen(0, '127.0.0.1', resolve));
    return recorder;
  }

  get writes(): readonly Write[] {
    return this.#writes;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const { method = 'GET', url: path = '/' } = request;
    const headers = Object.fromEntries(
      KEPT_HEADERS.flatMap((name) => {
        const value = request.headers[name];
        return typeof value === 'string' ? [[name, value]] : [];
      }),
    );
    if (isWrite(method, path)) {
      this.#writes.push({ method, path, headers, body });
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answerTo(path, body)));
      return;
    }
    // The client reads a file of spans back after putting it.
    const put = this.#writes.findLast((write) => write.method === 'PUT' && write.path === path);
    if (method === 'GET' && put) {
      response.writeHead(200).end(put.body);
      return;
    }
    const reply = await fetch(`${this.#target}${path}`, {
      method,
      headers,
      ...(method === 'GET' ? {} : { body: new Uint8Array(body) }),
    });
    const type = reply.headers.get('content-type') ?? 'application/json';
    response.writeHead(reply.status, { 'content-type': type }).end(Buffer.from(await reply.arrayBuffer()));
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Groups writes that belong together, in order: a trace's file before the trace. */
function units(writes: readonly Write[]): Write[][] {
  const byTrace = new Map<string, Write[]>();
  for (const [index, write] of writes.entries()) {
    const id = /tr-[0-9a-f]{32}/.exec(write.method === 'PUT' ? write.path : write.body.toString('latin1'))?.[0];
    const key = write.path === '/v1/traces' ? `request ${index}` : (id ?? `request ${index}`);
    byTrace.set(key, [...(byTrace.get(key) ?? []), write]);
  }
  return [...byTrace.values()];
}

async function send(target: string, { method, path, headers, body }: Write): Promise<void> {
  const reply = await fetch(`${target}${path}`, { method, headers, body: new Uint8Array(body) });
  const text = await reply.text();
  if (!reply.ok) throw new Error(`MLflow refused a write; got: HTTP ${reply.status} ${text}; where: ${method} ${path}`);
}

/**
 * Measures the ceiling.
 *
 * @param records number of traces in all writes, evenly distributed
 * @returns traces per second at the best concurrency for the server
 */
export async function writeCeiling(target: string, writes: readonly Write[], records: number): Promise<number> {
  const all = units(writes);
  const share = Math.floor(all.length / AT_ONCE.length);
  let best = 0;
  for (const [index, atOnce] of AT_ONCE.entries()) {
    const mine = all.slice(index * share, (index + 1) * share);
    const startedAt = performance.now();
    await forEachConcurrently(atOnce, mine, async (unit) => {
      for (const write of unit) await send(target, write);
    });
    const seconds = (performance.now() - startedAt) / 1000;
    best = Math.max(best, ((mine.length / all.length) * records) / seconds);
  }
  return best;
}
