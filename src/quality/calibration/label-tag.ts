/** The tag of a trace that was picked to be labelled: the window it was picked in, and how likely that was. */
import { hash } from 'node:crypto';
import * as z from 'zod';

export const VERDICTS = ['passes', 'fails'] as const;

/** What the tag says, as JSON. People can edit tags. */
const pickSchema = z.object({
  /** The judge's verdict when the trace was picked. */
  verdict: z.enum(VERDICTS),
  /** The part of the window's judged traces with that verdict that is picked by now. */
  probability: z.number().gt(0).lte(1),
  /** The window of the inferences, from inclusive, to exclusive. */
  from: z.iso.datetime(),
  to: z.iso.datetime(),
  /** MLflow's filter, if only some traces of the window could be picked. */
  filter: z.string().optional(),
  /** The time of the latest verdict that the call saw: traces that were judged after it could not be picked. */
  seen: z.iso.datetime(),
  /** By verdict: all traces of the window were picked whose number (`drawOf`) is below this. */
  passes: z.number().min(0).max(1),
  fails: z.number().min(0).max(1),
  /** When it was picked. */
  picked: z.string(),
});

export type LabelPick = z.infer<typeof pickSchema>;

export const labelTag = (scorer: string): string => `label_${scorer}`;

/** Returns MLflow's filter for the traces that were picked. */
export const pickedFilter = (scorer: string): string => `tag.\`${labelTag(scorer)}\` LIKE '%probability%'`;

/**
 * Returns how the trace was picked.
 *
 * @returns `undefined` if it was not; `unreadable` if an earlier version wrote the tag, which kept no window, or somebody changed it
 */
export function pickOf(tags: Readonly<Record<string, string>>, scorer: string): LabelPick | 'unreadable' | undefined {
  const tag = tags[labelTag(scorer)];
  if (tag === undefined) return undefined;
  try {
    return pickSchema.safeParse(JSON.parse(tag)).data ?? 'unreadable';
  } catch {
    return 'unreadable';
  }
}

const DIGITS = 13;

/** Returns the number of a trace, from 0 to 1, by which it is picked: as good as drawn at random, and always the same. */
export const drawOf = (scorer: string, traceId: string): number =>
  Number.parseInt(hash('sha256', `label\n${scorer}\n${traceId}`).slice(0, DIGITS), 16) / 16 ** DIGITS;

export const verdictOf = (passed: boolean): (typeof VERDICTS)[number] => (passed ? 'passes' : 'fails');
