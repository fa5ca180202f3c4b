/** What `label --json` prints. */
import * as z from 'zod';
import { count } from './parts.ts';

export const labelJson = z.array(
  z.object({
    scorer: z.string(),
    strata: z.array(
      z.object({
        name: z.enum(['passes', 'fails']).describe("the judge's verdict"),
        judged: count,
        labelled: count,
        waiting: count,
        picked: count,
        probability: z.number().describe('the part that is picked by now'),
      }),
    ),
    waiting: z.array(z.string()).describe('ids of the traces that wait for a label'),
    picked: count.describe('the part of them that was picked now'),
    queue: z.string().nullable().describe("id of MLflow's review queue; null: this server has none"),
  }),
);
