/**
 * Content that could take the function's memory or time away is tried out in a process of its own, which is killed where
 * the function would be. A worker thread does not do: NODE_OPTIONS overrides its limits, and `JSON.parse` outlives its end.
 */
import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { decodeLine } from '../../formats/decode.ts';
import type { Capture, DecodeOptions, LinePlace, RawLine } from '../../formats/types.ts';
import { collectGarbage, roomMb } from '../../shared/memory.ts';
import { captureTimeMs } from '../../shared/within-time.ts';

/** All that a step does with a line by itself. It throws, dies or runs out of time where the step would. */
type Work = (raw: RawLine, options: DecodeOptions) => void;

/** @returns the bytes of memory that the work took; `undefined`: it did not end well. */
export type TryOut = (raw: RawLine, options: DecodeOptions) => Promise<number | undefined>;

/** Marks a process that is a trial, and tells it its line. */
const VARIABLE = 'CAPTURE_TRIAL';

interface Job {
  place: LinePlace;
  options: DecodeOptions;
}

/**
 * To be called by the module that has the work, before anything else of the function is loaded: in a trial's process it
 * does the work and ends.
 *
 * @param url of the module: what a trial's process runs. In a bundle it is the whole function.
 */
export function asTrial(url: string, work: Work): TryOut {
  const job = process.env[VARIABLE];
  if (job !== undefined) {
    doWork(JSON.parse(job) as Job, work);
    process.exit();
  }
  return (raw, options) => tryOut(url, raw, options);
}

const STDIN = 0;
const KIB = 1024;
const peakBytes = (): number => process.resourceUsage().maxRSS * KIB;

function doWork({ place, options }: Job, work: Work): void {
  const before = peakBytes();
  work({ bytes: readFileSync(STDIN), place }, options);
  process.stdout.write(`${peakBytes() - before}\n`);
}

/**
 * The capture that the line is; `undefined` when it is none.
 *
 * @throws when the time for it is over. It says nothing of the memory: the step itself may come further in the same time.
 */
export function decodeOnTrial(raw: RawLine, options: DecodeOptions): Capture | undefined {
  const decoded = decodeLine(raw, options);
  if (decoded.late) throw new Error('The time was over before the line was taken apart');
  return decoded.kind === 'capture' ? decoded.capture : undefined;
}

/** Time to start and to read, beside that of the work; the work is some three parts of `captureTimeMs` each at most. */
const START_MS = 10_000;
const PARTS = 3;
/** How often the memory of the trial is looked at. */
const LOOK_MS = 10;
/** What it may take in that time. */
const BETWEEN_LOOKS_MB = 25;
/** Of a process without its heap. */
const BESIDE_HEAP_MB = 50;

function tryOut(url: string, { bytes, place }: RawLine, options: DecodeOptions): Promise<number | undefined> {
  collectGarbage();
  const room = roomMb() - BETWEEN_LOOKS_MB;
  const heapMb = Math.floor(room - BESIDE_HEAP_MB);
  if (heapMb <= 0) return Promise.resolve(undefined);
  const job: Job = { place, options };
  const { NODE_OPTIONS: _ours, ...environment } = process.env;
  const line = fileOf(bytes);
  return new Promise((resolve) => {
    const child = spawn(
      process.execPath,
      ['--max-semi-space-size=1', `--max-old-space-size=${heapMb}`, fileURLToPath(url)],
      { env: { ...environment, [VARIABLE]: JSON.stringify(job) }, stdio: [line, 'pipe', 'ignore'] },
    );
    const kill = () => child.kill('SIGKILL');
    const timer = setTimeout(kill, START_MS + PARTS * captureTimeMs(bytes.length));
    const watch = setInterval(() => {
      if (residentMb(child.pid) > room) kill();
    }, LOOK_MS);
    let told = '';
    child.stdout?.on('data', (piece: Buffer) => {
      told += piece;
    });
    closeSync(line);
    const end = (code: number | null) => {
      clearTimeout(timer);
      clearInterval(watch);
      resolve(code === 0 ? Number(told) : undefined);
    };
    child.once('error', () => end(null));
    child.once('close', end);
  });
}

/** The bytes as an open file without a name: a pipe would be read in pieces, and hold them twice. */
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

/** 0 where the system does not tell. */
function residentMb(pid: number | undefined): number {
  try {
    const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kib ?? 0) / KIB;
  } catch {
    return 0;
  }
}
