/**
 * Escapes a text for use in the resource of a policy, where `*` and `?` are wildcards and `${` begins a variable. IAM has
 * the variables `${*}`, `${?}` and `${$}` for the characters themselves.
 */
export const escapeIamPattern = (text: string): string => text.replace(/[*?$]/g, '$${$&}');
