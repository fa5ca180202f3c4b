/** Starts the endpoint that benchmarks replay to, in a separate process. */
import { join } from 'node:path';
import { freePort } from '../../local/machine/free-port.ts';
import { type GuardedProcess, startGuarded } from '../../local/machine/guarded-process.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { LATENCY_MS } from './targets.ts';

export interface Server {
  url: string;
  process: GuardedProcess;
}

export async function startServer(directory: string): Promise<Server> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const endpoint = packagePath('bench', 'replay-support', 'endpoint.ts');
  const args = [endpoint, '--port', String(port), '--latency', String(LATENCY_MS)];
  const process_ = startGuarded(process.execPath, args, { logFile: join(directory, `server-${port}.log`) });
  for (;;) {
    if (process_.ended()) throw new Error(`The server ended: ${process_.logTail()}`);
    const up = await fetch(`${url}/_arrivals`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (up) {
      await warmUp(url);
      return { url, process: process_ };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Warms up the server: its first requests compile its code, which would slow down the side that runs first. */
const WARM_UP_REQUESTS = 500;
const WARM_UP_AT_A_TIME = 10;

async function warmUp(url: string): Promise<void> {
  const body = JSON.stringify({ model: 'my-model', messages: [{ role: 'user', content: 'warm-up' }] });
  const send = async (): Promise<void> => {
    const headers = { 'content-type': 'application/json' };
    await (await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })).text();
  };
  for (let sent = 0; sent < WARM_UP_REQUESTS; sent += WARM_UP_AT_A_TIME) {
    await Promise.all(Array.from({ length: WARM_UP_AT_A_TIME }, send));
  }
}
