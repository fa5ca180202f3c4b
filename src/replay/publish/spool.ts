/** Keeps the exchanges of a run on disk until it ends: writing traces meanwhile would slow down the replay. */
import { join } from 'node:path';
import type { RunClock } from '../clock.ts';
import type { Measured } from '../measure/measure.ts';
import { LineWriter } from '../results/line-writer.ts';
import { replayedLine } from './replayed-line.ts';

export const SPOOL_FILE = 'replayed.spool.jsonl';

export interface TraceSpool {
  /** @returns writes the line */
  read(measured: Measured, clock: RunClock): () => void;
  close(): Promise<void>;
}

/** @param target name of the traces */
export function traceSpool(directory: string, run: string, target: string): TraceSpool {
  const writer = new LineWriter(join(directory, SPOOL_FILE));
  return {
    read: (measured, clock) => {
      const line = JSON.stringify(replayedLine(measured, clock, run, target));
      return () => writer.write(line);
    },
    close: () => writer.close(),
  };
}

/** Returns the name of a replay's traces: the endpoint, or the URL. */
export const traceNameOf = (target: Record<string, string>, run: string): string =>
  target.endpoint ?? target.url ?? run;
