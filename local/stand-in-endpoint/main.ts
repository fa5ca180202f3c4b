/** `npm run endpoint`: the stand-in endpoint as a command. */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { describeError } from '../machine/describe-error.ts';
import { startStandInEndpoint } from './server.ts';

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: 'string' },
      latency: { type: 'string' },
      words: { type: 'string' },
      'inter-token': { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(readFileSync(packagePath('local/stand-in-endpoint/help.txt')));
    return;
  }
  const number = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));
  const endpoint = await startStandInEndpoint({
    port: number(values.port),
    latencyMs: number(values.latency),
    words: number(values.words),
    interTokenMs: number(values['inter-token']),
  });
  console.log(`stand-in endpoint: ${endpoint.url}`);
}

main().catch((error: unknown) => {
  console.error(describeError(error));
  process.exitCode = 1;
});
