/**
 * Makes the existing capture bucket send events to EventBridge. The CDK's custom resource adds this to the bucket's other
 * notifications. Deleting the stack leaves it switched on, since another stack may need it.
 */
import { type CfnResource, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import type { Settings } from '../src/settings/schema.ts';
import { allow } from './access/allow.ts';
import { workKey } from './access/key.ts';
import { connectToVpc } from './vpc.ts';

/** The id of the custom resource's function, of which the CDK creates one per stack. */
const HANDLER_ID = 'BucketNotificationsHandler050a0587b7544547bf325f094a3db834';

export class CaptureNotifications extends Construct {
  constructor(scope: Construct, id: string, settings: Settings) {
    super(scope, id);
    const logGroup = new LogGroup(this, 'Logs', {
      retention: settings.LOG_RETENTION_DAYS,
      encryptionKey: workKey(this, settings),
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
      // The CDK would add the managed basic policy, which could write to every log group of the account.
      notificationsHandlerRole: role.withoutPolicyUpdates(),
    });
    bucket.enableEventBridgeNotification();
    // There is no destination of ours to validate, and a broken destination of somebody else must not stop the deployment.
    const notifications = bucket.node.findChild('Notifications').node.defaultChild as CfnResource;
    notifications.addPropertyOverride('SkipDestinationValidation', true);
    // Deleting it would change nothing, but fails if the bucket does not exist: then the stack could not be deleted, and not
    // even be rolled back.
    notifications.applyRemovalPolicy(RemovalPolicy.RETAIN);
    const handler = Stack.of(this).node.findChild(HANDLER_ID).node.defaultChild as CfnResource;
    // Its default log group has no retention time and is not deleted with the stack.
    handler.addPropertyOverride('LoggingConfig', { LogGroup: logGroup.logGroupName });
    // The bucket's policy may admit only the VPC, and a policy of the organization may refuse functions outside one.
    connectToVpc(handler, role, settings);
  }
}
