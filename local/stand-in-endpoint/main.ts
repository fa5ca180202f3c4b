/** `npm run endpoint`: the stand-in endpoint as a command. */
import { parseArgs } from 'node:util';
import { describeError } from '../../src/core/errors/describe-error.ts';
import { startStandInEndpoint } from './server.ts';

const HELP = `Usage: npm run endpoint -- [--port PORT] [--latency MS] [--words N] [--inter-token MS]

Starts a stand-in for an inference endpoint on this machine, for trying replays. It serves OpenAI's chat completions,
completions and embeddings, and /invocations. Rules write its replies, not a model. Ctrl-C stops it.

  --port PORT        default: a free port
  --latency MS       time to the reply, or to its first token (default: 50)
  --words N          words per reply (default: 16)
  --inter-token MS   time between the words of a stream (default: 5)`;

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
    console.log(HELP);
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
