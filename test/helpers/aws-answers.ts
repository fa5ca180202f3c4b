/** A server that answers for all of AWS and for MLflow, as a test says, by the name of the request. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Answer = [status: number, body: unknown, headers?: Record<string, string>];
/** By operation (`DescribeEndpoint`), or by method and path (`GET /my-bucket`). */
export type Answers = Record<string, Answer | ((message: IncomingMessage, body: string) => Answer)>;

export const xml = (body: string): Answer => [
  200,
  `<?xml version="1.0"?>${body}`,
  { 'content-type': 'application/xml' },
];
/** The request stays open. */
export const NO_ANSWER: Answer = [0, ''];
/** An error of a service that answers in XML. */
export const xmlError = (status: number, code: string, message: string): Answer => [
  status,
  `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`,
];

function nameOf({ headers, method, url: target = '' }: IncomingMessage, body: string): string {
  const operation = headers['x-amz-target']?.toString().split('.')[1];
  if (operation === 'ListServiceQuotas') {
    const { ServiceCode, NextToken } = JSON.parse(body) as Record<string, string>;
    return [operation, ServiceCode, NextToken].filter(Boolean).join(' ');
  }
  const action = new URLSearchParams(body).get('Action');
  if (operation ?? action) return operation ?? action ?? '';
  const { pathname, searchParams } = new URL(target, 'http://any');
  const path = decodeURIComponent(pathname).replace(/(?<=.)\/$/, '');
  return `${method} ${path}${searchParams.has('notification') ? '?notification' : ''}`;
}

export class AwsAnswers {
  answers: Answers = {};
  /** Sees each request. */
  onRequest: (name: string, url: string, body: string) => void = () => {};
  readonly #server: Server = createServer((message, response) => void this.#answer(message, response));

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async #answer(message: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    for await (const piece of message) body += piece;
    const name = nameOf(message, body);
    this.onRequest(name, message.url ?? '', body);
    const found = this.answers[name];
    const [status, content, headers = {}] = (typeof found === 'function' ? found(message, body) : found) ?? [
      404,
      `no ${name}`,
    ];
    if (status === NO_ANSWER[0]) return;
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(typeof content === 'string' ? content : JSON.stringify(content));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** The environment of a person whose AWS is this server. */
  variables(more: Record<string, string> = {}): Record<string, string> {
    return {
      PATH: process.env.PATH ?? '',
      AWS_ENDPOINT_URL: this.url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      AWS_EC2_METADATA_DISABLED: 'true',
      AWS_CONFIG_FILE: '/nonexistent',
      AWS_SHARED_CREDENTIALS_FILE: '/nonexistent',
      DOTENV_CONFIG_PATH: '/nonexistent/.env',
      ...more,
    };
  }
}

/** Does the work in this process with the environment of another one. */
export async function withVariables<T>(variables: Record<string, string>, work: () => Promise<T>): Promise<T> {
  const before = process.env;
  process.env = variables;
  try {
    return await work();
  } finally {
    process.env = before;
  }
}
