/** Variables that hold JSON. */
import * as z from 'zod';

const MAX_SHOWN_CHARS = 80;

/** A text that is JSON of a shape; it is read as that. */
export const jsonText = <T extends z.ZodType>(shape: T) =>
  z
    .string()
    .transform((text, context) => {
      try {
        return JSON.parse(text) as unknown;
      } catch {
        context.addIssue({ code: 'custom', message: `not JSON: ${text.slice(0, MAX_SHOWN_CHARS)}` });
        return z.NEVER;
      }
    })
    .pipe(shape);
