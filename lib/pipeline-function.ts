/** One Lambda of the pipeline: bundled, with a role and a log group of its own. */
import { Duration, RemovalPolicy, Size } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, Runtime } from 'aws-cdk-lib/aws-lambda';
import { LogLevel, NodejsFunction, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import { nodeOptions } from './function-environment.ts';
import type { Settings } from './settings.ts';

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
  readonly function: NodejsFunction;
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
    this.function = new NodejsFunction(this, 'Function', {
      functionName,
      description: props.description,
      role: this.role,
      logGroup,
      entry: `lambda/${folder}/handler.ts`,
      depsLockFilePath: 'package-lock.json',
      runtime: Runtime.NODEJS_24_X,
      // A fifth cheaper than x86_64; nothing in the bundles is native.
      architecture: Architecture.ARM_64,
      memorySize,
      timeout: Duration.seconds(props.timeoutSeconds ?? settings.LAMBDA_TIMEOUT_SECONDS),
      ...(props.diskMib === undefined ? {} : { ephemeralStorageSize: Size.mebibytes(props.diskMib) }),
      ...(props.asyncRetries === undefined ? {} : { retryAttempts: props.asyncRetries }),
      environment: {
        ...props.environment,
        NODE_OPTIONS: nodeOptions(memorySize),
        POWERTOOLS_SERVICE_NAME: functionName,
      },
      bundling: {
        format: OutputFormat.ESM,
        target: 'node24',
        minify: true,
        // Its sizes are looked after by a test.
        logLevel: LogLevel.WARNING,
        keepNames: true,
        // On a pinned runtime the CDK leaves the SDK out; the version that was tested is the one that runs.
        bundleAwsSDK: true,
        mainFields: ['module', 'main'],
        // CommonJS packages inside an ES module still call require.
        banner:
          "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);",
      },
    });
  }
}
