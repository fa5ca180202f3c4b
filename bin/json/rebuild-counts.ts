/** What `rebuild-counts --json` prints. */
import * as z from 'zod';
import { count } from './parts.ts';

const counted = z.object({ captures: z.number(), verdicts: z.number() }).optional();

export const rebuildCountsJson = z.object({
  runs: count.describe('runs whose receipts were read'),
  differences: z.array(z.object({ run: z.string(), day: z.iso.date(), before: counted, after: counted })),
  kept: z.record(z.string(), z.string()).describe('runs that were kept as they were: why, by run'),
});
