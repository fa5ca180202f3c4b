/** What `stop --json` prints. */
import * as z from 'zod';
import { count } from './parts.ts';

const status = z.string().describe('of the execution, as Step Functions names it');

export const stopJson = z.union([
  z.object({
    kind: z.literal('run'),
    run: z.string(),
    status,
    openBatchJobs: z.array(z.string()).readonly().describe('ARNs of jobs at Bedrock that go on'),
  }),
  z.object({
    kind: z.literal('replay'),
    run: z.string(),
    status,
    sent: count.optional().describe('requests; absent: nothing was sent, or there are no results yet'),
    requests: count.optional(),
    results: z.string().optional().describe('where the results are, in S3'),
  }),
]);

export type StopResult = z.infer<typeof stopJson>;
