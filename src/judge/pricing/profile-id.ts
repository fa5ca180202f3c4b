/** Parses ids of Bedrock cross-region inference profiles: a geography before the model’s id. */

/**
 * A vendor is one word, and a model's name begins with a letter. Otherwise `zai.glm-4.7`, a model with a dot in its version,
 * would be taken for a profile of a geography `zai`.
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
