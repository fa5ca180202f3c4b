/** Variables of the environment, read by a schema. */
import * as z from 'zod';
import { PermanentError } from '../shared/errors.ts';

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

/** @throws what `invalid` makes of all that is wrong, by name */
export function readVariables<T extends z.ZodType>(
  schema: T,
  variables: NodeJS.ProcessEnv,
  invalid: (wrong: string) => Error,
): z.output<T> {
  // A setting left empty is a setting not made.
  const given = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  throw invalid(result.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; '));
}

/** @throws PermanentError `InvalidEnvironment` naming every wrong or missing variable */
export const readFunctionVariables = <T extends z.ZodType>(schema: T, variables: NodeJS.ProcessEnv): z.output<T> =>
  readVariables(
    schema,
    variables,
    (wrong) => new PermanentError('InvalidEnvironment', `The function's environment is not valid: ${wrong}`),
  );
