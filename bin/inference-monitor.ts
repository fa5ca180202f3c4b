/** The command line. Each command is loaded only when it is used: a replay should not wait for the judge's modules. */

import { readFileSync } from 'node:fs';
import module from 'node:module';
import { setFlagsFromString } from 'node:v8';
import { packagePath } from '../src/core/process/package-folder.ts';
import { EXIT } from './cli/output.ts';

const args = process.argv.slice(2);

async function main(): Promise<void> {
  // A replay produces garbage at the rate of its requests, and a month of counts at once. With V8's defaults either uses 320 MB; with
  // a young generation that does not grow, and for a replay an old one that is collected earlier, 170 MB (docs/decisions/0041).
  setFlagsFromString('--semi-space-growth-factor=1');
  if (args.includes('replay')) setFlagsFromString('--heap-growing-percent=30');
  // Must run before any code asks whether the terminal has colors.
  if (args.includes('--no-color')) {
    process.env.NO_COLOR = '1';
    delete process.env.FORCE_COLOR;
  }
  // Without the cache, every start would strip the types of every file and compile it again.
  module.enableCompileCache();
  const { programFor } = await import('./program.ts');
  const { version } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8'));
  await (await programFor(args, version)).parseAsync(args, { from: 'user' });
}

// `… | head` closes the pipe: the rest of the output is not wanted, but the work may be.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    console.error(`OutputUnusable: The output cannot be written; got: ${error.message}`);
    process.exit(EXIT.notDone);
  });
}

let ended = false;
// Node exits when nothing is left to wait for, even in the middle of a command. That is not a success.
process.once('beforeExit', () => {
  if (ended) return;
  console.error('The command ended before it was complete.');
  process.exitCode = EXIT.notDone;
});

main()
  .catch(async (error: unknown) => {
    const { failureText, isHelp } = await import('./program.ts');
    const { notice, progress } = await import('./cli/output.ts');
    progress.end();
    process.exitCode = isHelp(error) ? EXIT.done : EXIT.notDone;
    const how = { debug: args.includes('--debug'), json: args.includes('--json') };
    const text = failureText(error, how);
    if (how.json || how.debug) console.error(text);
    else for (const line of text.split('\n').filter(Boolean)) notice(line);
  })
  .finally(() => {
    ended = true;
  });
