/**
 * Makes existing buckets send events to EventBridge, beside their other notifications: the one with the captures, and the one
 * with the labels. Deleting the stack leaves them switched on, since another stack may need it.
 *
 * The CDK's own custom resource has one function per CloudFormation stack, with one role. In an app of somebody else it would
 * be shared: with buckets of theirs, which our role could not change, or with theirs, which may change every bucket.
 */
import { type CfnResource, CustomResource, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { resourceNames } from '../src/core/contract/names.ts';
import { labelPlace } from '../src/core/settings/ground-truth-setting.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow } from './access/allow.ts';
import { acknowledge } from './acknowledge.ts';
import { logsOf } from './pipeline-function.ts';
import { connectToVpc } from './vpc.ts';

/**
 * In Python, since that runtime has the AWS client for code that is part of the template. It does not validate the other
 * destinations: a broken one of somebody else must not stop the deployment. Without a change it writes nothing.
 */
const HANDLER = `import json
import urllib.request

import boto3

s3 = boto3.client("s3")


def switch_on(bucket):
    found = s3.get_bucket_notification_configuration(Bucket=bucket)
    found.pop("ResponseMetadata", None)
    if "EventBridgeConfiguration" in found:
        return
    s3.put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={**found, "EventBridgeConfiguration": {}},
        SkipDestinationValidation=True,
    )


def handler(event, context):
    bucket = event["ResourceProperties"]["BucketName"]
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer.update(Status="SUCCESS", PhysicalResourceId=bucket)
    try:
        if event["RequestType"] != "Delete":
            switch_on(bucket)
    except Exception as error:
        answer.update(Status="FAILED", Reason=f"s3://{bucket}: {error}")
    body = json.dumps(answer).encode()
    headers = {"content-type": ""}
    request = urllib.request.Request(event["ResponseURL"], data=body, headers=headers, method="PUT")
    urllib.request.urlopen(request, timeout=30)
`;

export class CaptureNotifications extends Construct {
  constructor(scope: Construct, id: string, settings: Settings) {
    super(scope, id);
    const captures = settings.DATA_CAPTURE_S3_BUCKET;
    const labels = labelPlace(settings.GROUND_TRUTH_S3_PREFIX)?.bucket;
    const buckets = { Switch: captures, ...(labels !== undefined && labels !== captures && { LabelSwitch: labels }) };
    const names = Object.values(buckets);
    const functionName = resourceNames(settings.STACK_PREFIX).notifier;
    const logGroup = logsOf(this, `/aws/lambda/${functionName}`, settings);
    const description = `Switches EventBridge on for ${names.join(' and ')}`;
    const role = new Role(this, 'Role', { description, assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    const resources = names.map((name) => `arn:${Stack.of(this).partition}:s3:::${name}`);
    allow(role, { actions: ['s3:GetBucketNotification', 's3:PutBucketNotification'], resources });
    logGroup.grantWrite(role);
    const handler = new LambdaFunction(this, 'Function', {
      functionName,
      description,
      role,
      logGroup,
      code: Code.fromInline(HANDLER),
      handler: 'index.handler',
      runtime: Runtime.PYTHON_3_13,
      timeout: Duration.minutes(2),
    });
    acknowledge(handler, {
      'AwsSolutions-L1':
        'A newer Python would need a newer CDK in the apps of others; this one is supported until 2029.',
    });
    // The bucket's policy may admit only the VPC, and a policy of the organization may refuse functions outside one.
    connectToVpc(handler.node.defaultChild as CfnResource, role, settings);
    for (const [name, BucketName] of Object.entries(buckets)) {
      new CustomResource(this, name, {
        resourceType: 'Custom::CaptureNotifications',
        serviceToken: handler.functionArn,
        properties: { BucketName },
        // Deleting it would change nothing, but could fail: then the stack could not be deleted, and not even be rolled back.
        removalPolicy: RemovalPolicy.RETAIN,
      });
    }
  }
}
