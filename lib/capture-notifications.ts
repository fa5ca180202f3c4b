/**
 * Has the existing capture bucket tell EventBridge of its objects. The CDK's custom resource adds that to whatever
 * notifications the bucket has, and leaves them as they are when the stack goes: another stack may need them.
 */
import { type CfnResource, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import type { Settings } from '../src/settings/schema.ts';
import { allow } from './access/allow.ts';

/** Where the CDK puts the function of the custom resource, one for a stack. */
const HANDLER_ID = 'BucketNotificationsHandler050a0587b7544547bf325f094a3db834';

export class CaptureNotifications extends Construct {
  constructor(scope: Construct, id: string, settings: Settings) {
    super(scope, id);
    const logGroup = new LogGroup(this, 'Logs', {
      retention: settings.LOG_RETENTION_DAYS,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    const role = new Role(this, 'Role', {
      description: `Switches EventBridge on for ${settings.DATA_CAPTURE_S3_BUCKET}`,
      assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    });
    const bucketArn = `arn:${Stack.of(this).partition}:s3:::${settings.DATA_CAPTURE_S3_BUCKET}`;
    allow(role, { actions: ['s3:GetBucketNotification', 's3:PutBucketNotification'], resources: [bucketArn] });
    logGroup.grantWrite(role);
    const bucket = Bucket.fromBucketAttributes(this, 'Bucket', {
      bucketName: settings.DATA_CAPTURE_S3_BUCKET,
      // The CDK would add the managed basic policy, which may write to every log group of the account.
      notificationsHandlerRole: role.withoutPolicyUpdates(),
    });
    bucket.enableEventBridgeNotification();
    // Nothing of ours is to be validated, and what others have broken in theirs must not stop this deployment.
    const notifications = bucket.node.findChild('Notifications').node.defaultChild as CfnResource;
    notifications.addPropertyOverride('SkipDestinationValidation', true);
    const handler = Stack.of(this).node.findChild(HANDLER_ID).node.defaultChild as CfnResource;
    // Its default log group has no retention, and outlives the stack.
    handler.addPropertyOverride('LoggingConfig', { LogGroup: logGroup.logGroupName });
  }
}
