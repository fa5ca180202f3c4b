/**
 * The stand-in endpoint as tests and benchmarks need it: it keeps what arrived and when, can refuse requests, and can stop answering for
 * a while.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import {
  StandInEndpoint as PlainEndpoint,
  type StandInEndpointOptions as PlainOptions,
  SAGEMAKER_ROUTE,
  sendJson,
} from '../../local/stand-in-endpoint/server.ts';
import { ArrivalLog } from './arrivals.ts';
import { logRequest } from './request-log.ts';

export interface Refusal {
  status: number;
  type: string;
  message: string;
}

interface StandInEndpointOptions extends PlainOptions {
  /** Returns why a request to SageMaker's routes is refused, for example for its signature. Default: none is. */
  refuses?: (message: IncomingMessage, body: Buffer) => Refusal | undefined;
  /** From `afterMs` after the first request on, nothing is answered for `durationMs`. */
  stall?: { afterMs: number; durationMs: number };
  /** Keep every request in `requests`. Default false. */
  record?: boolean;
}

interface RecordedRequest {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: Buffer;
}

export class StandInEndpoint extends PlainEndpoint {
  readonly arrivals = new ArrivalLog();
  /** Filled if `record` is set. */
  readonly requests: RecordedRequest[] = [];
  /** The highest number of connections that were open at the same time. */
  maxConnections = 0;
  readonly #recording: StandInEndpointOptions;
  /** Requests by their index in `arrivals`. */
  readonly #arrived = new WeakMap<IncomingMessage, number>();
  #firstAt = 0;

  constructor(options: StandInEndpointOptions) {
    super(options);
    this.#recording = options;
    const open = new Set<Socket>();
    this.server.on('connection', (socket) => {
      open.add(socket);
      this.maxConnections = Math.max(this.maxConnections, open.size);
      socket.once('close', () => open.delete(socket));
    });
  }

  protected override handle(message: IncomingMessage, response: ServerResponse): void {
    if (message.url === '/_arrivals') {
      const list = this.arrivals.list();
      if (message.method === 'DELETE') this.arrivals.clear();
      sendJson(response, 200, list);
      return;
    }
    this.#arrived.set(message, this.arrivals.add());
    this.#firstAt ||= performance.now();
    super.handle(message, response);
  }

  protected override route(url: string, message: IncomingMessage, body: Buffer, response: ServerResponse): void {
    this.arrivals.name(this.#arrived.get(message) ?? -1, body);
    const { method = '', headers } = message;
    if (this.#recording.record) this.requests.push({ method, url, headers, body });
    if (SAGEMAKER_ROUTE.test(url)) {
      logRequest({ method, url, headers, length: body.length });
      const refused = this.#recording.refuses?.(message, body);
      if (refused) {
        response.setHeader('x-amzn-errortype', refused.type);
        sendJson(response, refused.status, { message: refused.message });
        return;
      }
    }
    super.route(url, message, body, response);
  }

  /** Includes the stall. */
  protected override dueIn(wait: number): number {
    const { stall } = this.#recording;
    if (!stall) return wait;
    const now = performance.now();
    const from = this.#firstAt + stall.afterMs;
    const to = from + stall.durationMs;
    const ready = now + wait;
    return ready >= from && ready < to ? to - now : wait;
  }
}

/** Starts a stand-in endpoint on 127.0.0.1. */
export async function startStandInEndpoint(options: StandInEndpointOptions = {}): Promise<StandInEndpoint> {
  const endpoint = new StandInEndpoint(options);
  await endpoint.listen();
  return endpoint;
}
