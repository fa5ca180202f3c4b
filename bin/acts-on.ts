/** Where a command acts, which it prints first, and which settings of `.env` the environment overrides. */
import type { Command } from 'commander';
import { dotenvOfCommand } from '../src/core/settings/dotenv-file.ts';
import { settingsSchema } from '../src/core/settings/schema.ts';
import { singleLine } from '../src/core/text/terminal-text.ts';
import { notice } from './cli/output.ts';
import { LOGINS } from './cli/settings.ts';

/** Commands that always change or announce changes there. */
const ON_AWS = new Set(['init', 'doctor', 'capture', 'deploy', 'destroy', 'process', 'retry', 'stop', 'forward']);
const NAMES = [...Object.keys(settingsSchema.shape), 'AWS_REGION', ...LOGINS];
/** Commands that use these settings. The others use the settings of a deployed stack. */
const OF_SETTINGS = new Set(['init', 'doctor', 'deploy', 'destroy', 'replay']);
const OF_STACK = ['STACK_PREFIX', 'AWS_REGION', ...LOGINS];
const MAX_CHARS = 80;

/** A URL may have a login. */
const shown = (value: string): string => singleLine(value.replace(/\/\/[^/@]*@/, '//…@')).slice(0, MAX_CHARS);

/** Prints the places on standard error, unless the command changes only files of this machine. */
export async function sayPlaces(command: Command): Promise<void> {
  const { dryRun, url, region, ...flags } = command.opts<Record<string, string | undefined>>();
  const called = command.name();
  const sends = called === 'replay' && !dryRun;
  const labels = called === 'ground-truth' && command.args.length > 0;
  const dotenv = dotenvOfCommand();
  const places = [
    ...(ON_AWS.has(called) || labels || (sends && !url)
      ? [`acts on: ${await awsOf(region, /^de(?:ploy|stroy)$/.test(called) ? profileIn(command.args) : undefined)}`]
      : []),
    ...(sends && url ? [`sends to: ${shown(url)}`] : []),
  ];
  const overruled = (OF_SETTINGS.has(called) ? NAMES : OF_STACK).flatMap((setting) => {
    const [value = '', own] = [process.env[setting], dotenv[setting]];
    if (!own || !value.trim() || value === own || (setting === 'STACK_PREFIX' && flags.stack)) return [];
    return LOGINS.includes(setting) ? [setting] : [`${setting}=${shown(value)} (.env: ${shown(own)})`];
  });
  if (places.length === 0) return;
  for (const line of [...places, ...overruled.map((one) => `from the environment, not .env: ${one}`)]) notice(line);
}

/** The profile among the options that are passed on to the CDK. */
function profileIn(args: readonly string[]): string | undefined {
  const at = args.findIndex((arg) => /^--profile(=|$)/.test(arg));
  return at === -1 ? undefined : (args[at]?.split('=')[1] ?? args[at + 1]);
}

async function awsOf(region: string | undefined, profile: string | undefined): Promise<string> {
  const { AWS_ENDPOINT_URL: url, INFERENCE_MONITOR_LOCAL: local } = process.env;
  if (url) return url === local ? 'emulator of npm start' : `the emulator at AWS_ENDPOINT_URL, ${shown(url)}`;
  const { callerOf } = await import('./doctor/account.ts');
  return callerOf(region, profile);
}
