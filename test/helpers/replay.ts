/** Creates captures, replays them in this process, and runs the command line as a child process. */
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { isByCapturedTimes } from '../../src/replay/derived-options.ts';
import { DEFAULT_OPTIONS, type ReplayOptions } from '../../src/replay/options.ts';
import type { Target } from '../../src/replay/request/target.ts';
import { indexCaptures } from '../../src/replay/source/index-captures.ts';
import { localFiles } from '../../src/replay/source/open-source.ts';
import type { SkippedLine } from '../../src/replay/source/types.ts';
import { urlTarget } from '../../src/replay/targets/url-target.ts';
import { type ReplayRequest, type ReplayResult, replayToDirectory } from '../../src/replay/to-directory.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface CapturedSideSpec {
  data: unknown;
  encoding?: string;
  contentType?: string | null;
}

const side = (mode: string, spec: CapturedSideSpec | undefined) =>
  spec && {
    observedContentType: spec.contentType === undefined ? 'application/json' : spec.contentType,
    mode,
    data: spec.data,
    encoding: spec.encoding ?? 'JSON',
  };

/** Returns a capture line. @param seconds captured time, after 10:00:00 */
export function captureLine(
  eventId: string,
  seconds: number,
  input?: CapturedSideSpec,
  output?: CapturedSideSpec,
  more: object = {},
): string {
  const time = new Date(Date.parse('2026-11-20T10:00:00Z') + seconds * 1000).toISOString();
  return JSON.stringify({
    captureData: { endpointInput: side('INPUT', input), endpointOutput: side('OUTPUT', output) },
    eventMetadata: { eventId, inferenceTime: time.replace('.000Z', 'Z'), ...more },
    eventVersion: '0',
  });
}

export const chatBody = (prompt: string, more: object = {}): string =>
  JSON.stringify({ model: 'support-llm', messages: [{ role: 'user', content: prompt }], max_tokens: 64, ...more });

export const chatReply = (content: string): string =>
  JSON.stringify({
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: 9,
      completion_tokens: content.split(' ').length,
      total_tokens: 9 + content.split(' ').length,
    },
  });

/** Returns a capture line of a chat. */
export const chatLine = (
  eventId: string,
  seconds: number,
  prompt: string,
  reply = 'Fine.',
  more: object = {},
): string => captureLine(eventId, seconds, { data: chatBody(prompt, more) }, { data: chatReply(reply) });

export class ReplayFolder {
  readonly path = temporaryFolder('replay-test-');

  /** @returns its path */
  write(name: string, lines: readonly string[]): string {
    const path = join(this.path, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `${lines.join('\n')}\n`);
    return path;
  }

  /** Writes chats with the event ids e0, e1, … @returns the path of their file */
  chats(
    count: number,
    secondOf: (i: number) => number = () => 0,
    promptOf: (i: number) => string = (i) => `[#${i}]`,
  ): string {
    return this.write(
      'a.jsonl',
      Array.from({ length: count }, (_, i) => chatLine(`e${i}`, secondOf(i), promptOf(i))),
    );
  }
}

export interface Replayed extends ReplayResult {
  directory: string;
  records: ReplayRecord[];
  skipped: SkippedLine[];
}

/** The keys of a line of profile_export.jsonl that tests use. */
export interface ReplayRecord {
  metadata: Record<string, string | number | boolean> & {
    request_start_ns: number;
    request_end_ns: number;
    scheduled_ns: number;
  };
  metrics: Record<string, { value: number; unit: string }>;
  error?: { code?: number; type: string; message: string };
}

export const readLines = <T>(path: string): T[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);

/** Replays in this process. */
export async function replay(
  source: string,
  target: string | Target,
  directory: string,
  options: Partial<ReplayOptions> = {},
  more: Partial<Omit<ReplayRequest, 'source'>> = {},
): Promise<Replayed> {
  const all: ReplayOptions = { ...DEFAULT_OPTIONS, ...options };
  const files = await localFiles(source);
  const skipped: SkippedLine[] = [];
  const onSkipped = (line: SkippedLine) => skipped.push(line);
  const index = await indexCaptures(files, { needsTime: isByCapturedTimes(all), onSkipped });
  const result = await replayToDirectory({
    run: 'test-run',
    source,
    files,
    index,
    target: typeof target === 'string' ? urlTarget(target) : target,
    options: all,
    directory,
    inputs: true,
    keepCaptured: false,
    skipped,
    ...more,
  });
  const records = result.unwritten ? [] : readLines<ReplayRecord>(join(directory, 'profile_export.jsonl'));
  return { ...result, directory, skipped, records };
}

export interface CliResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

export type RunningCli = ReturnType<typeof startCli>;

/** What a command says after the lines about where it acts. */
export const withoutPlaces = (stderr: string): string =>
  stderr.replace(/^((acts on|sends to|writes to|from the environment, not .env): .*\n)+/, '');

/** Starts the command line as a child process. */
export function startCli(args: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [packagePath('bin', 'inference-monitor.ts'), ...args], {
    cwd: packagePath(),
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (data: Buffer) => {
    stdout += data.toString();
  });
  child.stderr.on('data', (data: Buffer) => {
    stderr += data.toString();
  });
  const done = new Promise<CliResult>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr: withoutPlaces(stderr) }));
  });
  /** `stderr`: so far. */
  return { pid: child.pid ?? 0, stderr: () => stderr, done };
}

export const runCli = (args: readonly string[], env: Record<string, string> = {}): Promise<CliResult> =>
  startCli(args, env).done;
