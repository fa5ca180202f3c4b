/** One connection to the target of a replay. */
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import type { SecureContext, TLSSocket } from 'node:tls';
import TYPES from './error-types.json' with { type: 'json' };
import type { Exchange, ExchangeError } from './exchange.ts';
import { ResponseParser } from './response-parser.ts';

/** The server that connections are opened to. */
export interface Origin {
  tls: boolean;
  /** Used in the Host header and for TLS. */
  hostname: string;
  port: number;
  /** Whether no connection may be opened to an IP address. */
  refuses?: ((address: string) => boolean) | undefined;
}

/** The events of a connection that the pool handles. */
export interface ConnectionOwner {
  /** Called when the connection is open and has nothing to send. */
  onIdle(connection: Connection): void;
  onClosed(connection: Connection): void;
  /**
   * Called if the connection could not be opened.
   *
   * @param waiting the request for which it was opened; no byte of it has been sent
   * @returns whether the request is sent on another connection; otherwise it fails
   */
  onConnectFailed(connection: Connection, error: NodeJS.ErrnoException, waiting: Exchange | undefined): boolean;
  /** Number of connections that were opened ahead of requests, and failed or were closed before they were used. */
  lost: number;
  /** Whether the server has sent anything. */
  hasAnswered: boolean;
  /** TLS session that the next connection resumes, to skip the full handshake. */
  tlsSession: Buffer | undefined;
  /** Shared by all connections: a separate context would be a third of the cost of opening one. */
  readonly secureContext: SecureContext | undefined;
}

/**
 * All connections read into one buffer: reads are handled one after the other, and bytes that are kept are copied.
 * libuv reads at most 64 KiB in one call.
 */
const READ_BUFFER = Buffer.allocUnsafeSlow(64 * 1024);

let tls: typeof import('node:tls') | undefined;

/** Loads TLS if `origin` uses it. Call this before the first connection. TLS takes 5 MB, which plain connections save. */
export async function loadTransport(origin: Origin): Promise<SecureContext | undefined> {
  if (!origin.tls) return undefined;
  tls ??= await import('node:tls');
  return tls.createSecureContext();
}

/** AIPerf's names for connection failures, by Node's error code. */
const ERROR_TYPES: Record<string, string> = TYPES;

/** Failures of this machine: no descriptor, port or memory for a connection. The target is not at fault. */
const OWN_FAILURES = ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'];
const OWN_ERROR_TYPES = new Set(OWN_FAILURES.map((code) => ERROR_TYPES[code] ?? code));

/** Whether a request with this error never left this machine. */
export const isOwnFailure = ({ type }: { type: string }): boolean => OWN_ERROR_TYPES.has(type);

/** TCP keep-alive interval of silent connections: gateways and load balancers drop them after 350 s. */
const KEEP_ALIVE_MS = 60_000;

/** OpenSSL's messages for bytes that are not TLS. */
const NOT_TLS = ['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'];

export function describeSocketError({ code = '', name, message }: NodeJS.ErrnoException): ExchangeError {
  const said = NOT_TLS.includes(code) ? 'the server speaks http, not https' : message;
  return { type: ERROR_TYPES[code] ?? (code || name), message: said };
}

/** A keep-alive connection that carries one request at a time. It never sends a request twice. */
export class Connection {
  readonly address: string;
  readonly #socket: Socket;
  readonly #owner: ConnectionOwner;
  #used = false;
  readonly #parser = new ResponseParser();
  #openedAt = Number.NaN;
  #current: Exchange | undefined;
  #ended = false;
  /** When the connection became idle, ms of `performance.now()`. */
  idleSince = Number.NaN;
  closed = false;

  constructor(origin: Origin, address: string, owner: ConnectionOwner, first?: Exchange) {
    this.address = address;
    this.#owner = owner;
    this.#current = first;
    if (first) first.connection = this;
    this.#socket = origin.tls ? this.#openTls(origin, address) : this.#openTcp(origin, address);
    this.#socket.setKeepAlive(true, KEEP_ALIVE_MS);
    this.#socket.on('error', (error) => this.#fail(describeSocketError(error), error));
    this.#socket.on('end', () => this.#serverEnded());
    this.#socket.on('close', () => this.#serverEnded());
  }

  get opening(): boolean {
    return !this.closed && Number.isNaN(this.#openedAt);
  }

  /** Seconds for which the server keeps an idle connection, if it announced them. */
  get keepAliveSeconds(): number | undefined {
    return this.#parser.keepAliveSeconds;
  }

  /** Sends a request: immediately on an open connection, otherwise as soon as it is open. */
  send(exchange: Exchange): void {
    this.#current = exchange;
    exchange.connection = this;
    if (!this.opening) this.#write(exchange);
  }

  /** Closes immediately. A request on the connection must have been finished before. */
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
    if (!tls) throw new Error('loadTransport() must be called before a TLS connection is opened');
    const socket = tls.connect({
      host: address,
      port: origin.port,
      // An address is not a server name (RFC 6066); Node then checks the certificate against `host`.
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
      this.#write(waiting);
    }
  }

  #write(exchange: Exchange): void {
    this.#used = true;
    this.#parser.reset();
    this.#socket.write(exchange.wire);
  }

  #read(buffer: Buffer, bytes: number): void {
    const now = performance.now();
    const exchange = this.#current;
    if (!exchange || Number.isNaN(this.#openedAt)) {
      // After an unsolicited reply (a 408, an announcement) the connection cannot be trusted.
      if (!this.closed) this.#close();
      return;
    }
    exchange.lastByteAt = now;
    this.#owner.hasAnswered = true;
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
    const isSilent = !opening && !this.#owner.hasAnswered && !('encrypted' in this.#socket);
    const message = isSilent ? `${error.message}; a server that speaks https does the same` : error.message;
    if (exchange) exchange.finish(performance.now(), { ...error, message });
    else if (!opening && !closed && !this.#used) this.#owner.lost++;
  }

  #close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#socket.destroy();
    this.#owner.onClosed(this);
  }
}
