/** Adds permissions to a role. Every resource is named; a wildcard needs a reason, which cdk-nag records. */
import { Stack, Token } from 'aws-cdk-lib';
import { PolicyStatement, type Role } from 'aws-cdk-lib/aws-iam';
import { acknowledge } from '../acknowledge.ts';

interface Permission {
  actions: string[];
  resources: string[];
  conditions?: Record<string, Record<string, string | string[]>> | undefined;
  /** Required if an action or a resource has a wildcard: why it cannot be narrower. */
  why?: string;
}

/** The condition that the resource belongs to an account. */
export const inAccount = (account: string) => ({ StringEquals: { 'aws:ResourceAccount': account } });

/**
 * Escapes a text for use in the resource of a policy, where `*` and `?` are wildcards and `${` begins a variable. IAM has
 * the variables `${*}`, `${?}` and `${$}` for the characters themselves. What only the deployment knows must have none of them.
 */
export const escapeIamPattern = (text: string): string =>
  Token.isUnresolved(text) ? text : text.replace(/[*?$]/g, '$${$&}');

/** @throws Error if a wildcard has no reason */
export function allow(role: Role, { why, ...statement }: Permission): void {
  role.addToPolicy(new PolicyStatement(statement));
  const stack = Stack.of(role);
  const wild = [
    ...statement.actions.filter((action) => action.includes('*')).map((action) => `Action::${action}`),
    ...statement.resources.filter((arn) => arn.includes('*')).map((arn) => `Resource::${asText(stack.resolve(arn))}`),
  ];
  for (const finding of wild) {
    if (why === undefined) throw new Error(`${role.node.path} has ${finding} without a reason`);
    acknowledge(role, { [`AwsSolutions-IAM5[${finding}]`]: why });
  }
}

/** Formats a resolved ARN as cdk-nag does: references as `<logical id>` or `<logical id.attribute>`. */
function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  const [[name, argument] = []] = Object.entries(value as Record<string, unknown>);
  if (name === 'Ref') return `<${argument}>`;
  if (name === 'Fn::GetAtt') return `<${(argument as string[]).join('.')}>`;
  if (name === 'Fn::Join') return (argument as [string, unknown[]])[1].map(asText).join('');
  // A value of an app or of a parameter, which cdk-nag has no short form for.
  return JSON.stringify(value);
}
