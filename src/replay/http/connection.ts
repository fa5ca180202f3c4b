import { connect as connectTcp, isIP, type Socket } from 'node:net';
import type { SecureContext, TLSSocket } from 'node:tls';
import type { Exchange, ExchangeError } from './exchange.ts';
import { ResponseParser } from './response-parser.ts';

/** Where connections go. */
export interface Origin {
  tls: boolean;
  /** Name for the Host header and for TLS. */
  hostname: string;
  port: number;
}

/** What a connection tells the pool. */
export interface ConnectionOwner {
  /** Opened, and nothing to send on it. */
  onIdle(connection: Connection): void;
  onClosed(connection: Connection): void;
  /**
   * Could not be opened.
   *
   * @param waiting the request for which it was, of which nothing was sent
   * @returns whether that goes on another connection; else it fails
   */
  onConnectFailed(connection: Connection, error: NodeJS.ErrnoException, waiting: Exchange | undefined): boolean;
  /** Closed by the other side before anything was sent on it. */
  onUnused(): void;
  /** TLS session for the next connection, so that it need not negotiate anew. */
  tlsSession: Buffer | undefined;
  /** Of all connections: one for each would be a third of what opening it takes. */
  readonly secureContext: SecureContext | undefined;
}

/**
 * All connections read into one buffer: reads are handled one after the other, and whatever is kept is copied.
 * 64 KiB is the most that libuv reads at once.
 */
const READ_BUFFER = Buffer.allocUnsafeSlow(64 * 1024);

let tls: typeof import('node:tls') | undefined;

/** Loads what connections to `origin` need; to be awaited before the first. TLS is 5 MB that plain ones do without. */
export async function loadTransport(origin: Origin): Promise<SecureContext | undefined> {
  if (!origin.tls) return undefined;
  tls ??= await import('node:tls');
  return tls.createSecureContext();
}

/** AIPerf's names for the failures of a connection, by Node's code. */
const ERROR_TYPES: Record<string, string> = {
  ECONNREFUSED: 'ConnectionRefusedError',
  ECONNRESET: 'ConnectionResetError',
  EPIPE: 'BrokenPipeError',
  ETIMEDOUT: 'ConnectionTimeoutError',
  ENOTFOUND: 'DNSError',
  EMFILE: 'TooManyOpenFiles',
};

/** Failures of this machine: no descriptor, no port, no memory for a connection. They say nothing of the target. */
const OWN_FAILURES = ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'];
const OWN_ERROR_TYPES = new Set(OWN_FAILURES.map((code) => ERROR_TYPES[code] ?? code));

/** Whether a request that failed so never left this machine. @param type of its error */
export const isOwnFailure = ({ type }: { type: string }): boolean => OWN_ERROR_TYPES.has(type);

/** A silent connection is asked so often whether it is alive: gateways and balancers forget it after 350 s. */
const KEEP_ALIVE_MS = 60_000;

export function describeSocketError(error: NodeJS.ErrnoException): ExchangeError {
  return { type: ERROR_TYPES[error.code ?? ''] ?? error.code ?? error.name, message: error.message };
}

/** One keep-alive connection, carrying one request at a time. It never sends a request twice. */
export class Connection {
  readonly address: string;
  readonly #socket: Socket;
  readonly #owner: ConnectionOwner;
  #used = false;
  readonly #parser = new ResponseParser();
  #openedAt = Number.NaN;
  #current: Exchange | undefined;
  #ended = false;
  /** Its place among the pool's idle ones; -1 when it is not there. */
  idleIndex = -1;
  /** When it became idle, ms of `performance.now()`. */
  idleSince = Number.NaN;
  closed = false;

  constructor(origin: Origin, address: string, owner: ConnectionOwner, first?: Exchange) {
    this.address = address;
    this.#owner = owner;
    this.#current = first;
    if (first) {
      first.connectStartAt = performance.now();
      first.connection = this;
    }
    this.#socket = origin.tls ? this.#openTls(origin, address) : this.#openTcp(origin, address);
    this.#socket.setKeepAlive(true, KEEP_ALIVE_MS);
    this.#socket.on('error', (error) => this.#fail(describeSocketError(error), error));
    this.#socket.on('end', () => this.#serverEnded());
    this.#socket.on('close', () => this.#serverEnded());
  }

