/** Parses ids of models and of cross-region inference profiles on Bedrock: a geography before the model’s id. */

/**
 * A vendor is one word, and a model's name begins with a letter. Otherwise `zai.glm-4.7`, a model with a dot in its
 * version, would match as a profile of a geography `zai`.
 */
const PROFILE_ID = /^(?<geography>global|[a-z]{2,4}(?:-gov)?)\.(?<model>[a-z0-9]+\.[a-z].*)$/;

export interface ProfileId {
  /** `us`, `eu`, `apac`, `global`, `us-gov`, … */
  geography: string;
  /** The model behind the profile, for example `anthropic.claude-sonnet-4-6`. */
  model: string;
}

/** Returns the parts of a profile's id; `undefined` for a model's own id and for ARNs. */
export function parseProfileId(id: string): ProfileId | undefined {
  return PROFILE_ID.exec(id)?.groups as ProfileId | undefined;
}

/** Returns the model id without `bedrock:/`, `openai:/` or `sagemaker:/`. The settings accept both. */
export const withoutScheme = (id: string): string => id.trim().replace(/^(?:bedrock|openai|sagemaker):?\/+/, '');

/** Variants of a model by context length share its price, for example `amazon.nova-pro-v1:0:24k`. */
const CONTEXT_VARIANT = /:\d+k$/;

/**
 * Returns the model behind a Bedrock model id, inference-profile id or ARN, with or without `bedrock:/`; `undefined` if the
 * name does not identify the model: application profiles, provisioned and imported models.
 */
export function resolveModel(id: string) {
  let name = withoutScheme(id);
  let region: string | undefined;
  const arn = /^arn:aws[a-z-]*:bedrock:([a-z0-9-]*):\d*:(foundation-model|inference-profile)\/(.+)$/.exec(name);
  if (arn !== null) {
    region = arn[1] === '' ? undefined : arn[1];
    name = arn[3] as string;
  } else if (name.startsWith('arn:')) {
    return undefined;
  }
  name = name.replace(CONTEXT_VARIANT, '');
  const profile = parseProfileId(name);
  return {
    /** The model's name in the table, for example `anthropic.claude-sonnet-4-6`. */
    model: profile?.model ?? name,
    /** Geography of the inference profile, for example `us` or `global`. */
    profile: profile?.geography,
    /** Region of an ARN. */
    region,
  };
}
