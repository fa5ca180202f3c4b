/** Connections to S3 that do not keep the application's process alive. */
import { Agent, type ClientRequest } from 'node:http';
import { Agent as TlsAgent } from 'node:https';
import type { Duplex } from 'node:stream';

interface Unreferenced extends Duplex {
  unref?(): void;
}

/** Settings of the S3 client's HTTP handler. */
export function unreferenced() {
  const agents = { httpAgent: new Agent({ keepAlive: true }), httpsAgent: new TlsAgent({ keepAlive: true }) };
  for (const agent of Object.values(agents) as Agent[]) {
    const create = agent.createConnection.bind(agent);
    agent.createConnection = (...args) => {
      const socket = create(...args) as Unreferenced;
      socket.unref?.();
      return socket;
    };
    const reuse = agent.reuseSocket.bind(agent);
    agent.reuseSocket = (socket: Unreferenced, request: ClientRequest) => {
      reuse(socket, request);
      socket.unref?.();
    };
  }
  return agents;
}
