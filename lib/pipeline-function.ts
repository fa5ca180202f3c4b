/** One Lambda of the pipeline: bundled, with a role and a log group of its own. */
import { Duration, RemovalPolicy, Size } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { Settings } from '../src/settings/schema.ts';
import { functionCode } from './function-code.ts';
import { nodeOptions } from './settings/function-environment.ts';

export interface PipelineFunctionProps {
  settings: Settings;
  functionName: string;
  roleName: string;
  description: string;
  /** The handler's folder under `lambda/`. */
  folder: string;
  environment: Record<string, string>;
  /** Default: as the settings have it. */
  memoryMb?: number;
  timeoutSeconds?: number;
  /** Under `/tmp`. Default: Lambda's own 512. */
  diskMib?: number;
  /** How often Lambda itself repeats an invocation that nobody waits for. Default: Lambda's own two. */
  asyncRetries?: number;
}

export class PipelineFunction extends Construct {
  readonly function: LambdaFunction;
  readonly role: Role;

  constructor(scope: Construct, id: string, props: PipelineFunctionProps) {
    super(scope, id);
    const { settings, functionName, roleName, folder } = props;
    const logGroup = new LogGroup(this, 'Logs', {
      logGroupName: `/aws/lambda/${functionName}`,
      retention: settings.LOG_RETENTION_DAYS,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    // Not the managed basic policy: that one may write to every log group of the account.
    this.role = new Role(this, 'Role', {
      roleName,
      description: `Role of ${functionName}`,
      assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    });
    logGroup.grantWrite(this.role);
    const memorySize = props.memoryMb ?? settings.LAMBDA_MEMORY_MB;
    this.function = new LambdaFunction(this, 'Function', {
      functionName,
      description: props.description,
      role: this.role,
      logGroup,
      code: functionCode(this, folder),
      handler: 'index.handler',
      runtime: Runtime.NODEJS_24_X,
      // A fifth cheaper than x86_64; nothing in the bundles is native.
      architecture: Architecture.ARM_64,
      memorySize,
      timeout: Duration.seconds(props.timeoutSeconds ?? settings.LAMBDA_TIMEOUT_SECONDS),
      ...(props.diskMib === undefined ? {} : { ephemeralStorageSize: Size.mebibytes(props.diskMib) }),
      retryAttempts: props.asyncRetries,
      environment: {
        ...props.environment,
        NODE_OPTIONS: nodeOptions(memorySize),
        POWERTOOLS_SERVICE_NAME: functionName,
      },
    });
  }
}
