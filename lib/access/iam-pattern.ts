/**
 * A text as part of a resource in a policy: there `*` and `?` stand for other characters, and `${` begins a variable.
 * IAM's own variables for the three characters are themselves written as `${*}`, `${?}` and `${$}`.
 */
export const escapeIamPattern = (text: string): string => text.replace(/[*?$]/g, '$${$&}');
