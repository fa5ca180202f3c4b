/** The outputs of a stack as SSM parameters, where commands and other stacks find them by its prefix. */
import { CfnParameter } from 'aws-cdk-lib/aws-ssm';
import type { Construct } from 'constructs';
import { OUTPUT_PARAMETERS, outputPath, type StackOutputs } from '../src/core/contract/names.ts';

export function outputParameters(scope: Construct, prefix: string, outputs: StackOutputs): void {
  let previous: CfnParameter | undefined;
  for (const [field, name] of Object.entries(OUTPUT_PARAMETERS)) {
    const parameter = new CfnParameter(scope, name, {
      name: outputPath(prefix) + name,
      type: 'String',
      value: outputs[field as keyof StackOutputs],
    });
    // One after the other: Parameter Store takes three writes a second in an account, of all its stacks.
    if (previous) parameter.node.addDependency(previous);
    previous = parameter;
  }
}
