/** What `rebuild-counts --json` prints. */
import * as z from 'zod';

export const rebuildCountsJson = z.object({
  rebuilt: z.array(z.string()).describe('runs that were added up again'),
  kept: z.record(z.string(), z.string()).describe('runs that were kept as they were: why, by run'),
});
