/**
 * Escapes a text for use in the resource of a policy, where `*` and `?` are wildcards and `${` begins a variable. IAM has
 * the variables `${*}`, `${?}` and `${$}` for the characters themselves. What only the deployment knows must have none of them.
 */
import { Token } from 'aws-cdk-lib';

export const escapeIamPattern = (text: string): string =>
  Token.isUnresolved(text) ? text : text.replace(/[*?$]/g, '$${$&}');
