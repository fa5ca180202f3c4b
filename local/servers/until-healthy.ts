/** Waits until a server that was just started answers. */
import { once } from 'node:events';
import { get as getHttp, type IncomingMessage } from 'node:http';
import { get as getHttps } from 'node:https';
import { text } from 'node:stream/consumers';
import { withFacts } from '../../src/core/errors/errors.ts';
import type { GuardedProcess } from '../machine/guarded-process.ts';

const POLL_MS = 100;
const ANSWER_LIMIT_MS = 2_000;

interface Health {
  name: string;
  url: string;
  limitMs: number;
  /** The certificate to trust, as PEM. `fetch` cannot trust one that was made after this process started. */
  ca?: string | undefined;
  /** Text in the answer that distinguishes the server from another program on the same port. Default: any answer. */
  says?: string;
}

/**
 * Polls a server until it is healthy.
 *
 * @throws Error with the end of the server's log if its process ends or it does not answer in time
 */
export async function untilHealthy(server: GuardedProcess, health: Health): Promise<void> {
  const deadline = Date.now() + health.limitMs;
  while (!(await isHealthy(health))) {
    const ended = server.ended();
    if (ended !== undefined || Date.now() > deadline) {
      const facts = { got: ended ?? `no answer in ${health.limitMs / 1000} s`, expected: `200 from ${health.url}` };
      throw new Error(`${withFacts(`${health.name} did not start`, facts)}; end of its log:\n${server.logTail()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function isHealthy({ url, ca, says }: Health): Promise<boolean> {
  const get = url.startsWith('https:') ? getHttps : getHttp;
  try {
    const request = get(url, { ca, agent: false, signal: AbortSignal.timeout(ANSWER_LIMIT_MS) });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    const answer = await text(response);
    return response.statusCode === 200 && (says === undefined || answer.trim() === says);
  } catch {
    // The server does not listen yet.
    return false;
  }
}
