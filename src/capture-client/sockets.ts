/** Connections to S3 that do not keep the application's process alive. */
import { Agent, type ClientRequest } from 'node:http';
import { Agent as TlsAgent } from 'node:https';

/** The method by which an agent gets each request, which Node's types leave out. */
type Adding = { addRequest(request: ClientRequest, ...rest: unknown[]): void };

function withoutReference<A extends Agent>(agent: A): A {
  const adding = agent as unknown as Adding;
  const add = adding.addRequest.bind(agent);
  adding.addRequest = (request, ...rest) => {
    request.once('socket', (socket) => socket.unref());
    add(request, ...rest);
  };
  return agent;
}

/** Returns settings of the S3 client's HTTP handler. */
export const unreferenced = () => ({
  httpAgent: withoutReference(new Agent({ keepAlive: true })),
  httpsAgent: withoutReference(new TlsAgent({ keepAlive: true })),
});
