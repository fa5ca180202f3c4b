"""Counts the contents of S3 and MLflow after a fault, and acts as a person who works in MLflow at the same time.

It uses boto3 and MLflow's own Python client, and shares no code with the product. It computes lines, ids, tokens and both
equations from the capture files, the raw manifests and the raw receipts. Each line of standard input is a JSON command,
and each line of standard output an answer.
"""

import base64
import collections
import gc
import hashlib
import json
import sys
import warnings

# Nothing of a client that is imported is garbage, and looking for it takes a quarter of the time.
gc.disable()

import boto3
import mlflow
from mlflow.entities import AssessmentSource

gc.freeze()
gc.enable()

warnings.filterwarnings("ignore")

VERDICT_TERMS = (
    "newVerdicts",
    "alreadyThere",
    "duplicateLine",
    "evaluationOff",
    "notSampled",
    "notJudgeable",
    "heldByBudget",
    "failed",
)


def objects(s3, bucket, prefix):
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            yield entry["Key"], s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()


def capture_lines(s3, bucket, keys):
    for key in keys:
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        yield from (line.removesuffix(b"\r") for line in body.split(b"\n") if line.strip())


def record_of(line):
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("captureData"), dict) else None


def trace_id_of(experiment_id, line):
    return "tr-" + hashlib.sha256(experiment_id.encode() + b"\n" + line).hexdigest()[:32]


def tokens_of(record):
    """Returns the total that the captured reply reports, or 0 if it reports none."""
    side = record["captureData"].get("endpointOutput") or {}
    text = side.get("data", "")
    if side.get("encoding") == "BASE64":
        text = base64.b64decode(text).decode("utf-8", "replace")
    try:
        return json.loads(text)["usage"]["total_tokens"]
    except (ValueError, KeyError, TypeError):
        return 0


def traces_of(experiment_id):
    try:
        return mlflow.search_traces(locations=[experiment_id], max_results=50_000, return_type="list")
    except TypeError:
        return mlflow.search_traces(experiment_ids=[experiment_id], max_results=50_000, return_type="list")


def count(s3, command):
    """Counts the records, tokens and verdicts of the files in MLflow. Each must be there exactly once."""
    experiment = mlflow.get_experiment_by_name(command["experiment"])
    lines = list(capture_lines(s3, command["bucket"], command["keys"]))
    records = {}
    for line in lines:
        record = record_of(line)
        if record is not None:
            records[trace_id_of(experiment.experiment_id, line)] = record
    traces = traces_of(experiment.experiment_id)
    wanted_events = {record["eventMetadata"]["eventId"] for record in records.values()}
    own = [trace for trace in traces if trace.info.tags.get("event_id") in wanted_events]
    wrong, doubled, verdicts, human, judge_cost = [], [], 0, 0, 0.0
    failed_verdicts = 0
    for trace_id, times in collections.Counter(trace.info.trace_id for trace in own).items():
        if times != 1 or trace_id not in records:
            wrong.append(f"{trace_id}: found {times} times, expected: {trace_id in records}")
    for event, times in collections.Counter(trace.info.tags.get("event_id") for trace in own).items():
        if times != 1:
            wrong.append(f"event {event}: {times} traces")
    for trace in own:
        info, spans = trace.info, trace.data.spans if trace.data else []
        record = records.get(info.trace_id)
        if record is None:
            continue
        got = (info.token_usage or {}).get("total_tokens", 0)
        if got != tokens_of(record):
            wrong.append(f"{info.trace_id}: {got} tokens, expected {tokens_of(record)}")
        if len(spans) == 0 or len({span.span_id for span in spans}) != len(spans):
            wrong.append(f"{info.trace_id}: span ids {[span.span_id for span in spans]}")
        if sum(span.parent_id is None for span in spans) != 1:
            wrong.append(f"{info.trace_id}: {sum(span.parent_id is None for span in spans)} root spans")
        in_force = collections.Counter()
        for assessment in info.assessments or []:
            feedback = assessment.feedback
            if assessment.source.source_type == "HUMAN":
                human += 1
                continue
            judge_cost += float((assessment.metadata or {}).get("mlflow.assessment.judgeCost", 0))
            if assessment.valid is False:
                continue
            in_force[assessment.name] += 1
            if feedback is None or feedback.error is not None or feedback.value is None:
                failed_verdicts += 1
            else:
                verdicts += 1
        doubled += [f"{info.trace_id}: {times} of {name}" for name, times in in_force.items() if times > 1]
    found = {trace.info.trace_id for trace in own}
    return {
        "lines": len(lines),
        "records": len(records),
        "notRecords": sum(record_of(line) is None for line in lines),
        "traced": len(found & records.keys()),
        "missing": sorted(records.keys() - found),
        "wrong": wrong,
        "doubledVerdicts": doubled,
        "verdicts": verdicts,
        "failedVerdicts": failed_verdicts,
        "humanAssessments": human,
        "tokens": sum((trace.info.token_usage or {}).get("total_tokens", 0) for trace in own),
        "expectedTokens": sum(tokens_of(record) for record in records.values()),
        "judgeCost": judge_cost,
    }


