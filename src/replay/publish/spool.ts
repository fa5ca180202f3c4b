/** The exchanges of a run, kept until it is over: writing traces meanwhile would take time from the replay. */
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

  /** @param target what the traces are named after */
  constructor(directory: string, run: string, target: string) {
    this.#writer = new LineWriter(join(directory, SPOOL_FILE));
    this.#run = run;
    this.#target = target;
  }

  /** What it returns writes the line. */
  read(measured: Measured, clock: RunClock): () => void {
    const line = JSON.stringify(replayedLine(measured, clock, this.#run, this.#target));
    return () => this.#writer.write(line);
  }

  close(): Promise<void> {
    return this.#writer.close();
  }
}

/** What the traces of a replay are named after: the endpoint, or the URL. */
export const traceNameOf = (target: Record<string, string>, run: string): string =>
  target.endpoint ?? target.url ?? run;
