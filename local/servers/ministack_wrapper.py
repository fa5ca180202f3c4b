"""Starts MiniStack, the emulated AWS, with Lambda's error names restored and with support for alarms on metric math.

On AWS, Step Functions gets the name that a failed function gave its error, and a Retry or a Catch matches that name.
MiniStack reports every error of a Node function as `Runtime.HandlerError` and a throttled invocation as `Lambda.Unknown`, so
a Retry by name never applies. This file verifies each place that it changes. If MiniStack differs from what it expects, it
does not start, because a run without these names proves nothing.

1. The script of the Node workers includes the error's name and stack in the message.
2. `lambda_svc._execute_function_warm` extracts them and answers like Lambda's Node runtime:
   {"errorType", "errorMessage", "trace"}.
3. `stepfunctions._call_lambda` reports a throttled call as `Lambda.TooManyRequestsException`.
4. MiniStack's CloudFormation rejects an alarm on metric math. Such an alarm is created on a metric that nothing emits, so that
   the stack deploys as on AWS. It never fires in the emulator.
5. A stack is created within a second, but the CDK CLI polls every five. The request is therefore answered once the stack exists.

6. SageMaker's DescribeEndpoint, which MiniStack lacks, knows the endpoints whose invocations somebody has put into CloudWatch
   (AWS/SageMaker, Invocations, by EndpointName and VariantName), as endpoints with Data Capture of all requests.
7. GetMetricData gives the times of values as numbers in JSON, as on AWS.

The tests name a file in REQUEST_RECORDER, which writes down every request (decision 0072).
"""

import asyncio
import functools
import importlib.metadata
import json
import os
import re
import runpy
import sys

KNOWN_VERSION = "1.5.33"

# Unit separators around JSON. They do not occur in error messages and survive JSON lines.
MARK = "\x1f"
MARKED = re.compile(MARK + "(.*?)" + MARK, re.DOTALL)

# The error replies of the Node workers and their replacements: invocation (asynchronous and synchronous), init.
NODE_REPLIES = [
    ("error: String(err.message || err), trace:", "error: _named(err), trace:"),
    ("error: e.message, trace: e.stack", "error: _named(e), trace: e.stack"),
    ("error: e.message\n", "error: _named(e)\n"),
]

# Describes an error like Lambda's own Node runtime. The thrown value may have any type.
NODE_PRELUDE = r"""
function _named(thrown) {
  const isError = thrown instanceof Error || Object.prototype.toString.call(thrown) === "[object Error]";
  const facts = isError
    ? { errorType: String(thrown.name || "Error"), trace: String(thrown.stack || "").split("\n") }
    : { errorType: typeof thrown, trace: [] };
  const message = isError ? String(thrown.message) : String(thrown);
  return "\u001f" + JSON.stringify(facts) + "\u001f" + message;
}
"""

# Lambda's name for a runtime that ended without an answer: killed, out of memory, process.exit.
DIED = "Worker process died"

# If a custom resource does not answer in time, the request returns and the CLI polls as usual.
STACK_LIMIT_S = 20


def give_up(what):
    version = importlib.metadata.version("ministack")
    sys.exit(
        f"MiniStack {version} differs from what local/servers/ministack_wrapper.py expects; got: {what}; "
        f"expected: ministack=={KNOWN_VERSION}. Pin that version in local/python/python-presets.ts, or adapt the wrapper."
    )


def replace_once(text, old, new):
    if text.count(old) != 1:
        give_up(f"{old!r} occurs {text.count(old)} times in the script of its Node workers")
    return text.replace(old, new)


def name_errors_in_node(lambda_runtime):
    script = lambda_runtime._NODEJS_WORKER_SCRIPT
    for old, new in NODE_REPLIES:
        script = replace_once(script, old, new)
    lambda_runtime._NODEJS_WORKER_SCRIPT = NODE_PRELUDE + script


def take_out_names(result):
    """Converts the error body of an invocation to the body that Lambda would return."""
    body = result.get("body") if result.get("error") else None
    if not isinstance(body, dict) or "errorMessage" not in body:
        return result
    message = body["errorMessage"]
    found = MARKED.search(message)
    if found:
        facts = json.loads(found.group(1))
        body = {"errorType": facts["errorType"], "errorMessage": message[found.end() :], "trace": facts["trace"]}
    elif message == DIED:
        body = {"errorType": "Runtime.ExitError", "errorMessage": "Runtime exited without providing a reason"}
    result = {**result, "body": body}
    if result.get("log"):
        result["log"] = MARKED.sub("", result["log"])
    return result


def name_errors_in_lambda(lambda_svc):
    execute = lambda_svc._execute_function_warm

    @functools.wraps(execute)
    def execute_and_name(*args, **kwargs):
        return take_out_names(execute(*args, **kwargs))

    lambda_svc._execute_function_warm = execute_and_name


def name_throttles_in_step_functions(stepfunctions):
    call = stepfunctions._call_lambda

    @functools.wraps(call)
    def call_and_name(func_ref, event):
        try:
            return call(func_ref, event)
        except stepfunctions._ExecutionError as error:
            if error.error == "Lambda.Unknown" and "TooManyRequestsException" in error.cause:
                raise stepfunctions._ExecutionError("Lambda.TooManyRequestsException", error.cause) from error
            raise

    stepfunctions._call_lambda = call_and_name


