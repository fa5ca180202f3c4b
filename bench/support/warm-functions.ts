/** The functions of a judged run, which stay warm between runs as Lambda keeps them. */
import { type ChildProcess, fork } from 'node:child_process';
import type { Storage } from '../../src/core/aws/storage.ts';
import type { ChunkRequest, ManifestLine, PlanRequest, PlanResult } from '../../src/core/contract/payloads.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { readManifest } from '../../src/monitoring/receipts.ts';
import type { SideReport } from './bench-stack.ts';

/** A function: as many processes of its bundle as there were events at the same time. */
class WarmFunction {
  readonly #all: ChildProcess[] = [];
  readonly #free: ChildProcess[] = [];
  readonly #bundle: string;
  readonly #env: Record<string, string>;

  constructor(bundle: string, env: Record<string, string>) {
    this.#bundle = bundle;
    this.#env = env;
  }

  async invoke(event: object): Promise<SideReport> {
    const startedAt = performance.now();
    const sandbox = this.#free.pop() ?? this.#start();
    const report = await new Promise<Omit<SideReport, 'wallSeconds'>>((resolve, reject) => {
      const ended = (code: number | null): void => reject(new Error(`The function ended; got: exit code ${code}`));
      sandbox.once('exit', ended);
      sandbox.once('message', (message) => {
        sandbox.off('exit', ended);
        resolve(message as SideReport);
      });
      sandbox.send(event);
    });
    this.#free.push(sandbox);
    return { ...report, wallSeconds: (performance.now() - startedAt) / 1000 };
  }

  #start(): ChildProcess {
    const sandbox = fork(packagePath('bench', 'support', 'invoke.js'), [this.#bundle], {
      env: this.#env,
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#all.push(sandbox);
    return sandbox;
  }

  close(): void {
    for (const sandbox of this.#all) sandbox.kill();
  }
}

export interface WarmFunctionsParts {
  bundles: { plan: string; evaluate: string };
  env: Record<string, string>;
  bucket: string;
  work: { storage: Storage; bucket: string };
  /** Chunks at the same time, at most. */
  maxConcurrency: number;
}

export class WarmFunctions {
  readonly #plan: WarmFunction;
  readonly #evaluate: WarmFunction;
  readonly #parts: WarmFunctionsParts;

  constructor(parts: WarmFunctionsParts) {
    this.#plan = new WarmFunction(parts.bundles.plan, parts.env);
    this.#evaluate = new WarmFunction(parts.bundles.evaluate, parts.env);
    this.#parts = parts;
  }

  /**
   * Runs a judged run, from the capture file to judged traces, with all chunks side by side as the Map does.
   *
   * @param name of the run
   * @param key of the capture file
   * @returns the seconds from beginning to end without one start of a process; the processor time of all functions; the memory of the
   *   largest
   */
  async run(name: string, key: string): Promise<SideReport> {
    const { bucket, work, maxConcurrency } = this.#parts;
    const plan: PlanRequest = {
      input: { detail: { bucket: { name: bucket }, object: { key } }, evaluate: true, sampleRate: 1 },
      run: {
        name,
        arn: `arn:aws:states:us-east-1:000000000000:execution:bench:${name}`,
        startTime: new Date().toISOString(),
      },
      part: 0,
      nextChunk: 0,
      cursor: null,
    };
    const planned = await this.#plan.invoke(plan);
    const { chunk: only, options } = planned.result as unknown as PlanResult;
    const chunks: ManifestLine[] = only ? [only] : [];
    if (!only)
      for await (const line of readManifest({ storage: work.storage, workBucket: work.bucket }, name))
        chunks.push(line);
    const judged: SideReport[] = [];
    const startedAt = performance.now();
    await forEachConcurrently(maxConcurrency, chunks, async (chunk) => {
      const request: ChunkRequest = { run: name, chunk, options, attempt: 0 };
      judged.push(await this.#evaluate.invoke(request));
    });
    const seconds = (performance.now() - startedAt) / 1000;
    const [first] = judged;
    if (first === undefined) throw new Error(`The run has no chunk; got: ${JSON.stringify(planned.result)}`);
    const all = [planned, ...judged];
    return {
      ...first,
      seconds: planned.seconds + seconds - Math.min(...judged.map((report) => report.wallSeconds - report.seconds)),
      cpuSeconds: all.reduce((sum, report) => sum + (report.cpuSeconds ?? 0), 0),
      maxRssMb: Math.max(...all.map((report) => report.maxRssMb)),
    };
  }

  close(): void {
    this.#plan.close();
    this.#evaluate.close();
  }
}
