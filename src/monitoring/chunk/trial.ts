/**
 * Tries out a line that could exhaust the function’s memory or time, in a separate process that is killed in the
 * function’s place. A worker thread is no substitute: NODE_OPTIONS overrides its limits, and `JSON.parse` outlives its
 * termination.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { decodeLine } from '../../captures/decode.ts';
import type { Capture, DecodeOptions, LinePlace, RawLine } from '../../captures/types.ts';
import { collectGarbage, roomMb } from '../../core/process/memory.ts';
import { captureTimeMs } from '../../core/process/within-time.ts';

/** A part of the work: the trace without its evaluation. */
type Only = 'trace' | undefined;

/** The work of a step on a capture, without the network. It throws, crashes or runs out of time where the step would. */
type Work = (capture: Capture, raw: RawLine, only: Only) => void;

/** @returns the memory that the work took, in bytes; `undefined` if the work did not succeed */
export type TryOut = (raw: RawLine, options: DecodeOptions, only?: Only) => Promise<number | undefined>;

/** Marks a process as a trial, and carries its job. */
const VARIABLE = 'CAPTURE_TRIAL';

interface Job {
  place: LinePlace;
  options: DecodeOptions;
  only?: Only;
}

/**
 * Returns the function that runs a trial of the work. In the process of a trial it does the work instead, and exits: so
 * the module that calls it must be the first that the function loads.
 *
 * @param url the module’s URL, which the process of a trial runs. In a bundle it is the whole function.
 */
export function asTrial(url: string, work: Work): TryOut {
  const job = process.env[VARIABLE];
  if (job !== undefined) {
    doWork(JSON.parse(job) as Job, work);
    process.exit();
  }
  return (raw, options, only) => tryOut(url, raw, { place: raw.place, options, only });
}

const STDIN = 0;
const KIB = 1024;
const peakBytes = (): number => process.resourceUsage().maxRSS * KIB;

function doWork({ place, options, only }: Job, work: Work): void {
  const before = peakBytes();
  const raw = { bytes: readFileSync(STDIN), place };
  const capture = decodeOnTrial(raw, options);
  if (capture !== undefined) work(capture, raw, only);
  process.stdout.write(`${peakBytes() - before}\n`);
}

/**
 * Decodes the line. @returns `undefined` if it is not a capture record
 *
 * @throws when the time is over. That proves nothing about the memory: the step itself may get further in the same time.
 */
export function decodeOnTrial(raw: RawLine, options: DecodeOptions): Capture | undefined {
  const decoded = decodeLine(raw, options);
  if (decoded.late) throw new Error('The time ran out before the line was decoded');
  return decoded.kind === 'capture' ? decoded.capture : undefined;
}

/** The time to start and to read, added to the time of the work. The work has about three parts of `captureTimeMs` each. */
const START_MS = 10_000;
const PARTS = 3;
/** How often the memory of the process is checked. */
const CHECK_MS = 10;
/** The memory that the process may take between two checks. */
const BETWEEN_CHECKS_MB = 25;
/** The memory of the process outside its heap. */
const OUTSIDE_HEAP_MB = 50;

async function tryOut(url: string, { bytes }: RawLine, job: Job): Promise<number | undefined> {
  collectGarbage();
  const room = roomMb() - BETWEEN_CHECKS_MB;
  const heapMb = Math.floor(room - OUTSIDE_HEAP_MB);
  if (heapMb <= 0) return undefined;
  const { NODE_OPTIONS: _ours, ...environment } = process.env;
  const line = fileOf(bytes);
  const flags = ['--max-semi-space-size=1', `--max-old-space-size=${heapMb}`];
  const child = spawn(process.execPath, [...flags, fileURLToPath(url)], {
    env: { ...environment, [VARIABLE]: JSON.stringify(job) },
    stdio: [line, 'pipe', 'ignore'],
    timeout: Math.ceil(START_MS + PARTS * captureTimeMs(bytes.length)),
    killSignal: 'SIGKILL',
  });
  closeSync(line);
  const watch = setInterval(() => {
    if (residentMb(child.pid) > room) child.kill('SIGKILL');
  }, CHECK_MS);
  try {
    const [output, [code]] = await Promise.all([text(child.stdout as Readable), once(child, 'close')]);
    return code === 0 ? Number(output) : undefined;
  } catch {
    // The process could not be started.
    return undefined;
  } finally {
    clearInterval(watch);
  }
}

/** Opens the bytes as a file without a name. A pipe would be read in pieces, and the process would hold them twice. */
function fileOf(bytes: Buffer): number {
  const folder = mkdtempSync(join(tmpdir(), 'trial-'));
  const path = join(folder, 'line');
  try {
    writeFileSync(path, bytes);
    return openSync(path, 'r');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns the resident memory of a process; 0 if the system does not report it. */
function residentMb(pid: number | undefined): number {
  try {
    const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kib ?? 0) / KIB;
  } catch {
    return 0;
  }
}