def accept_metric_math(provisioners):
    make = provisioners._cw_metric_alarm_record

    @functools.wraps(make)
    def make_on_no_metric(name, props):
        stats = [entry["MetricStat"] for entry in props.get("Metrics") or [] if "MetricStat" in entry]
        if stats:
            plain = {key: value for key, value in props.items() if key != "Metrics"}
            metric = {**stats[0]["Metric"], "MetricName": "Metric math"}
            props = {**plain, **metric, "Statistic": stats[0]["Stat"], "Period": stats[0]["Period"]}
        return make(name, props)

    provisioners._cw_metric_alarm_record = make_on_no_metric


def answer_when_stack_is_made(cloudformation):
    handle = cloudformation.handle_request

    @functools.wraps(handle)
    async def handle_and_wait(*args, **kwargs):
        before = asyncio.all_tasks()
        response = await handle(*args, **kwargs)
        # The handler schedules one task, which creates the stack.
        making = asyncio.all_tasks() - before
        if making:
            await asyncio.wait(making, timeout=STACK_LIMIT_S)
        return response

    cloudformation.handle_request = handle_and_wait


# Longer ago than anybody asks: the configuration of an endpoint has not changed.
UNCHANGED_SINCE = 1_700_000_000


JSON = {"Content-Type": "application/x-amz-json-1.1"}


def describe_endpoint(cloudwatch, operation, name):
    """Answers for an endpoint whose invocations are known, and else as MiniStack does for services that it lacks."""
    variants = set()
    for (namespace, metric, _), points in cloudwatch._metrics.items():
        found = points[0]["Dimensions"] if points else {}
        if (namespace, metric, found.get("EndpointName")) == ("AWS/SageMaker", "Invocations", name):
            variants.add(found.get("VariantName", "AllTraffic"))
    if operation != "DescribeEndpoint" or not variants:
        return 400, dict(JSON), b'{"error": "Unsupported service: sagemaker"}'
    endpoint = {
        "EndpointName": name,
        "EndpointArn": f"arn:aws:sagemaker:us-east-1:000000000000:endpoint/{name}",
        "EndpointConfigName": name,
        "EndpointStatus": "InService",
        "CreationTime": UNCHANGED_SINCE,
        "LastModifiedTime": UNCHANGED_SINCE,
        "ProductionVariants": [{"VariantName": variant} for variant in sorted(variants)],
        "DataCaptureConfig": {
            "EnableCapture": True,
            "CaptureStatus": "Started",
            "CurrentSamplingPercentage": 100,
            "DestinationS3Uri": f"s3://sagemaker-captures/{name}",
        },
    }
    return 200, dict(JSON), json.dumps(endpoint).encode()


def know_endpoints(router, app, cloudwatch):
    async def handle_sagemaker(method, path, headers, body, query_params):
        operation = headers.get("x-amz-target", "").split(".")[-1]
        return describe_endpoint(cloudwatch, operation, json.loads(body or "{}").get("EndpointName"))

    router.SERVICE_PATTERNS["sagemaker"] = {"target_prefixes": ["SageMaker."]}
    app.SERVICE_HANDLERS["sagemaker"] = handle_sagemaker


def give_times_as_numbers(cloudwatch):
    get = cloudwatch._get_metric_data

    @functools.wraps(get)
    def get_and_number(params, cbor_data, is_cbor, is_json=False):
        status, headers, body = get(params, cbor_data, is_cbor, is_json)
        if not is_json or status != 200:
            return status, headers, body
        reply = json.loads(body)
        for result in reply["MetricDataResults"]:
            result["Timestamps"] = [cloudwatch._parse_ts(time) for time in result["Timestamps"]]
        return status, headers, json.dumps(reply).encode()

    cloudwatch._get_metric_data = get_and_number


def main():
    from ministack import app
    from ministack.core import lambda_runtime, router
    from ministack.services import cloudformation, cloudwatch, lambda_svc, stepfunctions
    from ministack.services.cloudformation import provisioners

    for module, name in (
        (lambda_runtime, "_NODEJS_WORKER_SCRIPT"),
        (lambda_svc, "_execute_function_warm"),
        (stepfunctions, "_call_lambda"),
        (stepfunctions, "_ExecutionError"),
        (provisioners, "_cw_metric_alarm_record"),
        (cloudformation, "handle_request"),
        (cloudwatch, "_get_metric_data"),
        (cloudwatch, "_metrics"),
        (cloudwatch, "_parse_ts"),
        (router, "SERVICE_PATTERNS"),
        (app, "SERVICE_HANDLERS"),
    ):
        if not hasattr(module, name):
            give_up(f"{module.__name__} has no {name}")
    name_errors_in_node(lambda_runtime)
    name_errors_in_lambda(lambda_svc)
    name_throttles_in_step_functions(stepfunctions)
    accept_metric_math(provisioners)
    answer_when_stack_is_made(cloudformation)
    know_endpoints(router, app, cloudwatch)
    give_times_as_numbers(cloudwatch)
    recorder = os.environ.get("REQUEST_RECORDER")
    if recorder:
        runpy.run_path(recorder)["install"]()

    app.main()


if __name__ == "__main__":
    main()