def last_attempts(s3, bucket, run):
    """Returns the last successful attempt by (chunk, step, part), from the raw receipts, and the cost of all attempts."""
    last, usd, killed = {}, 0.0, {}
    receipts = [json.loads(body) for _, body in objects(s3, bucket, f"runs/{run}/receipts/")]
    # The receipt of an attempt that also wrote the traces contains that of the traces.
    receipts += [receipt["log"] for receipt in receipts if "log" in receipt]
    told = {receipt["requestId"] for receipt in receipts}
    for receipt in receipts:
        usd += (receipt.get("spend") or {}).get("usd") or 0
        # An attempt that left no receipt is in those of others.
        for by, spend in receipt.get("paidByOthers", {}).items():
            if by not in told:
                killed[receipt["chunk"], by] = max(killed.get((receipt["chunk"], by), 0), spend["usd"] or 0)
        part = receipt.get("part") or {"from": 0, "kills": 0}
        place = (receipt["chunk"], receipt["step"], part["from"])
        order = (part["kills"], receipt["attempt"])
        if receipt["ok"] and (place not in last or order >= last[place][0]):
            last[place] = (order, receipt)
    return {place: receipt for place, (_, receipt) in last.items()}, usd + sum(killed.values())


def manifest_of(s3, bucket, run):
    """Yields the chunks of a run. The receipt of each part of its plan names the manifest, or has the only chunk itself."""
    for _, body in objects(s3, bucket, f"runs/{run}/plan/"):
        plan = json.loads(body)
        if "chunk" in plan:
            yield plan["chunk"]
        elif "manifest" in plan:
            text = s3.get_object(Bucket=bucket, Key=plan["manifest"])["Body"].read()
            yield from (json.loads(line) for line in text.splitlines() if line.strip())


def equations(s3, command):
    """Computes both equations of a run from its objects in the work bucket, including the quarantine objects themselves."""
    bucket, run = command["workBucket"], command["run"]
    last, usd = last_attempts(s3, bucket, run)
    logs = [receipt for (_, step, _), receipt in last.items() if step == "log"]
    evaluations = [receipt for (_, step, _), receipt in last.items() if step == "evaluate"]
    counts = collections.Counter()
    for receipt in logs:
        counts.update(receipt["counts"])
    verdicts = collections.Counter()
    for receipt in evaluations:
        verdicts.update(receipt["counts"])
    quarantined = [
        json.loads(line)
        for _, body in objects(s3, bucket, f"quarantine/{run}/")
        for line in body.splitlines()
    ]
    return {
        "planned": sum(chunk["lines"] for chunk in manifest_of(s3, bucket, run)),
        "accounted": counts["traced"] + counts["quarantined"] + counts["outsideWindow"],
        "traced": counts["traced"],
        "quarantinedInReceipts": counts["quarantined"],
        "quarantinedInObjects": len(quarantined),
        "quarantineReasons": sorted({entry["reason"]["name"] for entry in quarantined}),
        "quarantinedLines": [base64.b64decode(entry.get("base64", "")).decode("utf-8", "replace") for entry in quarantined],
        "verdictsExpected": sum(receipt["log"]["counts"]["traced"] * receipt["scorers"] for receipt in evaluations),
        "verdictsAccounted": sum(verdicts[term] for term in VERDICT_TERMS),
        "usd": usd,
    }


def assessments(_, command):
    trace = mlflow.get_trace(command["traceId"])
    return [
        {
            "id": one.assessment_id,
            "name": one.name,
            "person": one.source.source_type == "HUMAN",
            "value": one.feedback.value if one.feedback else None,
            "valid": one.valid is not False,
        }
        for one in trace.info.assessments
    ]


PERSON = AssessmentSource(source_type="HUMAN", source_id="person@example.com")


def trace_ids(s3, command):
    experiment_id = mlflow.get_experiment_by_name(command["experiment"]).experiment_id
    return [
        trace_id_of(experiment_id, line)
        for line in capture_lines(s3, command["bucket"], command["keys"])
    ]


COMMANDS = {
    "count": count,
    "equations": equations,
    "assessments": assessments,
    "trace_ids": trace_ids,
    "feedback": lambda _, c: mlflow.log_feedback(
        trace_id=c["traceId"], name=c["name"], value=c["value"], source=PERSON
    ).assessment_id,
    "override": lambda _, c: mlflow.override_feedback(
        trace_id=c["traceId"], assessment_id=c["assessmentId"], value=c["value"], source=PERSON
    ).assessment_id,
    "delete_traces": lambda _, c: mlflow.MlflowClient().delete_traces(
        mlflow.get_experiment_by_name(c["experiment"]).experiment_id, trace_ids=c["traceIds"]
    ),
    "delete_experiment": lambda _, c: mlflow.MlflowClient().delete_experiment(c["experimentId"]),
    "restore_experiment": lambda _, c: mlflow.MlflowClient().restore_experiment(c["experimentId"]),
    "experiment": lambda _, c: mlflow.get_experiment_by_name(c["experiment"]).experiment_id,
}


def main():
    answers, sys.stdout = sys.stdout, sys.stderr  # Output of MLflow must not mix with the answers.
    s3 = boto3.client("s3")
    mlflow.set_tracking_uri(sys.argv[1])
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"result": COMMANDS[command["do"]](s3, command)}
        except Exception as error:  # The test reports it, and this process continues.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
