/** The options of a replay, the same on the command line and in the cloud, and their checks. */

import type { input } from 'zod';
import { type ReplayOptions, replayOptionsSchema } from '../core/contract/replay.ts';
import { PermanentError } from '../core/errors/errors.ts';
import { flagText } from '../core/text/terminal-text.ts';
import { jsonIn } from '../core/values/json-in.ts';
import { isRequestMetric, type RequestMetric } from './metrics.ts';

export type { ReplayOptions };

export const DEFAULT_OPTIONS: ReplayOptions = replayOptionsSchema.parse({});

function refuse(message: string, got: unknown, expected: string): never {
  throw new PermanentError('InvalidReplayOptions', message, { got, expected });
}

/**
 * Returns the options of a replay with defaults, without unknown properties. Rejects options that are invalid or
 * contradict each other.
 *
 * @throws PermanentError `InvalidReplayOptions`
 *
 * @example
 *     const options = checkedOptions({ requestRate: 10, requestCount: 1000 });
 */
export function checkedOptions(given: input<typeof replayOptionsSchema>): ReplayOptions {
  const { data: options, error } = replayOptionsSchema.safeParse(given);
  if (!options) {
    const [issue] = error.issues;
    const key = issue?.path[0] as keyof ReplayOptions;
    return refuse(`${flagText(key)} is invalid`, given[key], issue?.message ?? '');
  }
  const { fixedScheduleStartOffset: start, fixedScheduleEndOffset: end, fixedScheduleAutoOffset: auto } = options;
  if (auto && start !== undefined) {
    const flags = '--fixed-schedule-auto-offset and --fixed-schedule-start-offset';
    refuse(`${flags} are mutually exclusive`, 'both', 'one of them');
  }
  if (start !== undefined && end !== undefined && start > end) {
    const expected = 'a start offset that is not after the end offset';
    refuse('The window of the schedule is empty', `${start} to ${end}`, expected);
  }
  const { concurrency, requestRate, speedup, spreadSameSecond } = options;
  const scheduleOnly = auto || (start ?? end) !== undefined || speedup !== 1 || spreadSameSecond !== 'none';
  if ((concurrency ?? requestRate) !== undefined && scheduleOnly) {
    refuse('A schedule cannot be combined with --concurrency or --request-rate', 'both', 'one kind of timing');
  }
  if (options.requestCancellationRate > 0 && options.requestCancellationDelay === 0) {
    refuse(
      'The delay of the cancellation is missing',
      '--request-cancellation-rate without --request-cancellation-delay',
      'the seconds after which requests are canceled',
    );
  }
  parseGoodput(options.goodput);
  for (const setting of options.set) parseSetting(setting);
  return options;
}

/**
 * Parses `request_latency:2000 time_to_first_token:300` into thresholds by tag.
 *
 * @example
 *     parseGoodput('request_latency:2000')   // Map { 'request_latency' => 2000 }
 */
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

/**
 * Parses `parameters.temperature=0` into a path and the JSON text of the value.
 *
 * @example
 *     parseSetting('parameters.temperature=0')   // { path: ['parameters', 'temperature'], value: '0' }
 */
export function parseSetting(setting: string): { path: string[]; value: string } {
  const equals = setting.indexOf('=');
  if (equals <= 0) refuse('--set is malformed', setting, 'key=value or outer.key=value');
  const path = setting.slice(0, equals).split('.');
  if (path.some((key) => key === '')) refuse('--set has an empty key', setting, 'key=value or outer.key=value');
  const value = setting.slice(equals + 1);
  return { path, value: jsonIn(value) === undefined ? JSON.stringify(value) : value };
}
