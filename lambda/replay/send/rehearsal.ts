/**
 * Before the clock starts, some bursts are sent to a server in this process. Code that has not run yet is compiled while
 * it first runs: the first burst of a replay went out 3 to 5 ms late, and of few bursts each counts.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { ConnectionPool } from '../http/pool.ts';
import { measure } from '../measure/measure.ts';
import type { PreparedRequest } from '../request/prepared.ts';
import { httpRequest } from '../target/target.ts';
import { Dispatcher } from './dispatcher.ts';

const HOST = '127.0.0.1';
/** So many that the compiler has all of it, in some 40 ms. */
const BURSTS = 16;
const BURST = 12;
const APART_MS = 2;
const TIMEOUT_MS = 1_000;

const BODY = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: 'Fine.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 },
});
const REPLY = Buffer.from(
  `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nKeep-Alive: timeout=5\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`,
);

let done = false;

/** Once in a process. Where no port can be listened on, the replay begins all the same. */
export async function rehearse(): Promise<void> {
  if (done) return;
  done = true;
  const { wire, bodyAt } = httpRequest('POST', '/', [['Host', HOST]], Buffer.from('{"messages":[]}'));
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    let bytes = 0;
    socket.on('error', () => {});
    socket.on('data', (data) => {
      for (bytes += data.length; bytes >= wire.length; bytes -= wire.length) socket.write(REPLY);
    });
  });
  try {
    const pool = new ConnectionPool({ tls: false, hostname: HOST, port: await listen(server) });
    try {
      await pool.open();
      await sendBursts(pool, wire, bodyAt);
    } finally {
      pool.close();
    }
  } catch {
    // It is a rehearsal: what matters is the replay.
  } finally {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  }
}

const listen = (server: Server): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, HOST, () => resolve((server.address() as AddressInfo).port));
  });

async function sendBursts(pool: ConnectionPool, wire: Buffer, bodyAt: number): Promise<void> {
  const dispatcher = new Dispatcher({
    pool,
    maxConcurrency: Number.POSITIVE_INFINITY,
    timeoutMs: TIMEOUT_MS,
    onDone: ({ request, exchange, scheduledAt, roomAt }) => {
      measure(request, exchange, scheduledAt, roomAt, new Map());
      exchange.release();
    },
  });
  pool.warm(BURST);
  await pool.warmed(TIMEOUT_MS);
  for (let ordinal = 0; ordinal < BURSTS * BURST; ordinal++) {
    dispatcher.push(requestOf(ordinal, Math.floor(ordinal / BURST) * APART_MS, wire, bodyAt));
  }
  dispatcher.close();
  dispatcher.start(performance.now() + APART_MS);
  await dispatcher.drained();
}

const requestOf = (ordinal: number, dueMs: number, wire: Buffer, bodyAt: number): PreparedRequest => ({
  ordinal,
  pass: 0,
  dueMs,
  phase: 'warmup',
  wire,
  bodyAt,
  contentType: 'application/json',
  isJson: true,
  streaming: false,
  turn: { session: ordinal, turnIndex: 0, conversationId: '' },
  requestId: '',
  correlationId: '',
  file: '',
  line: 0,
  capturedMs: 0,
  inputTokens: { count: 9, source: 'estimate' },
});
