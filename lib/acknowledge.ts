/** Acknowledges intended findings of cdk-nag, each with its reason. */
import * as cdk from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

/**
 * Acknowledges intended findings of cdk-nag on a construct.
 *
 * @param reasons by the rule's id, for example `AwsSolutions-S1`, or with its detail, `AwsSolutions-IAM5[Resource::*]`.
 *
 * @example
 *     acknowledge(bucket, { 'AwsSolutions-S1': 'The bucket needs no access logs.' });
 */
export function acknowledge(construct: IConstruct, reasons: Record<string, string>): void {
  // Another owner's app may have a CDK from before the summer of 2026, which has no validations.
  const { Validations } = cdk as Partial<typeof cdk>;
  for (const [id, reason] of Object.entries(reasons)) Validations?.of(construct).acknowledge({ id, reason });
}
