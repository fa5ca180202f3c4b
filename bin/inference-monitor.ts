#!/usr/bin/env node
/** The command line. Each command is loaded only when it is used: a replay should not wait for the judge's modules. */
import { enableCompileCache } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { Command } from 'commander';
import { missingAwsSetup } from '../src/terminal/describe-error.ts';

const COMMANDS: Record<string, () => Promise<Command>> = {
  replay: async () => (await import('./commands/replay.ts')).replayCommand(),
  compare: async () => (await import('./commands/compare.ts')).compareCommand(),
  stop: async () => (await import('./commands/stop.ts')).stopCommand(),
  doctor: async () => (await import('./commands/doctor.ts')).doctorCommand(),
  calibrate: async () => (await import('./commands/calibrate.ts')).calibrateCommand(),
  rates: async () => (await import('./commands/rates.ts')).ratesCommand(),
  'rebuild-counts': async () => (await import('./commands/rebuild-counts.ts')).rebuildCountsCommand(),
  label: async () => (await import('./commands/label.ts')).labelCommand(),
};

/** The same directory as Node's default. */
const COMPILE_CACHE = join(tmpdir(), 'node-compile-cache');

/** Exit code of a command that could not run. */
const EXIT_NOT_DONE = 2;

async function main(): Promise<void> {
  const asked = process.argv[2] ?? '';
  if (asked === 'replay') {
    // A replay produces garbage at the rate of its requests. With V8's defaults it uses 320 MB; with a young generation that
    // does not grow, and an old one that is collected earlier, 170 MB (docs/decisions/0041).
    setFlagsFromString('--semi-space-growth-factor=1');
    setFlagsFromString('--heap-growing-percent=30');
  }
  // Without the cache, every start strips the types of every file and compiles it again.
  enableCompileCache(COMPILE_CACHE);
  const { Command } = await import('commander');
  const program = new Command('inference-monitor').description(
    'Replays captured traffic of SageMaker endpoints, compares and stops replays, checks the judge, and tells rates of quality.',
  );
  const load = COMMANDS[asked];
  program.exitOverride();
  for (const command of load ? [load] : Object.values(COMMANDS)) program.addCommand((await command()).exitOverride());
  await program.parseAsync();
}

let ended = false;
// Node exits when there is nothing to wait for, even in the middle of a command. That is not a success.
process.once('beforeExit', () => {
  if (ended) return;
  console.error('The command ended before it was complete.');
  process.exitCode = EXIT_NOT_DONE;
});

/** Whether Commander has already printed the error, or the requested help. */
const isUsage = (error: unknown): error is { exitCode: number } =>
  error instanceof Error && 'code' in error && String(error.code).startsWith('commander.');

main()
  .catch((error: unknown) => {
    if (isUsage(error)) {
      // Commander uses 1 for all errors, but the commands use 1 for their findings.
      process.exitCode = error.exitCode === 0 ? 0 : EXIT_NOT_DONE;
      return;
    }
    console.error(missingAwsSetup(error) ?? (error instanceof Error ? `${error.name}: ${error.message}` : error));
    process.exitCode = EXIT_NOT_DONE;
  })
  .finally(() => {
    ended = true;
  });
