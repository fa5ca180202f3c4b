/** Keeps the exchanges of a run on disk until it ends: writing traces meanwhile would slow down the replay. */
import { join } from 'node:path';
import type { RunClock } from '../clock.ts';
import type { Measured } from '../measure/measure.ts';
import { LineWriter } from '../results/line-writer.ts';
import { replayedLine } from './replayed-line.ts';

export const SPOOL_FILE = 'replayed.spool.jsonl';

export class TraceSpool {
  readonly #writer: LineWriter;
  readonly #run: string;
  readonly #target: string;

  /** @param target name of the traces */
  constructor(directory: string, run: string, target: string) {
    this.#writer = new LineWriter(join(directory, SPOOL_FILE));
    this.#run = run;
    this.#target = target;
  }

  /** @returns writes the line */
  read(measured: Measured, clock: RunClock): () => void {
    const line = JSON.stringify(replayedLine(measured, clock, this.#run, this.#target));
    return () => this.#writer.write(line);
  }

  close(): Promise<void> {
    return this.#writer.close();
  }
}

/** Returns the name of a replay's traces: the endpoint, or the URL. */
export const traceNameOf = (target: Record<string, string>, run: string): string =>
  target.endpoint ?? target.url ?? run;
