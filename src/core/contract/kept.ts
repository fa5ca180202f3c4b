/**
 * How long the objects of the work bucket are kept, in days, and a sentence about it for users. docs/your-data.md lists
 * all locations.
 */

import type { LambdaEnvironment } from '../settings/environment.ts';
import { redactRules } from '../settings/redact-setting.ts';

export const KEPT_DAYS = {
  /** Receipts and summaries: three months, so that last month's run can be retried. */
  runs: 90,
  /** A claim matters only while its execution runs. Step Functions allows a year, but runs take hours or days. */
  claims: 14,
  /** Results of replays, with the requests that were sent: as long as runs, to compare a release with the previous one. */
  replays: 90,
  /** Requests and answers of batch inference contain captured text. A job waits for a day at most, and ends within another. */
  batch: 7,
  /** Counts by hour outlive the runs: two years, to compare with the same season. A day takes some 100 kB. */
  counts: 731,
  /** Users and sessions, by which `find` and `forget` find traces. Kept as long as runs. */
  people: 90,
  /** Receipts of forwarded files: without one, a file would be forwarded again. */
  forwards: 400,
  /** Results of queries. Users copy results that they want to keep. */
  athena: 7,
  /** Registrations of replays: as long as captures of that time can be processed again. */
  marks: 400,
  /** Lines that could not become traces: a year to fix the cause and retry them. */
  quarantine: 365,
} as const;

/** Returns in which form captured words are kept, where, and for how long, with the settings in force. */
export function keptText({ REDACT, CONTENT }: Pick<LambdaEnvironment, 'REDACT' | 'CONTENT'>): string {
  const { kinds, fields, patterns } = redactRules(REDACT ?? '');
  const masked = [...kinds, ...fields.map((name) => `field:${name}`), ...patterns.map(({ name }) => `pattern:${name}`)];
  const form = masked.length === 0 ? 'as captured' : `masked (${masked.join(', ')})`;
  const isPlain = masked.length === 0 && CONTENT !== 'none';
  const { quarantine, replays, batch, counts, people } = KEPT_DAYS;
  const places = [
    'traces until you delete them',
    `${isPlain ? 'quarantine' : 'quarantine (places only)'} ${quarantine} days`,
    `replays and the judge's answers ${replays} days`,
    `batch requests ${CONTENT === 'none' ? 'until their run ends' : `${batch} days`}`,
    `users and sessions ${people} days`,
    `labels and counts ${counts} days`,
  ];
  return `${CONTENT === 'none' ? 'without texts' : form}: ${places.join(', ')}`;
}
