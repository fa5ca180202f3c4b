/** `JUDGE_GUIDELINES`: sentences by name, alone or with the gravity of a reply that breaks one. */
import * as z from 'zod';
import type { Gravity } from '../values/gravity.ts';

const guidelineSchema = z.union([
  z.string(),
  // `checkScorers` checks the gravity, and names the guideline.
  z.strictObject({ text: z.string(), gravity: z.custom<Gravity>((given) => typeof given === 'string').optional() }),
]);

export const guidelinesSchema = z.record(z.string(), guidelineSchema);
export type Guidelines = Readonly<z.infer<typeof guidelinesSchema>>;
