/** The progress of runs: a bar on a terminal, a line of facts now and then in a pipe. */

import { dollars, many, whole } from '../../src/core/text/figure-text.ts';
import { durationText } from '../../src/core/text/terminal-text.ts';
import { sum } from '../../src/core/values/sum.ts';
import { hasEnded, type RunProgress } from '../operate/run-progress.ts';
import { notice, progress } from './output.ts';
import type { Facts } from './progress.ts';

/** Returns a function that shows the progress of followed runs. */
export function runDisplay() {
  const speed = followSpeed();
  return (runs: readonly RunProgress[]): void => {
    for (const { name, news } of runs) for (const line of news) notice(runs.length > 1 ? `${name}: ${line}` : line);
    progress.show(progressOf(runs, speed(runs, Date.now()), Date.now()));
  };
}

/** Computes lines a second since the first lines were done. Earlier time was needed for starting the functions. */
export function followSpeed() {
  let base: { atMs: number; lines: number } | undefined;
  return (runs: readonly RunProgress[], nowMs: number): number | undefined => {
    const lines = sum(runs.map((run) => run.lines));
    if (lines > 0) base ??= { atMs: nowMs, lines };
    if (base === undefined || lines === base.lines) return undefined;
    return (lines - base.lines) / ((nowMs - base.atMs) / 1_000);
  };
}

/** Describes the runs. @param perSecond lines a second */
export function progressOf(runs: readonly RunProgress[], perSecond: number | undefined, nowMs: number): Facts {
  const ended = runs.filter(hasEnded).length;
  const planned = sum(runs.map((run) => run.planned?.lines ?? 0));
  const chunks = sum(runs.map((run) => run.planned?.chunks ?? 0));
  const isPlanning = runs.some((run) => !hasEnded(run) && (run.planned === undefined || run.planned.more));
  const done = sum(runs.map((run) => run.lines));
  const failing = sum(runs.map((run) => run.chunks.failing));
  const of = (count: number): string => `${whole(count)}${isPlanning ? '+' : ''}`;
  if (runs.every((run) => run.planned?.options.dryRun)) return { facts: [`${of(planned)} lines counted`] };
  const [only] = runs.length === 1 ? runs : [];
  const endedText = `${ended} of ${runs.length} runs ended`;
  if (planned === 0) {
    const isFailed = runs.some(({ status, planned: any }) => any === undefined && hasFailed(status));
    const state = isPlanning ? 'planning …' : isFailed ? 'nothing was planned' : 'nothing to do';
    return { facts: [`${only?.name ?? endedText}: ${state}`] };
  }
  const left = perSecond === undefined || isPlanning || done >= planned ? undefined : (planned - done) / perSecond;
  const facts = [
    `${whole(done)} of ${of(planned)} lines`,
    failing > 0 && `${many(failing, 'chunk')} failing`,
    left !== undefined && `about ${durationText(left)} left`,
    elapsed(runs, nowMs),
    spent(runs),
    only === undefined && endedText,
    perSecond !== undefined && `${perSecond < 10 ? perSecond.toFixed(1) : whole(perSecond)} lines/s`,
    `${whole(sum(runs.map((run) => run.chunks.done)))} of ${of(chunks)} chunks`,
    batchJobs(runs),
    only?.name,
  ];
  return { facts, share: done / planned };
}

const hasFailed = (status: string): boolean => hasEnded({ status }) && status !== 'SUCCEEDED';

/** Returns the time since the first of them started. While chunks are in progress, no other figure changes. */
function elapsed(runs: readonly RunProgress[], nowMs: number): string | false {
  if (runs.every(hasEnded)) return false;
  const seconds = Math.round((nowMs - Math.min(...runs.map(({ startedMs }) => startedMs))) / 1_000);
  return seconds >= 0 && (seconds < 60 ? `${seconds} s` : durationText(seconds));
}

function spent(runs: readonly RunProgress[]): string | false {
  const total = (of: (run: RunProgress) => number | null | undefined): number | null =>
    runs.some((run) => of(run) === null) ? null : sum(runs.map((run) => of(run) ?? 0));
  if (!runs.some(({ planned }) => planned?.options.evaluate)) return false;
  const [now, expected] = [total((run) => run.usd), total((run) => run.expectedUsd)];
  if (now === null) return '$ unknown';
  return `${dollars(now)}${expected ? ` of about ${dollars(expected)}` : ''}`;
}

function batchJobs(runs: readonly RunProgress[]): string | false {
  const jobs = runs.flatMap((run) => Object.entries(run.batchJobs ?? {}));
  return jobs.length > 0 && `batch jobs: ${jobs.map(([status, count]) => `${count} ${status}`).join(', ')}`;
}
