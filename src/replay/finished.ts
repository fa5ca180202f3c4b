/** A replay that has ended, on the command line or in the cloud. */
import { isScheduled } from './derived-options.ts';
import { clientBottleneck } from './measure/client-bottleneck.ts';
import type { ReplayOptions } from './options.ts';
import type { MeasuredRun } from './results/result-set.ts';

export interface FinishedReplay {
  run: string;
  /** Description of the target, without secrets. */
  target: Record<string, string>;
  options: ReplayOptions;
  /** Where the captures are, as the user named it. */
  source: string;
  captures: { files: number; records: number; firstMs: number | null; lastMs: number | null };
  results: MeasuredRun;
  /** Epoch milliseconds. */
  startMs: number;
  endMs: number;
  sent: number;
  unsent: number;
  wasCancelled: boolean;
  /** Why a part of the schedule was not sent. */
  incomplete: string | undefined;
  maxConnections: number;
  warmFailures: number;
}

/** Explains why the client, rather than the target, limited the replay; `undefined` if it did not. */
export const bottleneckOf = ({ options, results }: FinishedReplay): string | undefined =>
  isScheduled(options) ? clientBottleneck(results.stats) : undefined;

/** The first keys of `replay.json`, without secrets. */
export const replayFactsOf = (replay: FinishedReplay): Record<string, unknown> => ({
  target: replay.target,
  options: replay.options,
  captures: replay.captures,
  start_ms: replay.startMs,
  end_ms: replay.endMs,
  sent: replay.sent,
  unsent: replay.unsent,
  was_cancelled: replay.wasCancelled,
  client_bottleneck: bottleneckOf(replay) ?? null,
  connections: { max_open: replay.maxConnections, failed_ahead: replay.warmFailures },
});
