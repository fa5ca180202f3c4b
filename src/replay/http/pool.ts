/** The connections of a replay to its target. */
import { isIP } from 'node:net';
import type { SecureContext } from 'node:tls';
import { PermanentError } from '../../core/errors/errors.ts';
import {
  Connection,
  type ConnectionOwner,
  describeSocketError,
  isOwnFailure,
  loadTransport,
  type Origin,
} from './connection.ts';
import type { Exchange } from './exchange.ts';

/**
 * An idle connection is not used after this time, unless the server announces a longer one: the server may close it just
 * when a request is sent, and a request is never sent again. The shortest common default is gunicorn's 2 s. TLS servers are
 * usually proxies or services, which keep idle connections for a minute.
 */
const IDLE_LIMIT_MS = 1_500;
const IDLE_LIMIT_TLS_MS = 4_000;
/** Subtracted from the server's own `Keep-Alive: timeout=` for the same reason, up to half of it. */
const IDLE_MARGIN_MS = 1_000;
/** Interval between DNS lookups. The records of AWS endpoints have a time to live of one minute. */
const DNS_REFRESH_MS = 30_000;
/** Timeout of the first connection to each address of the target. */
const PROBE_TIMEOUT_MS = 5_000;

/** Resolves a host name to addresses, the preferred one first. */
const resolveByDns = async (hostname: string): Promise<string[]> => {
  const { lookup } = await import('node:dns/promises');
  return (await lookup(hostname, { all: true })).map((entry) => entry.address);
};

/** The connections to one origin. They are opened when they are needed, or ahead of a burst with `warm`. */
export class ConnectionPool implements ConnectionOwner {
  readonly #origin: Origin;
  readonly #resolve: typeof resolveByDns;
  #addresses: string[] = [];
  #nextAddress = 0;
  #resolvedAt = Number.NEGATIVE_INFINITY;
  #resolving = false;
  /** Whether a connection could be opened, and why the last one could not. */
  #hasOpened = false;
  #failure: Error | undefined;
  /** The most recently used connection is at the end: it is most likely alive. */
  readonly #idle: Connection[] = [];
  /** Connections that are being opened and have nothing to send yet. */
  readonly #opening = new Set<Connection>();
  readonly #all = new Set<Connection>();
  /** Idle connections are used up to this age. */
  idleLimitMs: number;
  tlsSession: Buffer | undefined;
  secureContext: SecureContext | undefined;
  /** Maximum number of connections that were open at the same time. */
  maxOpen = 0;
  lost = 0;
  hasAnswered = false;

  constructor(origin: Origin, resolve = resolveByDns) {
    this.#origin = origin;
    this.idleLimitMs = origin.tls ? IDLE_LIMIT_TLS_MS : IDLE_LIMIT_MS;
    this.#resolve = resolve;
  }

  /**
   * Resolves the name and opens a first connection, so that an unreachable target is detected before the clock starts.
   *
   * @throws PermanentError `TargetUnreachable`, `AddressNotAllowed`
   */
  async open(): Promise<void> {
    const { hostname, port } = this.#origin;
    this.secureContext = await loadTransport(this.#origin);
    const addresses = await this.#lookUp().catch((error: unknown) => {
      if (error instanceof PermanentError) throw error;
      const message = 'The host name of the target cannot be resolved';
      throw new PermanentError('TargetUnreachable', message, { got: hostname }, error);
    });
    for (const address of addresses) {
      this.#addresses = [address];
      this.#failure = new Error(`no answer within ${PROBE_TIMEOUT_MS} ms`);
      this.warm(1);
      await this.warmed(PROBE_TIMEOUT_MS);
      if (!this.#hasOpened) {
        this.close();
        continue;
      }
      // The other addresses of the same family are used as well, to spread the load as the owner of the name intends.
      this.#addresses = addresses.filter((other) => isIP(other) === isIP(address));
      this.#resolvedAt = performance.now();
      this.lost = 0;
      return;
    }
    const why = this.#failure ? describeSocketError(this.#failure).message : 'its name has no address';
    const got = `${hostname}:${port} (${addresses.join(', ')})`;
    const facts = { got, expected: 'a server that accepts connections at this address' };
    throw new PermanentError('TargetUnreachable', `The target cannot be reached: ${why}`, facts, this.#failure);
  }

