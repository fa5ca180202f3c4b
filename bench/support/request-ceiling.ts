/**
 * Measures MLflow's own ceiling: bare clients repeat the recorded requests of our side, under other ids, to the idle server.
 * No client can make the same requests of this server faster.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { median, round } from './result.ts';

interface Recorded {
  method: string;
  path: string;
  headers: Record<string, string>;
  /** Latin-1 text of its bytes. */
  body: string;
  /** The server's reply; a repetition gets the same. */
  status: number;
}

/** Numbers of clients to try. The best one depends on the server's workers. */
const CLIENTS = [1, 2, 4, 8];
const MOST_SENDS = 3;
const KEPT_HEADERS = ['content-type', 'x-mlflow-experiment-id'];

/** Requests about traces, their spans and verdicts: not those that look up or make the experiment. */
const OF_TRACES = /^\/(?:v1\/traces|api\/[23]\.0\/mlflow\/traces|api\/2\.0\/mlflow-artifacts\/)/;
const ID = /\b(tr|a)-([0-9a-f])([0-9a-f]{31})/g;

/** A proxy between a client and MLflow that records the requests about traces. */
export class RequestRecorder {
  readonly requests: Recorded[] = [];
  readonly #server: Server;
  readonly #target: string;

  private constructor(target: string) {
    this.#target = target;
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error: unknown) => response.destroy(error as Error));
    });
  }

  static async start(target: string): Promise<RequestRecorder> {
    const recorder = new RequestRecorder(target);
    await new Promise<void>((resolve) => recorder.#server.listen(0, '127.0.0.1', resolve));
    return recorder;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = 'GET', url: path = '/' } = request;
    const headers = Object.fromEntries(
      KEPT_HEADERS.flatMap((name) => {
        const value = request.headers[name];
        return typeof value === 'string' ? [[name, value]] : [];
      }),
    );
    const recorded = { method, path, headers, body: Buffer.concat(chunks).toString('latin1'), status: 0 };
    if (OF_TRACES.test(path)) this.requests.push(recorded);
    const reply = await send(this.#target, recorded);
    recorded.status = reply.status;
    const type = reply.headers.get('content-type') ?? 'application/json';
    response.writeHead(reply.status, { 'content-type': type }).end(Buffer.from(await reply.arrayBuffer()));
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** The server closes connections that were idle for some seconds, also when a request is on its way: that one is sent again. */
async function send(target: string, recorded: Recorded, tries = MOST_SENDS): Promise<Response> {
  const { method, path, headers, body } = recorded;
  try {
    const sent = method === 'GET' ? {} : { body: Buffer.from(body, 'latin1') };
    return await fetch(`${target}${path}`, { method, headers, ...sent });
  } catch (error) {
    if (tries === 1) throw error;
    return send(target, recorded, tries - 1);
  }
}

/** Returns the requests about other traces and assessments, so that the server has none of them. `n`: from 1 to 15. */
function renamed(requests: readonly Recorded[], n: number): Recorded[] {
  const other = (digit: string): string => (Number.parseInt(digit, 16) ^ n).toString(16);
  const bytesOf = (hex: string): string => Buffer.from(hex, 'hex').toString('latin1');
  const inText = (text: string): string =>
    text.replace(ID, (_id, kind: string, first: string, rest: string) => `${kind}-${other(first)}${rest}`);
  // In protobuf, ids are bytes. Each was read before by its name.
  const named = requests.flatMap(({ body }) => [...body.matchAll(ID)].filter(([, kind]) => kind === 'tr'));
  const ids = new Map(
    named.map(([id, , first = '', rest = '']) => [id, { from: first + rest, to: other(first) + rest }]),
  );
  const inBytes = (bytes: string): string =>
    [...ids.values()].reduce((text, { from, to }) => text.replaceAll(bytesOf(from), () => bytesOf(to)), bytes);
  return requests.map((request) => {
    const { path, body, headers } = request;
    const isBinary = headers['content-type'] === 'application/x-protobuf';
    return { ...request, path: inText(path), body: inText(isBinary ? inBytes(body) : body) };
  });
}

/**
 * Groups the requests that one client must make in order: the file of a trace, its reading and its post. All others are made
 * in the recorded order too, by as many clients as there are.
 */
function inOrder(requests: readonly Recorded[]): Recorded[][] {
  const groups: Recorded[][] = [];
  const ofFile = new Map<string, Recorded[]>();
  for (const request of requests) {
    const { method, path, body } = request;
    const isOne = path.includes('/mlflow-artifacts/') || (method === 'POST' && path === '/api/3.0/mlflow/traces');
    const id = isOne ? /tr-[0-9a-f]{32}/.exec(`${path} ${body}`)?.[0] : undefined;
    const open = id === undefined ? undefined : ofFile.get(id);
    if (open !== undefined) {
      open.push(request);
      continue;
    }
    const group = [request];
    groups.push(group);
    if (id !== undefined) ofFile.set(id, group);
  }
  return groups;
}

/**
 * The rate of the best number of bare clients. For each round, the other rounds decide which number that is: the best of the same round
 * would be the luckiest, since the rates differ less by number than by chance.
 */
export class Ceiling {
  readonly #rates = new Map<number, number[]>();
  readonly #target: string;

  constructor(target: string) {
    this.#target = target;
  }

  /**
   * Repeats the requests of a round, once with each number of clients.
   *
   * @param records the number of traces in the requests
   * @param before called before each number of clients, to measure something else at nearly the same time: a machine’s speed varies
   */
  async measure(
    requests: readonly Recorded[],
    records: number,
    before?: (clients: number) => Promise<void>,
  ): Promise<void> {
    // What the server failed at was sent again, so that its repetition is among them.
    const answered = requests.filter(({ status }) => status < 500);
    for (const [index, clients] of CLIENTS.entries()) {
      await before?.(clients);
      const groups = inOrder(renamed(answered, index + 1));
      const startedAt = performance.now();
      await forEachConcurrently(clients, groups, async (group) => {
        for (const request of group) await repeat(this.#target, request);
      });
      const rate = records / ((performance.now() - startedAt) / 1000);
      this.#rates.set(clients, [...(this.#rates.get(clients) ?? []), rate]);
    }
  }

  /** Traces per second: the median of the rounds; the luckiest of a single one. */
  get rate(): number {
    const all = [...this.#rates.values()];
    const rounds = all[0]?.length ?? 0;
    if (rounds < 2) return Math.max(...all.flat());
    const ofRound = (round: number): number => {
      const byOthers = (rates: readonly number[]): number => median(rates.toSpliced(round, 1));
      const best = all.toSorted((a, b) => byOthers(b) - byOthers(a))[0] ?? [];
      return best[round] ?? Number.NaN;
    };
    return median(Array.from({ length: rounds }, (_, round) => ofRound(round)));
  }

  toString(): string {
    const of = [...this.#rates].map(([clients, rates]) => `${clients} clients ${round(median(rates), 1)}`);
    return `${round(this.rate, 1)}/s (${of.join(', ')})`;
  }
}

async function repeat(target: string, request: Recorded): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const reply = await send(target, request);
    const text = await reply.text();
    if (reply.status === request.status) return;
    // MLflow 3.10.1 fails to parse a filter now and then, if it parses two at once.
    if (reply.status === 500 && attempt < MOST_SENDS) continue;
    const { method, path, status } = request;
    throw new Error(
      `MLflow answered a repeated request otherwise; got: HTTP ${reply.status} ${text.slice(0, 500)}; expected: HTTP ${status}; where: ${method} ${path}`,
    );
  }
}
