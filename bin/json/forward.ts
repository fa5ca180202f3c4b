/** What `forward --json` prints. */
import * as z from 'zod';
import { count } from './parts.ts';

export const forwardJson = z.object({
  files: count.describe('files of the window, or about as many dead letters'),
  bytes: count.describe('those of the files'),
  queued: z.boolean().describe('false with --dry-run'),
});
