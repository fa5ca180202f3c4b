/** Runs the scorers of a Python file in processes of their own, which have neither our environment nor our output. */
import { type ChildProcess, spawn } from 'node:child_process';
import { dirname, resolve, sep } from 'node:path';
import type { Readable } from 'node:stream';
import * as z from 'zod';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { jsonIn } from '../../src/core/values/json-in.ts';
import { AdaptiveLimiter } from '../../src/judge/calls/limiter.ts';
import { MAX_REPLY_BYTES } from '../../src/judge/functions/contract.ts';
import { replyTooLong, ScorerFault } from '../../src/judge/functions/read-reply.ts';
import { type Invoke, ScorerFunction } from '../../src/judge/functions/scorer-function.ts';
import { judgeScorerSchema } from '../../src/judge/scorer-schema.ts';
import type { JudgeScorer } from '../../src/judge/types.ts';

/** The time limit of a batch, and of loading the file. */
const SECONDS = 60;
/** What a program needs to start. No credentials, and no keys. */
const VARIABLES = ['PATH', 'HOME', 'LANG', 'TMPDIR'];

const helloSchema = z.union([
  z.object({ error: z.string() }),
  z.object({
    scorers: z
      .array(
        z.object({
          name: judgeScorerSchema.shape.name,
          values: z.union([z.enum(['number', 'boolean']), z.array(z.string())]),
          needs: z.array(z.enum(['request', 'reply'])),
        }),
      )
      .min(1, 'expected: a function with @scorer')
      .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, 'two scorers have the same name'),
  }),
]);

/** A Python process with the file. It answers one line at a time, on a pipe that the file's own output does not reach. */
class FileProcess {
  readonly #child: ChildProcess;
  /** Lines that were sent. A reply starts with the number of its request, so that no other line is taken for it. */
  #sent = -1;
  readonly #kill = (): void => {
    // Processes that a scorer has started end too.
    if (this.#child.pid !== undefined && this.isRunning) process.kill(-this.#child.pid, 'SIGKILL');
  };

  constructor(path: string, python: string) {
    const args = [packagePath('clients', 'python-scorers', 'sagemaker_inference_monitor_scorers'), path];
    const env = Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));
    // Its output must not be in the output of the command, which may be JSON.
    const options = { env, cwd: dirname(path), detached: true };
    this.#child = spawn(python.includes(sep) ? resolve(python) : python, args, {
      ...options,
      stdio: ['pipe', 2, 2, 'pipe'],
    });
    this.#child.stdin?.on('error', () => {});
    process.once('exit', this.#kill);
    this.#child.once('exit', () => process.off('exit', this.#kill));
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Sends a line, and returns the next line. @throws ScorerFault, after which the process has ended; the signal's reason */
  async ask(line: string, signal: AbortSignal): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const replies = this.#child.stdio[3] as Readable;
    this.#sent += 1;
    const start = `${this.#sent} `;
    const late = AbortSignal.timeout(SECONDS * 1000);
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer): void => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_REPLY_BYTES) reject(replyTooLong());
      else if (chunk.includes('\n')) resolve(Buffer.concat(chunks).toString());
    };
    const onEnd = (code: unknown, killedBy?: unknown): void => {
      const got = code instanceof Error ? code.message : killedBy ? String(killedBy) : `exit code ${code}`;
      reject(new ScorerFault('ScorerFailed', 'The process of the file has ended', { got }));
    };
    const onAbort = (): void => {
      const facts = { expected: `at most ${SECONDS} s` };
      reject(
        signal.aborted ? signal.reason : new ScorerFault('ScorerTimedOut', 'The file did not answer in time', facts),
      );
    };
    const ended = AbortSignal.any([signal, late]);
    ended.addEventListener('abort', onAbort, { once: true });
    replies.on('data', onData);
    this.#child.once('exit', onEnd).once('error', onEnd);
    this.#child.stdin?.write(`${start}${line}\n`);
    try {
      const reply = await promise;
      if (reply.startsWith(start) && reply.indexOf('\n') === reply.length - 1) return reply.slice(start.length);
      throw new ScorerFault('ScorerReplyUnreadable', 'The reply has another number than its request');
    } catch (error) {
      this.#kill();
      throw error;
    } finally {
      ended.removeEventListener('abort', onAbort);
      replies.off('data', onData);
      this.#child.off('exit', onEnd).off('error', onEnd);
    }
  }

  close(): void {
    this.#child.stdin?.end();
    this.#kill();
  }
}

export interface ScorerFile {
  scorers: readonly JudgeScorer[];
  invoke: Invoke;
  close(): void;
}

/**
 * Loads a Python file with scorers. Each call that runs at the same time has its own process.
 *
 * @param python the program
 * @throws PermanentError `ScorerFileUnusable` with the file, the line, and what to install
 *
 * @example
 *     const { scorers, invoke, close } = await openScorerFile('my_scorers.py');
 */
export async function openScorerFile(path: string, python = 'python3', signal = new AbortController().signal) {
  const idle: FileProcess[] = [];
  const all = new Set<FileProcess>();
  const started = async () => {
    const made = new FileProcess(resolve(path), python);
    all.add(made);
    return { made, hello: await made.ask(path, signal) };
  };
  const close = (): void => {
    for (const each of all) each.close();
  };
  const invoke: Invoke = async (request, signal) => {
    const own = idle.pop() ?? (await started()).made;
    const reply = await own.ask(request, signal);
    idle.push(own);
    return reply;
  };
  try {
    const { made, hello } = await started();
    idle.push(made);
    return { scorers: scorersIn(hello, path), invoke, close } satisfies ScorerFile;
  } catch (error) {
    close();
    if (!(error instanceof ScorerFault)) throw error;
    throw unusable(`${path}: ${error.message}`);
  }
}

/** Returns the scorers of a file. @throws as `openScorerFile` */
export async function scorersOf(path: string): Promise<readonly JudgeScorer[]> {
  const { scorers, close } = await openScorerFile(path);
  close();
  return scorers;
}

/** Processes of a file at the same time. Most computers have as many processors. */
const PROCESSES = 4;

/** Returns what asks the scorers of a file, until the signal ends it. */
export const functionsOf =
  ({ scorers, invoke }: ScorerFile) =>
  (signal: AbortSignal): ReadonlyMap<string, ScorerFunction> => {
    const limiter = new AdaptiveLimiter();
    limiter.max = PROCESSES;
    const options = { invoke, limiter, limits: undefined, signal };
    return new Map(scorers.map((scorer) => [scorer.name, new ScorerFunction(scorer, options)]));
  };

const unusable = (message: string): PermanentError => new PermanentError('ScorerFileUnusable', message);

function scorersIn(hello: string, path: string): JudgeScorer[] {
  const { data: read, error } = helloSchema.safeParse(jsonIn(hello));
  if (read === undefined) throw unusable(`${path}: ${z.prettifyError(error).replaceAll('\n', ' ')}`);
  if ('error' in read) throw unusable(read.error);
  return read.scorers.map(({ name, values, needs }) => ({
    kind: 'judge',
    name,
    version: 'file',
    question: `Asks ${path}`,
    values: typeof values === 'string' ? { kind: values } : { kind: 'categories', values },
    needs,
    asks: { arn: path, qualifier: 'file', seconds: SECONDS },
  }));
}
