import json
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
