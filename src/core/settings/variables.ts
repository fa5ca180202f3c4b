/** Reads settings from environment variables, each by its own schema, with the default of the judge's model. */
import type * as z from 'zod';

/** The AWS sample's Sonnet 4 is no longer on Bedrock. */
const MODEL = 'anthropic.claude-sonnet-4-6';

/**
 * The geographies of the model's inference profiles by source region, as Bedrock's table of cross-region profiles lists
 * them (November 2026). In the other commercial regions the model has only the global profile.
 */
const GEOGRAPHIES: readonly [RegExp, string][] = [
  [/^(us|ca)-(east|west|central)-\d$/, 'us'],
  [/^eu-(north|south|west|central)-\d$/, 'eu'],
  [/^ap-northeast-[13]$/, 'jp'],
  [/^ap-southeast-[24]$/, 'au'],
];

/** Regions outside the commercial partition, where Bedrock offers the model under no profile, or does not exist. */
const WITHOUT_DEFAULT = /^(cn|us-gov|us-iso|us-isob|eu-isoe|us-isof|eusc)-/;

/**
 * The judge's model where `BEDROCK_MODEL_ID` is not set, by the region of the stack (decision 0073).
 *
 * @returns the id of an inference profile: the global one if the region is unknown, `undefined` where there is none
 */
export function defaultJudgeModel(region?: string): string | undefined {
  if (WITHOUT_DEFAULT.test(region ?? '')) return undefined;
  const geography = GEOGRAPHIES.find(([regions]) => regions.test(region ?? ''))?.[1] ?? 'global';
  return `${geography}.${MODEL}`;
}

/** Adds the default of the region to variables without `BEDROCK_MODEL_ID`. */
export const withDefaultJudge = <V extends Readonly<Record<string, string | undefined>>>(
  variables: V,
  region: string | undefined,
): V | (V & { BEDROCK_MODEL_ID: string | undefined }) =>
  variables.BEDROCK_MODEL_ID?.trim() ? variables : { ...variables, BEDROCK_MODEL_ID: defaultJudgeModel(region) };

export interface WrongSetting {
  name: string;
  got: string;
  expected: string;
}

/** Longer values are cut. Their beginning is enough to recognize them. */
const MAX_SHOWN_CHARS = 120;

/**
 * A value as an error message shows it: cut, and without anything that may be a secret. People paste tokens into URLs,
 * and the secret itself in place of its ARN.
 */
function shown(name: string, value: string): string {
  if (name.endsWith('_SECRET_ARN') && !value.startsWith('arn:')) {
    return `a text of ${value.length} characters that is not an ARN (not shown: it may be the secret itself)`;
  }
  const safe = value.replace(/\/\/.*@/s, '//…@').replace(/(:\/\/[^?]*\?).*$/s, '$1…');
  return JSON.stringify(safe.length > MAX_SHOWN_CHARS ? `${safe.slice(0, MAX_SHOWN_CHARS)}…` : safe);
}

/** @param detail what is wrong with this value, if the expectation alone does not tell */
export const wrongValue = (name: string, { description }: z.ZodType, value: string, detail?: string): WrongSetting => ({
  name,
  got: shown(name, value),
  expected: [description, detail && `(${detail})`].filter(Boolean).join(' '),
});

/** Reads every setting of the schema and collects what is wrong. An empty variable counts as not set. */
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

/** @throws the error that `invalid` makes of a list of everything that is wrong */
export function readVariables<S extends z.ZodRawShape>(
  schema: z.ZodObject<S>,
  variables: Readonly<Record<string, string | undefined>>,
  invalid: (wrong: string) => Error,
): z.output<z.ZodObject<S>> {
  const { values, wrong } = readEach(schema, variables);
  if (wrong.length > 0) throw invalid(wrong.map(describeWrong).join('; '));
  return values;
}
