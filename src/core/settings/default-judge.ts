/** The judge's model where `BEDROCK_MODEL_ID` is not set, by the region of the stack (decision 0073). */

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

/** @returns the id of an inference profile: the global one if the region is unknown, `undefined` where there is none */
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
