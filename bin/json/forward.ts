/** What `forward --json` prints. */
import * as z from 'zod';
import { count } from './parts.ts';

export const forwardJson = z.object({
  files: count.describe('files of the window that were not forwarded before, or dead letters that were put back'),
  bytes: count,
  before: count.describe('files that were forwarded before'),
  sent: z.boolean().describe('false with --dry-run'),
  forwarded: count,
  inferences: count.describe('those that Arthur took'),
  rejected: count.describe('those of forwarded files that it did not take'),
  unknown: count.describe('posts of these files without an answer, after which Arthur may have a file twice'),
  failed: z.array(z.object({ key: z.string().optional(), name: z.string(), message: z.string() })),
});
