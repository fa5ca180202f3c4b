/**
 * A double of SageMaker-managed MLflow. It checks the SigV4 signature, the service name and the ARN header, has
 * no `/v1/traces`, and forwards other requests to a real MLflow server. With `perSecond` it is as strict as an App under load:
 * one API, a rate. It shares no code with the client under test.
 */
import { type IncomingMessage, request as openRequest, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { serve } from '../helpers/serve.ts';
import type { Refusal } from './recording-endpoint.ts';
import { type SigV4Credentials, verifySigV4 } from './sigv4-verifier.ts';

export interface DoubleOptions {
  /** The URL of the MLflow server behind the double. */
  upstream: string;
  /** `…:mlflow-app/<id>`. */
  arn: string;
  /** The credentials whose signatures are accepted. */
  credentials: SigV4Credentials;
  /** Whether `/version` also returns 404. */
  hidesVersion?: boolean;
  /** The version that is reported in place of the server's own. */
  version?: string;
  /** Serves only MLflow's REST API, and answers 429 above this many requests in a second. */
  perSecond?: number;
}

export type SageMakerMlflowDouble = Awaited<ReturnType<typeof startSageMakerMlflowDouble>>;

const ARN_HEADER = 'x-sm-mlflow-app-arn';

/** The routes of the REST API, by which the App's clients are documented. No OTLP, no artifacts, no page. */
const REST_API = /^\/(?:version|api\/[23]\.0\/mlflow\/.*)$/;

/** Headers that apply to one connection and are not forwarded. */
const HOP_HEADERS = new Set(['connection', 'keep-alive', 'transfer-encoding', 'host']);

export async function startSageMakerMlflowDouble(options: DoubleOptions) {
  const [, , , region = ''] = options.arn.split(':');
  let { credentials } = options;
  let expired = false;
  const requests: { method: string; path: string; status: number }[] = [];

  /** Times of the requests that were let through in the last second. */
  const recent: number[] = [];
  const hasRoom = (perSecond: number): boolean => {
    const now = performance.now();
    while (recent[0] !== undefined && recent[0] <= now - 1000) recent.shift();
    if (recent.length >= perSecond) return false;
    recent.push(now);
    return true;
  };

  const refusal = (message: IncomingMessage, body: Buffer): Refusal | undefined => {
    const verified = verifySigV4({ message, body, credentials, region, service: 'sagemaker' });
    if (verified) return verified;
    if (expired) {
      const text = 'The security token included in the request is expired';
      return { status: 403, type: 'ExpiredTokenException', message: text };
    }
    if (message.headers[ARN_HEADER] !== options.arn) {
      const text = `The header ${ARN_HEADER} must name ${options.arn}`;
      return { status: 400, type: 'ValidationException', message: text };
    }
    const path = message.url?.split('?')[0] ?? '';
    if (options.perSecond && !REST_API.test(path)) {
      return { status: 404, type: 'UnknownOperationException', message: 'Unknown operation' };
    }
    if (options.perSecond && !hasRoom(options.perSecond)) {
      return { status: 429, type: 'ThrottlingException', message: 'Rate exceeded' };
    }
    if (path === '/v1/traces' || (options.hidesVersion && path === '/version')) {
      return { status: 404, type: 'UnknownOperationException', message: 'Unknown operation' };
    }
    return undefined;
  };

  const { url, close } = await serve(async (message, response) => {
    const body = await buffer(message);
    const entry = { method: message.method ?? '', path: message.url ?? '', status: 0 };
    requests.push(entry);
    response.on('finish', () => {
      entry.status = response.statusCode;
    });
    const refused = refusal(message, body);
    if (refused) refuse(response, refused);
    else if (options.version !== undefined && message.url === '/version') response.end(options.version);
    else forward(options.upstream, message, body, response);
  });
  return {
    /** The value for `SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT`. */
    url,
    arn: options.arn,
    /** All requests so far, with the status of the reply. */
    requests,
    /** Treats the credentials as expired until others are set. */
    expire: () => {
      expired = true;
    },
    setCredentials: (others: SigV4Credentials) => {
      credentials = others;
      expired = false;
    },
    stop: close,
  };
}

function refuse(response: ServerResponse, { status, type, message }: Refusal): void {
  response.writeHead(status, { 'content-type': 'application/json', 'x-amzn-errortype': type });
  response.end(JSON.stringify({ message }));
}

function forward(upstream: string, message: IncomingMessage, body: Buffer, response: ServerResponse): void {
  const headers = Object.fromEntries(Object.entries(message.headers).filter(([name]) => !HOP_HEADERS.has(name)));
  // Each request has a separate connection. A kept one would break if MLflow closed it at that moment.
  const options = { method: message.method, headers, agent: false };
  const call = openRequest(new URL(message.url ?? '/', upstream), options, (reply) => {
    const passed = Object.fromEntries(Object.entries(reply.headers).filter(([name]) => !HOP_HEADERS.has(name)));
    response.writeHead(reply.statusCode ?? 502, passed);
    reply.pipe(response);
  });
  call.on('error', (error) => {
    if (response.headersSent) response.destroy();
    else refuse(response, { status: 502, type: 'InternalServerException', message: error.message });
  });
  call.end(body);
}
