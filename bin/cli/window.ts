/** The options of a window of time, as instants. */
import { PermanentError } from '../../src/core/errors/errors.ts';
import { instantMs } from '../commands/instants.ts';

export interface WindowFlags {
  from?: string;
  to?: string;
}

export const FROM_OPTION = [
  '--from <time>',
  'start of the window: an instant, a day, or an age such as 12h, 7d',
] as const;
export const TO_OPTION = ['--to <time>', 'end of the window (default: now)'] as const;

/** @returns epoch milliseconds; an end that is not given is absent. @throws PermanentError `InvalidTime` */
export function windowOfFlags({ from, to }: WindowFlags, nowMs = Date.now()): { fromMs?: number; toMs?: number } {
  const fromMs = from === undefined ? undefined : instantMs(from, nowMs);
  const toMs = to === undefined ? undefined : instantMs(to, nowMs);
  if (fromMs !== undefined && fromMs >= (toMs ?? nowMs)) {
    const got = `${new Date(fromMs).toISOString()} to ${new Date(toMs ?? nowMs).toISOString()}`;
    throw new PermanentError('InvalidTime', 'The window is empty', { got, expected: '--from before --to' });
  }
  return { ...(fromMs === undefined ? {} : { fromMs }), ...(toMs === undefined ? {} : { toMs }) };
}
