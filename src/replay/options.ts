/** The options of a replay, the same on the command line and in the cloud, and their checks. */

import type { GivenOptions } from '../core/contract/replay.ts';
import { PermanentError } from '../core/errors/errors.ts';
import { jsonIn } from '../core/values/json-in.ts';
import { isRequestMetric, type RequestMetric } from './metrics.ts';

/** Enough for about 2,000 pairs: with the default model, a pair costs about one cent. */
export const DEFAULT_JUDGE_BUDGET_USD = 20;

const DEFAULTS = {
  autoOffset: false,
  speedup: 1,
  spreadSameSecond: 'none',
  warmup: 0,
  // SageMaker limits a reply to 60 seconds, and a streamed reply to 8 minutes.
  timeout: 600,
  cancellationRate: 0,
  cancellationDelay: 0,
  repeat: 1,
  randomSeed: 0,
  set: [],
  stream: false,
  maxErrorRate: 100,
} satisfies GivenOptions;

export type ReplayOptions = GivenOptions & Required<Pick<GivenOptions, keyof typeof DEFAULTS>>;

export const DEFAULT_OPTIONS: ReplayOptions = DEFAULTS;

function refuse(message: string, got: unknown, expected: string): never {
  throw new PermanentError('InvalidReplayOptions', message, { got, expected });
}

const NUMBERS: readonly [keyof ReplayOptions, string, (value: number) => boolean, string][] = [
  ['startOffsetMs', '--fixed-schedule-start-offset', (v) => v >= 0, 'milliseconds, 0 or more'],
  ['endOffsetMs', '--fixed-schedule-end-offset', (v) => v >= 0, 'milliseconds, 0 or more'],
  ['speedup', '--speedup', (v) => v > 0, 'a number above 0'],
  ['concurrency', '--concurrency', (v) => Number.isInteger(v) && v > 0, 'a whole number above 0'],
  ['requestRate', '--request-rate', (v) => v > 0, 'requests per second, above 0'],
  ['maxConcurrency', '--max-concurrency', (v) => Number.isInteger(v) && v > 0, 'a whole number above 0'],
  ['warmup', '--warmup', (v) => Number.isInteger(v) && v >= 0, 'a whole number'],
  ['timeout', '--timeout', (v) => v > 0, 'seconds, above 0'],
  ['cancellationRate', '--request-cancellation-rate', (v) => v >= 0 && v <= 100, 'percent, 0 to 100'],
  // A timer can wait for at most 2^31 ms.
  ['cancellationDelay', '--request-cancellation-delay', (v) => v >= 0 && v <= 2_147_483, 'seconds, 0 to 2147483'],
  ['repeat', '--repeat', (v) => Number.isInteger(v) && v > 0, 'a whole number above 0'],
  ['requestCount', '--request-count', (v) => Number.isInteger(v) && v > 0, 'a whole number above 0'],
  ['randomSeed', '--random-seed', (v) => Number.isInteger(v) && v >= 0, 'a whole number'],
  ['maxErrorRate', '--max-error-rate', (v) => v >= 0 && v <= 100, 'percent, 0 to 100'],
];

/**
 * Rejects options that are invalid or contradict each other.
 *
 * @throws PermanentError `InvalidReplayOptions`
 */
export function checkOptions(options: ReplayOptions): void {
  for (const [key, flag, allowed, expected] of NUMBERS) {
    const value = options[key];
    if (value === undefined) continue;
    if (typeof value !== 'number' || !Number.isFinite(value) || !allowed(value))
      refuse(`${flag} is invalid`, value, expected);
  }
  const { startOffsetMs, endOffsetMs, concurrency, requestRate } = options;
  if (options.autoOffset && startOffsetMs !== undefined) {
    refuse(
      '--fixed-schedule-auto-offset and --fixed-schedule-start-offset are mutually exclusive',
      'both',
      'one of them',
    );
  }
  if (startOffsetMs !== undefined && endOffsetMs !== undefined && startOffsetMs > endOffsetMs) {
    refuse(
      'The window of the schedule is empty',
      `${startOffsetMs} to ${endOffsetMs}`,
      'a start offset that is not after the end offset',
    );
  }
  const unscheduled = concurrency !== undefined || requestRate !== undefined;
  const scheduleOnly =
    options.autoOffset ||
    startOffsetMs !== undefined ||
    endOffsetMs !== undefined ||
    options.speedup !== 1 ||
    options.spreadSameSecond !== 'none';
  if (unscheduled && scheduleOnly) {
    refuse('A schedule cannot be combined with --concurrency or --request-rate', 'both', 'one kind of timing');
  }
  if (options.cancellationRate > 0 && options.cancellationDelay === 0) {
    refuse(
      'The delay of the cancellation is missing',
      '--request-cancellation-rate without --request-cancellation-delay',
      'the seconds after which requests are canceled',
    );
  }
  parseGoodput(options.goodput);
  for (const setting of options.set) parseSetting(setting);
}

/** Parses `request_latency:2000 time_to_first_token:300` into thresholds by tag. */
export function parseGoodput(text: string | undefined): Map<RequestMetric, number> {
  const objectives = new Map<RequestMetric, number>();
  for (const part of (text ?? '').split(/\s+/).filter((word) => word !== '')) {
    const [tag = '', threshold = '', ...more] = part.split(':');
    if (!isRequestMetric(tag))
      refuse('--goodput names an unknown metric', tag, 'the tag of a request metric, such as request_latency');
    if (threshold === '' || more.length > 0 || !Number.isFinite(Number(threshold)))
      refuse('--goodput has an invalid threshold', part, 'metric:number, such as request_latency:2000');
    objectives.set(tag, Number(threshold));
  }
  return objectives;
}

/** Parses `parameters.temperature=0` into a path and the JSON text of the value. */
export function parseSetting(setting: string): { path: string[]; value: string } {
  const equals = setting.indexOf('=');
  if (equals <= 0) refuse('--set is malformed', setting, 'key=value or outer.key=value');
  const path = setting.slice(0, equals).split('.');
  if (path.some((key) => key === '')) refuse('--set has an empty key', setting, 'key=value or outer.key=value');
  const value = setting.slice(equals + 1);
  return { path, value: jsonIn(value) === undefined ? JSON.stringify(value) : value };
}
