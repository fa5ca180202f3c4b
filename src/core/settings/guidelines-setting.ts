/** `JUDGE_GUIDELINES`: sentences by name, alone or with the severity of a reply that breaks one. */
import * as z from 'zod';
import type { Severity } from '../values/severity.ts';

const guidelineSchema = z.union([
  z.string(),
  // `checkScorers` checks the severity, and names the guideline.
  z.strictObject({ text: z.string(), severity: z.custom<Severity>((given) => typeof given === 'string').optional() }),
]);

export const guidelinesSchema = z.record(z.string(), guidelineSchema);
export type Guidelines = Readonly<z.infer<typeof guidelinesSchema>>;
