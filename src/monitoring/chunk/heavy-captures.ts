/**
 * Processes captures that are too heavy for the function in a separate process, whose resident memory is watched. The
 * process is killed instead of the function, and started again for the next capture. A worker thread is no substitute:
 * NODE_OPTIONS overrides its limits, and `JSON.parse` outlives its termination.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { on } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TraceRecord } from '../../captures/trace/types.ts';
import type { DecodedLine, DecodeOptions, RawLine } from '../../captures/types.ts';
import type { ManifestLine } from '../../core/contract/payloads.ts';
import { RetryableError, saidBy } from '../../core/errors/errors.ts';
import { SMALL_MALLOC } from '../../core/process/malloc.ts';
import { collectGarbage, functionMb, residentMb, roomMb } from '../../core/process/memory.ts';
import { captureTimeMs } from '../../core/process/within-time.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { isFunctionScorer, isJudgeScorer } from '../../judge/scorers/scorer-set.ts';
import type { Scorer } from '../../judge/types.ts';
import type { TraceStore } from '../../mlflow/client.ts';
import type { HeavyJob, HeavyWork } from './heavy-process.ts';

/** The program is next to the function in a bundle, else next to this file. */
const PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? './heavy-process.ts' : './heavy-process.mjs',
  import.meta.url,
);

/** The time to start, added to the time of the work. The work has about three steps of `captureTimeMs` each. */
const START_MS = 10_000;
const STEPS = 3;
/** How often the memory of the process is checked, and how much it may grow between two checks. */
const CHECK_MS = 10;
const BETWEEN_CHECKS_MB = 25;
/** The memory of the process outside its heap. */
const OUTSIDE_HEAP_MB = 50;
/** A process that stays larger than this after a capture starts again for the next one. */
const KEPT_MB = 120;

/** A heavy line, with the results of the work on it. `isCut`: the process was killed after it had written the trace. */
export type WorkedLine = DecodedLine & { isCut?: true };

export class HeavyCaptures {
  readonly #workOf: () => Promise<HeavyWork>;
  #work: Promise<HeavyWork> | undefined;
  #child: ChildProcess | undefined;

  /** @param workOf is called before the first capture */
  constructor(workOf: () => Promise<HeavyWork>) {
    this.#workOf = workOf;
  }

  /** Waits until `work` can begin at once. @throws the errors of `workOf` */
  async ready(): Promise<HeavyWork> {
    this.#work ??= this.#workOf();
    return this.#work;
  }

  /**
   * @returns `undefined` if the process was killed, or took too long
   * @throws RetryableError `HeavyProcessNotStarted`
   */
  async work(raw: RawLine, options: DecodeOptions): Promise<WorkedLine | undefined> {
    const work = await this.ready();
    sweep();
    const folder = mkdtempSync(join(tmpdir(), `heavy-${process.pid}-`));
    // The bytes of a message would be in memory several times.
    const files = { line: join(folder, 'line'), spans: join(folder, 'spans') };
    try {
      writeFileSync(files.line, raw.bytes);
      const job = { files, place: raw.place, options, work };
      const line = await this.#send(job, START_MS + STEPS * captureTimeMs(raw.bytes.length));
      const trace = line?.kind === 'capture' ? line.capture.results?.get('trace') : undefined;
      if (trace !== undefined) (trace as TraceRecord).encoded = readFileSync(files.spans);
      return line;
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  /** Ends the process, which takes memory. */
  close(): void {
    this.#child?.kill('SIGKILL');
    this.#child = undefined;
  }

  async #send(job: HeavyJob, ms: number): Promise<WorkedLine | undefined> {
    collectGarbage();
    const heapMb = Math.floor(roomMb() - BETWEEN_CHECKS_MB - OUTSIDE_HEAP_MB);
    if (heapMb <= 0) return undefined;
    this.#child ??= start(heapMb);
    const child = this.#child;
    let line: WorkedLine | undefined;
    const until = AbortSignal.timeout(Math.ceil(ms));
    const watch = setInterval(() => {
      if (until.aborted || residentMb(child.pid) > roomMb() - BETWEEN_CHECKS_MB) child.kill('SIGKILL');
    }, CHECK_MS);
    try {
      child.send(job);
      for await (const [message] of on(child, 'message', { close: ['exit', 'error'] })) {
        const { line: told, done } = message as { line?: DecodedLine; done?: true };
        line = told ?? line;
        if (!done) continue;
        if (residentMb(child.pid) > KEPT_MB) this.close();
        return line;
      }
    } catch (error) {
      if (child.pid === undefined) throw notStarted(error);
    } finally {
      clearInterval(watch);
      if (child.pid === undefined) this.close();
    }
    this.close();
    return line && { ...line, isCut: true };
  }
}

interface HeavyDependencies {
  environment: Pick<LambdaEnvironment, 'SAGEMAKER_ENDPOINT_NAME' | 'GROUND_TRUTH'>;
  /** Absent: no trace is written. */
  store?: Pick<TraceStore, 'getExperiment' | 'spansForm'>;
}

/**
 * Returns the process for an attempt at a chunk, which starts with the first heavy capture.
 *
 * @param scorers empty if captures are not judged
 */
export function heavyCapturesOf(
  { run, chunk: { experimentId } }: { run: string; chunk: Pick<ManifestLine, 'experimentId'> },
  { environment, store }: HeavyDependencies,
  scorers: readonly Scorer[],
): HeavyCaptures {
  const { SAGEMAKER_ENDPOINT_NAME: endpointName, GROUND_TRUTH: truth } = environment;
  return new HeavyCaptures(async () => ({
    ...{ experimentId, endpointName, truth },
    ...(store && { trace: { run, form: await store.spansForm(await store.getExperiment(experimentId)) } }),
    ...(scorers.length > 0 && { judged: scorers.filter(isJudgeScorer).map(({ needs }) => needs) }),
    isForFunctions: scorers.some(isFunctionScorer),
  }));
}

function start(heapMb: number): ChildProcess {
  const { LD_LIBRARY_PATH = '' } = process.env;
  try {
    const child = fork(fileURLToPath(PROGRAM), [], {
      serialization: 'advanced',
      execArgv: ['--max-semi-space-size=1', `--max-old-space-size=${heapMb}`],
      // The process gets neither credentials nor settings, because it reads data that anyone may have sent to the
      // endpoint.
      env: { ...SMALL_MALLOC, LD_LIBRARY_PATH, AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(functionMb()) },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    // Without a listener, a failure to start would end the function.
    child.on('error', () => undefined);
    return child;
  } catch (error) {
    throw notStarted(error);
  }
}

function notStarted(error: unknown): RetryableError {
  const facts = { got: saidBy(error) };
  return new RetryableError('HeavyProcessNotStarted', 'The process for heavy captures did not start', facts, error);
}

let isSwept = false;

/** Removes the folders of killed functions, because the next function may have the same disk. */
function sweep(): void {
  if (isSwept) return;
  isSwept = true;
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(/^heavy-(\d+)-/.exec(name)?.[1] ?? 0);
    // Outside of Lambda, others may be alive.
    const isLeft = pid === process.pid || (existsSync('/proc/self') && !existsSync(`/proc/${pid}`));
    if (pid > 0 && isLeft) rmSync(join(tmpdir(), name), { recursive: true, force: true });
  }
}
