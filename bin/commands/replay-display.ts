/** Displays the progress of a replay: a few lines that are redrawn on a terminal, or plain lines elsewhere. */

import { singleLine } from '../../src/core/text/terminal-text.ts';
import type { DistributionMetric } from '../../src/replay/measure/metrics.ts';
import type { RunStats } from '../../src/replay/measure/run-stats.ts';
import type { SendProgress } from '../../src/replay/send/job.ts';
import { shareBar } from '../cli/progress.ts';

const TERMINAL_MS = 500;
const PLAIN_MS = 5_000;
const BAR = 30;

interface DisplayOptions {
  out: NodeJS.WriteStream;
  progress: SendProgress;
  stats: RunStats;
  /** Total number of requests, as far as it is known. */
  total(): number;
  /** Length of the schedule in seconds, if there is one. */
  seconds: number | undefined;
}

const ms = (value: number | undefined): string =>
  value === undefined ? '–' : `${value.toFixed(value < 10 ? 1 : 0)} ms`;

/** Formats a duration as `00:05`, from one hour on as `02:36:00`, and from one day on as `274 d 08:30:00`. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [days, hours] = [Math.floor(whole / 86_400), Math.floor(whole / 3_600) % 24];
  const parts = [...(whole < 3_600 ? [] : [hours]), Math.floor(whole / 60) % 60, whole % 60];
  return `${days > 0 ? `${days} d ` : ''}${parts.map((part) => String(part).padStart(2, '0')).join(':')}`;
}

export class ReplayDisplay {
  readonly #options: DisplayOptions;
  readonly #terminal: boolean;
  readonly #timer: NodeJS.Timeout;
  #drawn = 0;
  #lastSent = 0;
  #lastAt: number;

  constructor(options: DisplayOptions) {
    this.#options = options;
    this.#terminal = options.out.isTTY === true;
    this.#lastAt = options.progress.startAt;
    this.#timer = setInterval(() => this.#draw(), this.#terminal ? TERMINAL_MS : PLAIN_MS);
    this.#timer.unref();
  }

  /** Stops the display and removes its lines from a terminal. */
  stop(): void {
    clearInterval(this.#timer);
    if (this.#terminal) this.#clear();
  }

  #figures() {
    const { progress, stats } = this.#options;
    const now = performance.now();
    const sent = progress.sent();
    const rate = ((sent - this.#lastSent) * 1000) / Math.max(1, now - this.#lastAt);
    this.#lastSent = sent;
    this.#lastAt = now;
    const at = (metric: DistributionMetric, percent: number): number | undefined =>
      stats.distributions.get(metric)?.percentile(percent);
    return { elapsed: (now - progress.startAt) / 1000, sent, rate, inFlight: progress.inFlight(), at };
  }

  #draw(): void {
    const { out, stats, seconds } = this.#options;
    const total = this.#options.total();
    const { elapsed, sent, rate, inFlight, at } = this.#figures();
    const { succeeded, failed, cancelled } = stats;
    const counts = `sent ${sent}${total ? `/${total}` : ''}, ok ${succeeded}, failed ${failed}${cancelled ? ` (cancelled ${cancelled})` : ''}`;
    const latency = `latency p50 ${ms(at('request_latency', 50))}, p95 ${ms(at('request_latency', 95))}, p99 ${ms(at('request_latency', 99))}`;
    if (!this.#terminal) {
      out.write(
        `${clock(elapsed)} ${counts}, ${rate.toFixed(1)}/s, in flight ${inFlight}, ${latency}, lag p99 ${ms(at('credit_to_start_latency', 99))}\n`,
      );
      return;
    }
    const share = seconds ? elapsed / seconds : total ? sent / total : 0;
    const lines = [
      `${shareBar(share, BAR)} ${clock(elapsed)}${seconds ? ` / ${clock(seconds)}` : ''}  ${rate.toFixed(1)} requests/s  ${inFlight} in flight`,
      counts,
      `${latency}, from the scheduled time p99 ${ms(at('effective_latency', 99))}`,
      `schedule lag p50 ${ms(at('credit_to_start_latency', 50))}, p99 ${ms(at('credit_to_start_latency', 99))}`,
    ];
    const first = at('time_to_first_token', 50);
    if (first !== undefined)
      lines.push(`time to first token p50 ${ms(first)}, p99 ${ms(at('time_to_first_token', 99))}`);
    const worst = stats.errorsByCount.slice(0, 3);
    for (const { error, count } of worst)
      lines.push(singleLine(`${count} × ${error.code ?? ''} ${error.type}: ${error.message.slice(0, 80)}`));
    this.#clear();
    const width = out.columns ?? 80;
    // A wrapped line would occupy two rows, and would not be removed completely.
    out.write(lines.map((line) => `${line.replace(/\s+/g, ' ').slice(0, width - 1)}\n`).join(''));
    this.#drawn = lines.length;
  }

  #clear(): void {
    if (this.#drawn > 0) this.#options.out.write(`\x1b[${this.#drawn}A\x1b[J`);
    this.#drawn = 0;
  }
}