  get opening(): boolean {
    return !this.closed && Number.isNaN(this.#openedAt);
  }

  /** Seconds that the server said it keeps an idle connection. */
  get keepAliveSeconds(): number | undefined {
    return this.#parser.keepAliveSeconds;
  }

  /** Sends a request: at once on an open connection, else as soon as it is open. */
  send(exchange: Exchange): void {
    this.#current = exchange;
    exchange.connection = this;
    if (this.opening) exchange.connectStartAt = performance.now();
    else this.#write(exchange);
  }

  /** Closes at once; the request on it, if any, must have been finished before. */
  destroy(): void {
    this.#current = undefined;
    this.#close();
  }

  #openTcp(origin: Origin, address: string): Socket {
    const socket = connectTcp({
      host: address,
      port: origin.port,
      noDelay: true,
      onread: {
        buffer: READ_BUFFER,
        callback: (bytes, buffer) => {
          this.#read(buffer as Buffer, bytes);
          return true;
        },
      },
    });
    socket.once('connect', () => this.#opened());
    return socket;
  }

  #openTls(origin: Origin, address: string): TLSSocket {
    if (!tls) throw new Error('A TLS connection is opened before loadTransport()');
    const socket = tls.connect({
      host: address,
      port: origin.port,
      // An address is no server name (RFC 6066): the certificate is held against `host` then.
      servername: isIP(origin.hostname) ? '' : origin.hostname,
      ALPNProtocols: ['http/1.1'],
      secureContext: this.#owner.secureContext,
      session: this.#owner.tlsSession,
    });
    socket.setNoDelay(true);
    socket.on('session', (session) => {
      this.#owner.tlsSession = session;
    });
    socket.once('secureConnect', () => this.#opened());
    socket.on('data', (data: Buffer) => this.#read(data, data.length));
    return socket;
  }

  #opened(): void {
    this.#openedAt = performance.now();
    const waiting = this.#current;
    if (!waiting) {
      this.#becomeIdle();
    } else if (waiting.done) {
      this.destroy();
    } else {
      waiting.connectEndAt = this.#openedAt;
      this.#write(waiting);
    }
  }

  #write(exchange: Exchange): void {
    this.#used = true;
    this.#parser.reset();
    exchange.reused = Number.isNaN(exchange.connectStartAt);
    exchange.sendStartAt = performance.now();
    this.#socket.write(exchange.wire);
    if (this.#socket.writableLength === 0) {
      exchange.sendEndAt = performance.now();
    } else {
      // The kernel did not take all of it at once: an empty write is called back after what is before it.
      this.#socket.write('', () => {
        if (!exchange.done) exchange.sendEndAt = performance.now();
      });
    }
  }

  #read(buffer: Buffer, bytes: number): void {
    const now = performance.now();
    const exchange = this.#current;
    if (!exchange || Number.isNaN(this.#openedAt)) {
      // A reply that nobody asked for: whatever it is (a 408, an announcement), the connection cannot be trusted.
      if (!this.closed) this.#close();
      return;
    }
    exchange.received(bytes, now);
    try {
      this.#parser.feed(buffer, bytes, exchange);
    } catch (error) {
      this.#fail({ type: 'BadResponse', message: (error as Error).message });
      return;
    }
    if (exchange.done) this.#exchangeDone();
  }

  #exchangeDone(): void {
    this.#current = undefined;
    if (this.closed) return;
    if (this.#ended || !this.#parser.keepAlive || this.#socket.writableLength > 0) this.#close();
    else this.#becomeIdle();
  }

  #becomeIdle(): void {
    this.idleSince = performance.now();
    this.#owner.onIdle(this);
  }

  #serverEnded(): void {
    if (this.#ended) return;
    this.#ended = true;
    const exchange = this.#current;
    if (exchange) exchange.endedByClose = true;
    if (exchange && this.#parser.end(exchange)) this.#exchangeDone();
    else {
      const message = 'The server closed the connection before its reply was complete';
      this.#fail({ type: 'ServerDisconnectedError', message }, new Error(message));
    }
  }

  #fail(error: ExchangeError, cause?: Error): void {
    const exchange = this.#current;
    const { opening, closed } = this;
    this.#current = undefined;
    this.#close();
    if (opening && cause && this.#owner.onConnectFailed(this, cause, exchange)) return;
    if (exchange) exchange.finish(performance.now(), error);
    else if (!opening && !closed && !this.#used) this.#owner.onUnused();
  }

  #close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#socket.destroy();
    this.#owner.onClosed(this);
  }
}
