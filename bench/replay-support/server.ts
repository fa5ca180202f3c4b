/** Starts the endpoint that benchmarks replay to, in a separate process. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { freePort } from '../../local/machine/free-port.ts';
import { type GuardedProcess, startGuarded } from '../../local/machine/guarded-process.ts';
import type { Tls } from '../../local/servers/ministack.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { LATENCY_MS } from './targets.ts';

export interface Server {
  url: string;
  process: GuardedProcess;
}

export interface ServerOptions {
  /** Latency of a reply, ms. */
  latencyMs?: number;
  tls?: Tls;
}

export async function startServer(
  directory: string,
  { latencyMs = LATENCY_MS, tls }: ServerOptions = {},
): Promise<Server> {
  const port = await freePort();
  const url = `${tls ? 'https' : 'http'}://127.0.0.1:${port}`;
  const args = [
    packagePath('bench', 'replay-support', 'endpoint.ts'),
    '--port',
    String(port),
    '--latency',
    String(latencyMs),
  ];
  if (tls) {
    args.push('--certificate', tls.certificate, '--key', tls.key);
    // This process asks the server for the arrival times.
    setDefaultCACertificates([...getCACertificates('default'), readFileSync(tls.certificate, 'utf8')]);
  }
  const process_ = startGuarded(process.execPath, args, { logFile: join(directory, `server-${port}.log`) });
  for (;;) {
    if (process_.ended()) throw new Error(`The server ended: ${process_.logTail()}`);
    const up = await fetch(`${url}/_arrivals`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (up) {
      await warmUp(url, latencyMs);
      return { url, process: process_ };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Warms up the server: its first requests compile its code, which would slow down the side that runs first. */
const WARM_UP_REQUESTS = 500;
const WARM_UP_AT_A_TIME = 10;

async function warmUp(url: string, latencyMs: number): Promise<void> {
  const body = JSON.stringify({ model: 'my-model', messages: [{ role: 'user', content: 'warm-up' }] });
  const send = async (): Promise<void> => {
    const headers = { 'content-type': 'application/json' };
    await (await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })).text();
  };
  // A slow server gets all requests concurrently.
  const atATime = latencyMs > LATENCY_MS ? WARM_UP_REQUESTS : WARM_UP_AT_A_TIME;
  for (let sent = 0; sent < WARM_UP_REQUESTS; sent += atATime) {
    await Promise.all(Array.from({ length: atATime }, send));
  }
}
