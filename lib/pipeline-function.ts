/** A Lambda function of the stack: its bundle, its role, its log group, and the subnets that it is connected to. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type CfnResource, Duration, RemovalPolicy, Size, Stack, Stage } from 'aws-cdk-lib';
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Effect, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { FUNCTION_TIMEOUT_SECONDS } from '../src/core/contract/execution.ts';
import { resourceNames } from '../src/core/contract/names.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow, arnIn, workKey } from './access/allow.ts';
import { grantWork, type WorkAccess } from './access/work.ts';
import AWS_ACTIONS from './aws-actions.json' with { type: 'json' };
import { bundleFunctions, LAMBDA } from './bundle-functions.ts';
import TABLE from './functions.json' with { type: 'json' };
import { nodeOptions } from './settings/function-environment.ts';

type Names = ReturnType<typeof resourceNames>;
/** The names of functions among the names of resources: resources with a role. */
export type FunctionName = { [N in keyof Names]: `${N}Role` extends keyof Names ? N : never }[keyof Names];

/** The context for constructs with functions of their own. */
export interface StackContext {
  settings: Settings;
  workBucket: IBucket;
  /** The table of the judge's budget, in which locks and limits have their items too. */
  budget: ITableV2;
  /** The environment variables that all functions of the stack have. */
  environment: Record<string, string>;
}

export type FunctionContext = Pick<StackContext, 'settings' | 'workBucket' | 'environment'>;

/** Creates the log group of a scope, as its child `Logs`. */
export const logsOf = (scope: Construct, logGroupName: string, settings: Settings): LogGroup =>
  new LogGroup(scope, 'Logs', {
    logGroupName,
    retention: settings.LOG_RETENTION_DAYS,
    encryptionKey: workKey(scope, settings),
    removalPolicy: RemovalPolicy.DESTROY,
  });

export interface FunctionOptions {
  /** Default: the setting. */
  memoryMb?: number;
  /** Default: Lambda's maximum. */
  timeoutSeconds?: number;
  /** Size of `/tmp`. Default: Lambda's own 512. */
  diskMib?: number;
  /** Number of times that Lambda itself retries an asynchronous invocation. Default: Lambda's own two. */
  asyncRetries?: number;
}

/** The handler's folder under `lambda/`, and the areas of the work bucket that a function uses. */
const FUNCTIONS = TABLE as Record<FunctionName, { folder: string; description: string; work: WorkAccess }>;

export class PipelineFunction extends Construct {
  readonly function: LambdaFunction;
  readonly role: Role;
  readonly timeout: Duration;

  constructor(scope: Construct, id: string, name: FunctionName, props: FunctionContext & FunctionOptions) {
    super(scope, id);
    const { settings } = props;
    const { folder, description, work } = FUNCTIONS[name];
    const names = resourceNames(settings.STACK_PREFIX);
    const functionName = names[name];
    const logGroup = logsOf(this, `/aws/lambda/${functionName}`, settings);
    // The managed basic policy could write to every log group of the account, so it is not used.
    this.role = new Role(this, 'Role', {
      roleName: names[`${name}Role`],
      description: `Role of ${functionName}`,
      // Without aws:SourceAccount: docs/decisions/0140-trust-of-functions.md
      assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    });
    logGroup.grantWrite(this.role);
    grantWork(props.workBucket, this.role, work);
    this.timeout = Duration.seconds(props.timeoutSeconds ?? FUNCTION_TIMEOUT_SECONDS);
    const memorySize = props.memoryMb ?? settings.LAMBDA_MEMORY_MB;
    this.function = new LambdaFunction(this, 'Function', {
      functionName,
      description,
      role: this.role,
      logGroup,
      code: functionCode(this, folder),
      handler: 'index.handler',
      runtime: Runtime.NODEJS_24_X,
      // A fifth cheaper than x86_64. The bundles contain no native code.
      architecture: Architecture.ARM_64,
      memorySize,
      timeout: this.timeout,
      ephemeralStorageSize: props.diskMib === undefined ? undefined : Size.mebibytes(props.diskMib),
      retryAttempts: props.asyncRetries,
      environment: {
        ...props.environment,
        NODE_OPTIONS: nodeOptions(memorySize),
        POWERTOOLS_SERVICE_NAME: functionName,
      },
    });
    connectToVpc(this.function.node.defaultChild as CfnResource, this.role, settings);
  }
}

// ------------------------------------------------------------------------------------------------------------ code
// As assets of a stack.

/** Output folders that already contain the bundles, so that the functions of an app are bundled once. */
const bundled = new Set<string>();

/**
 * Returns the handler's bundle, `index.mjs`, or its source if the app skips bundling. If FUNCTION_BUNDLES names a folder,
 * the bundles are taken from there. An installed package has zips instead of sources.
 *
 * @param folder the handler's folder under `lambda/`
 */
function functionCode(scope: Construct, folder: string): Code {
  if (!existsSync(LAMBDA)) return Code.fromAsset(packagePath('dist', 'functions', `${folder}.zip`));
  if (!Stack.of(scope).bundlingRequired) return Code.fromAsset(join(LAMBDA, folder));
  const made = process.env.FUNCTION_BUNDLES;
  if (made) return Code.fromAsset(join(made, folder));
  const outdir = join(Stage.of(scope)?.outdir ?? 'cdk.out', 'functions');
  if (!bundled.has(outdir)) bundleFunctions(outdir);
  bundled.add(outdir);
  return Code.fromAsset(join(outdir, folder));
}

// --------------------------------------------------------------------------------------------------------- network
// Connects functions to the subnets in the settings. Nothing is looked up, so synth needs no credentials.

/**
 * Lambda's own actions with the function's role: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
 */
const NETWORK_INTERFACES = AWS_ACTIONS.networkInterfaces;

/** @param resource the function in the template, which only this role runs */
export function connectToVpc(resource: CfnResource, role: Role, settings: Settings): void {
  const { VPC_SUBNET_IDS: SubnetIds, VPC_SECURITY_GROUP_IDS: SecurityGroupIds } = settings;
  if (SubnetIds.length === 0) return;
  resource.addPropertyOverride('VpcConfig', { SubnetIds, SecurityGroupIds });
  allow(role, {
    actions: NETWORK_INTERFACES,
    resources: ['*'],
    why: 'Lambda creates the network interfaces of functions, and requires these permissions on all resources.',
  });
  // Lambda itself needs them, the function's code does not. Only requests of the code name the function.
  role.addToPolicy(
    new PolicyStatement({
      effect: Effect.DENY,
      actions: NETWORK_INTERFACES,
      resources: ['*'],
      conditions: { ArnLike: { 'lambda:SourceFunctionArn': arnIn(role, 'lambda', 'function:*') } },
    }),
  );
}
