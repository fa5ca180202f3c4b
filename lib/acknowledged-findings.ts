/** Findings of cdk-nag about the stack as a whole that are meant to be so. */
import type { Stack } from 'aws-cdk-lib';
import { acknowledge } from './acknowledge.ts';

export function acknowledgeStack(stack: Stack): void {
  acknowledge(stack, {});
}