  /** Sends a request on an idle connection, on one that is being opened, or on a new one. */
  send(exchange: Exchange): void {
    exchange.startedAt = performance.now();
    const [opening] = this.#opening;
    const free = this.#acquireIdle(exchange.startedAt) ?? opening;
    if (!free) {
      this.#open(exchange);
      return;
    }
    this.#opening.delete(free);
    free.send(exchange);
  }

  get tls(): boolean {
    return this.#origin.tls;
  }

  /** Opens connections until `count` are open, or being opened, and have nothing to send, at most `atMost` in this call. @returns how many were opened */
  warm(count: number, atMost = Number.POSITIVE_INFINITY): number {
    const missing = Math.max(0, Math.min(count - this.#idle.length - this.#opening.size, atMost));
    for (let i = 0; i < missing; i++) this.#opening.add(this.#open());
    return missing;
  }

  /** Resolves when every connection of `warm` is open or has failed, or after `atMostMs`. */
  async warmed(atMostMs: number): Promise<void> {
    const until = performance.now() + atMostMs;
    while (this.#opening.size > 0 && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 1));
  }

  /**
   * Closes connections that have been idle for too long, and resolves the name again when it is time.
   *
   * @param now a future time also closes connections that will have been idle for too long by then
   */
  sweep(now: number): void {
    for (const connection of [...this.#idle]) {
      if (now - connection.idleSince > this.idleLimitMs) connection.destroy();
    }
    if (now - this.#resolvedAt > DNS_REFRESH_MS && !this.#resolving && !isIP(this.#origin.hostname)) {
      void this.#refresh();
    }
  }

  close(): void {
    for (const connection of [...this.#all]) connection.destroy();
  }

  onIdle(connection: Connection): void {
    this.#hasOpened = true;
    this.#opening.delete(connection);
    this.#idle.push(connection);
    const seconds = connection.keepAliveSeconds;
    if (seconds !== undefined) this.idleLimitMs = Math.max(seconds * 500, seconds * 1000 - IDLE_MARGIN_MS);
  }

  onClosed(connection: Connection): void {
    this.#all.delete(connection);
    this.#opening.delete(connection);
    const idle = this.#idle.indexOf(connection);
    if (idle >= 0) this.#idle.splice(idle, 1);
  }

  onConnectFailed(connection: Connection, error: NodeJS.ErrnoException, waiting: Exchange | undefined): boolean {
    this.#failure = error;
    if (!waiting) this.lost++;
    // Until the next lookup, a failed address is not used again unless it is the last one.
    const others = this.#addresses.filter((address) => address !== connection.address);
    if (others.length === 0 || isOwnFailure(describeSocketError(error))) return false;
    this.#addresses = others;
    if (waiting) this.#open(waiting);
    return waiting !== undefined;
  }

  #acquireIdle(now: number): Connection | undefined {
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      if (now - connection.idleSince <= this.idleLimitMs) return connection;
      connection.destroy();
    }
    return undefined;
  }

  /**
   * Returns the addresses of the target. Connections are opened to these addresses instead of the name, so that each
   * goes to an address that was checked here, even if the name resolves differently later.
   *
   * @throws PermanentError `AddressNotAllowed`
   */
  async #lookUp(): Promise<string[]> {
    const { hostname, refuses } = this.#origin;
    const addresses = isIP(hostname) ? [hostname] : await this.#resolve(hostname);
    const refused = addresses.find((address) => refuses?.(address));
    if (refused === undefined) return addresses;
    throw new PermanentError('AddressNotAllowed', 'A replay may not connect to an address of its own machine or link', {
      got: hostname === refused ? refused : `${hostname}, which is ${refused}`,
      expected: 'an address that is neither loopback nor link-local, such as a private one of your network',
    });
  }

  async #refresh(): Promise<void> {
    this.#resolving = true;
    try {
      const family = isIP(this.#addresses[0] ?? '');
      const same = (await this.#lookUp()).filter((address) => isIP(address) === family);
      if (same.length > 0) this.#addresses = same;
    } catch {
      // The known addresses stay in use. If they no longer work, the requests fail with their own errors.
    } finally {
      this.#resolvedAt = performance.now();
      this.#resolving = false;
    }
  }

  #open(first?: Exchange): Connection {
    const address = this.#addresses[this.#nextAddress++ % this.#addresses.length] as string;
    const connection = new Connection(this.#origin, address, this, first);
    this.#all.add(connection);
    this.maxOpen = Math.max(this.maxOpen, this.#all.size);
    return connection;
  }
}
