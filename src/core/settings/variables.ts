/**
 * Reads settings from environment variables, each by its own schema. The judge's model has a default, by the region of
 * the stack.
 */

import type * as z from 'zod';
import choice from './default-judge.json' with { type: 'json' };

export interface WrongSetting {
  name: string;
  got: string;
  expected: string;
}

/** Longer values are cut. Their beginning is enough to recognize them. */
const MAX_SHOWN_CHARS = 120;

/**
 * Returns a value for an error message: cut, and without anything that may be a secret. Users paste tokens into URLs,
 * and secrets instead of their ARNs.
 */
function shown(name: string, value: string): string {
  if (name.endsWith('_SECRET_ARN') && !value.startsWith('arn:')) {
    return `a text of ${value.length} characters that is not an ARN (not shown: it may be the secret itself)`;
  }
  const safe = value.replace(/\/\/.*@/s, '//…@').replace(/(:\/\/[^?]*\?).*$/s, '$1…');
  return JSON.stringify(safe.length > MAX_SHOWN_CHARS ? `${safe.slice(0, MAX_SHOWN_CHARS)}…` : safe);
}

/** @param detail the fault of this value, if the expectation alone does not explain it */
export const wrongValue = (name: string, { description }: z.ZodType, value: string, detail?: string): WrongSetting => ({
  name,
  got: shown(name, value),
  expected: [description, detail && `(${detail})`].filter(Boolean).join(' '),
});

/** Reads every setting of the schema and collects the faults. An empty variable counts as not set. */
export function readEach<S extends z.ZodRawShape>(
  { shape }: z.ZodObject<S>,
  variables: Readonly<Record<string, string | undefined>>,
): { values: z.output<z.ZodObject<S>>; wrong: WrongSetting[] } {
  const values: Record<string, unknown> = {};
  const wrong: WrongSetting[] = [];
  for (const [name, schema] of Object.entries(shape) as [string, z.ZodType][]) {
    const value = variables[name]?.trim() ? variables[name] : undefined;
    const { success, data, error } = schema.safeParse(value);
    const issue = error?.issues[0];
    if (success) values[name] = data;
    else if (value === undefined) {
      wrong.push({ name, got: 'nothing (it is required)', expected: schema.description ?? 'a value' });
    } else wrong.push(wrongValue(name, schema, value, issue?.code === 'custom' ? issue.message : undefined));
  }
  return { values: values as z.output<z.ZodObject<S>>, wrong };
}

export const describeWrong = ({ name, got, expected }: WrongSetting): string =>
  `${name}: got ${got}; expected: ${expected}`;

/** @throws the error that `invalid` creates from the list of faults */
export function readVariables<S extends z.ZodRawShape>(
  schema: z.ZodObject<S>,
  variables: Readonly<Record<string, string | undefined>>,
  invalid: (wrong: string) => Error,
): z.output<z.ZodObject<S>> {
  const { values, wrong } = readEach(schema, variables);
  if (wrong.length > 0) throw invalid(wrong.map(describeWrong).join('; '));
  return values;
}

// ----------------------------------------------------------------------------------------------- the judge's model
// Where `BEDROCK_MODEL_ID` is not set (decision 0073): the model, the geographies of its inference profiles by source region, and
// the partitions where Bedrock offers it under no profile. Other commercial regions have only the global profile.

/**
 * @returns the id of an inference profile: the global profile if the region is unknown, `undefined` if there is no
 *   profile
 */
export function defaultJudgeModel(region?: string): string | undefined {
  if (choice.withoutDefault.some((partition) => region?.startsWith(partition))) return undefined;
  const [geography = 'global'] =
    Object.entries(choice.geographies).find(([, regions]) => regions.includes(region ?? '')) ?? [];
  return `${geography}.${choice.model}`;
}

/** Adds the default of the region to variables without `BEDROCK_MODEL_ID`. */
export const withDefaultJudge = <V extends Readonly<Record<string, string | undefined>>>(
  variables: V,
  region: string | undefined,
): V | (V & { BEDROCK_MODEL_ID: string | undefined }) =>
  variables.BEDROCK_MODEL_ID?.trim() ? variables : { ...variables, BEDROCK_MODEL_ID: defaultJudgeModel(region) };
