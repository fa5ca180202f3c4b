#!/usr/bin/env node
/** The command line. Each command is loaded only when it is asked for: a replay's first request should not wait for a judge. */
import { enableCompileCache } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { Command } from 'commander';
import { missingAwsSetup } from '../local/terminal/describe-error.ts';

const COMMANDS: Record<string, () => Promise<Command>> = {
  replay: async () => (await import('./commands/replay.ts')).replayCommand(),
  compare: async () => (await import('./commands/compare.ts')).compareCommand(),
  stop: async () => (await import('./commands/stop.ts')).stopCommand(),
  doctor: async () => (await import('./commands/doctor.ts')).doctorCommand(),
  calibrate: async () => (await import('./commands/calibrate.ts')).calibrateCommand(),
};

/** Where Node would have it too. */
const COMPILE_CACHE = join(tmpdir(), 'node-compile-cache');

/** As a command that could not run. */
const EXIT_NOT_DONE = 2;

async function main(): Promise<void> {
  const asked = process.argv[2] ?? '';
  if (asked === 'replay') {
    // A replay makes garbage at the rate of its requests: with V8's defaults it takes 320 MB, with a young generation that
    // does not grow and an old one that is collected earlier 170 (docs/decisions/0041).
    setFlagsFromString('--semi-space-growth-factor=1');
    setFlagsFromString('--heap-growing-percent=30');
  }
  // Without it every start compiles every file anew, and strips its types.
  enableCompileCache(COMPILE_CACHE);
  const { Command } = await import('commander');
  const program = new Command('inference-monitor').description(
    'Replays captured traffic of SageMaker endpoints, compares and stops replays, and checks the judge.',
  );
  const load = COMMANDS[asked];
  program.exitOverride();
  for (const command of load ? [load] : Object.values(COMMANDS)) program.addCommand((await command()).exitOverride());
  await program.parseAsync();
}

let ended = false;
// Node ends when nothing is left to wait for, also in the middle of a command: that is no success.
process.once('beforeExit', () => {
  if (ended) return;
  console.error('The command ended before it was done.');
  process.exitCode = EXIT_NOT_DONE;
});

/** Commander has said what is wrong; help that was asked for is no failure. */
const isUsage = (error: unknown): error is { exitCode: number } =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('commander.');

main()
  .catch((error: unknown) => {
    if (isUsage(error)) {
      // Its own code for all that is wrong is 1, which the commands have for what they found.
      process.exitCode = error.exitCode === 0 ? 0 : EXIT_NOT_DONE;
      return;
    }
    console.error(missingAwsSetup(error) ?? (error instanceof Error ? `${error.name}: ${error.message}` : error));
    process.exitCode = EXIT_NOT_DONE;
  })
  .finally(() => {
    ended = true;
  });
