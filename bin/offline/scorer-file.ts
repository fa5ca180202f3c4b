/** Runs the scorers of a Python file in processes of their own, which have neither our environment nor our output. */
import { type ChildProcess, spawn } from 'node:child_process';
import { on } from 'node:events';
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
import type { FunctionScorer } from '../../src/judge/types.ts';

/** The time limit of a batch, and of loading the file. */
const SECONDS = 60;
/** Processes of a file at the same time. Most computers have as many processors. */
const PROCESSES = 4;
/** What a program needs to start. No credentials, and no keys. */
const VARIABLES = ['PATH', 'HOME', 'LANG', 'TMPDIR'];

const scorerSchema = z.object({
  name: judgeScorerSchema.shape.name,
  values: z.union([z.enum(['number', 'boolean']), z.array(z.string())]),
  needs: z.array(z.enum(['request', 'reply'])),
});
const helloSchema = z.object({ error: z.string().optional(), scorers: z.array(scorerSchema).default([]) });

/** A Python process with the file. It answers one line at a time, on a pipe that the file's own output does not reach. */
class FileProcess {
  readonly #child: ChildProcess;
  /** Lines that were sent. A reply starts with the number of its request, so that no other line is taken for it. */
  #sent = 0;
  readonly #end = new AbortController();

  constructor(path: string, python: string) {
    const args = [packagePath('clients', 'python-scorers', 'sagemaker_inference_monitor_scorers'), path];
    const env = Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));
    // Its output must not be in the output of the command, which may be JSON.
    const options = { env, cwd: dirname(path), detached: true };
    this.#child = spawn(python, args, { ...options, stdio: ['pipe', 2, 2, 'pipe'] });
    this.#child.stdin?.on('error', () => {});
    process.once('exit', this.kill);
    const ended = (got: string): void => {
      process.off('exit', this.kill);
      this.#end.abort(new ScorerFault('ScorerFailed', 'The process of the file has ended', { got }));
    };
    this.#child.once('error', ({ message }) => ended(message));
    this.#child.once('exit', (code, killedBy) => ended(killedBy ?? `exit code ${code}`));
  }

  /** Ends the process, and processes that a scorer has started. */
  readonly kill = (): void => {
    if (this.#child.pid !== undefined && !this.#end.signal.aborted) process.kill(-this.#child.pid, 'SIGKILL');
  };

  /** Sends a line, and returns the next line. @throws ScorerFault, after which the process has ended; the signal's reason */
  async ask(line: string, signal: AbortSignal): Promise<string> {
    const late = AbortSignal.timeout(SECONDS * 1000);
    const start = `${this.#sent++} `;
    this.#child.stdin?.write(`${start}${line}\n`);
    try {
      const reply = await this.#line(AbortSignal.any([signal, late, this.#end.signal]));
      if (reply.startsWith(start) && reply.indexOf('\n') === reply.length - 1) return reply.slice(start.length);
      throw new ScorerFault('ScorerReplyUnreadable', 'The reply has another number than its request');
    } catch (error) {
      this.kill();
      const facts = { expected: `at most ${SECONDS} s` };
      throw late.aborted ? new ScorerFault('ScorerTimedOut', 'The file did not answer in time', facts) : error;
    }
  }

  async #line(signal: AbortSignal): Promise<string> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    try {
      for await (const [chunk] of on(this.#child.stdio[3] as Readable, 'data', { signal })) {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > MAX_REPLY_BYTES) throw replyTooLong();
        if (chunk.includes('\n')) break;
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    }
    return Buffer.concat(chunks).toString();
  }
}

export type ScorerFile = Awaited<ReturnType<typeof openScorerFile>>;

/**
 * Loads a Python file with scorers. Each call that runs at the same time has its own process.
 *
 * @param python the program
 * @throws PermanentError `ScorerFileUnusable` with the file, the line, and what to install
 *
 * @example
 *     const { scorers, functions, close } = await openScorerFile('my_scorers.py');
 */
export async function openScorerFile(path: string, python = 'python3', signal = new AbortController().signal) {
  const program = python.includes(sep) ? resolve(python) : python;
  const idle: FileProcess[] = [];
  const all: FileProcess[] = [];
  const close = (): void => {
    for (const each of all) each.kill();
  };
  const start = async (): Promise<string> => {
    const made = new FileProcess(resolve(path), program);
    all.push(made);
    const hello = await made.ask(path, signal);
    idle.push(made);
    return hello;
  };
  const invoke: Invoke = async (request, signal) => {
    if (idle.length === 0) await start();
    const own = idle.pop() as FileProcess;
    const reply = await own.ask(request, signal);
    idle.push(own);
    return reply;
  };
  const hello = await start().catch((error: unknown) => {
    if (error instanceof ScorerFault) return JSON.stringify({ error: `${path}: ${error.message}` });
    throw error;
  });
  const { data, error } = helloSchema.safeParse(jsonIn(hello));
  const fault = data === undefined ? `${path}: ${z.prettifyError(error).replaceAll('\n', ' ')}` : data.error;
  if (data === undefined || fault !== undefined) {
    close();
    throw new PermanentError('ScorerFileUnusable', fault ?? '');
  }
  const asks = { arn: path, qualifier: 'file', seconds: SECONDS };
  const scorers = data.scorers.map(({ name, values, needs }): FunctionScorer => {
    const kind = typeof values === 'string' ? { kind: values } : { kind: 'categories' as const, values };
    return { kind: 'judge', name, version: 'file', question: `Asks ${path}`, values: kind, needs, asks };
  });
  /** Returns what asks the scorers, until the signal ends it. */
  const functions = (signal: AbortSignal): ReadonlyMap<string, ScorerFunction> => {
    const limiter = new AdaptiveLimiter();
    limiter.max = PROCESSES;
    const options = { invoke, limiter, limits: undefined, signal };
    return new Map(scorers.map((scorer) => [scorer.name, new ScorerFunction(scorer, options)]));
  };
  return { scorers, functions, close };
}
