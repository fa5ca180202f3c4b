/**
 * Runs the stand-in as a process of its own:
 *   node local/stand-in-judge/main.ts [--port 0] [--behaviour '{"delayMs":300}'] [--forward-region us-east-1]
 * prints one line of JSON with its address, and stops on SIGTERM or SIGINT.
 */
import { parseArgs } from 'node:util';
import type { BehaviourInput } from './behaviour.ts';
import { startStandInJudge } from './server.ts';

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: 'string', default: '0' },
      behaviour: { type: 'string', default: '{}' },
      'forward-region': { type: 'string' },
      'keep-calls': { type: 'string' },
    },
  });
  const region = values['forward-region'];
  const standIn = await startStandInJudge({
    port: Number(values.port),
    behaviour: JSON.parse(values.behaviour) as BehaviourInput,
    ...(values['keep-calls'] === undefined ? {} : { keepCalls: Number(values['keep-calls']) }),
    ...(region === undefined ? {} : { forward: { region } }),
  });
  process.stdout.write(`${JSON.stringify({ url: standIn.url, port: standIn.port, pid: process.pid })}\n`);
  const stop = (): void => void standIn.close().then(() => process.exit(0));
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}

void main();
