"""Compares every line that the soak uploaded with MLflow and the quarantine.

Reads S3 with boto3 and MLflow's database with SQL, and shares no code with the product. The only argument is JSON:
{"bucket", "workBucket", "experiment", "database", "expected", "settledRuns"}. The answer is JSON on standard output. Its
"problems" are empty if no check fails.
"""

import base64
import collections
import contextlib
import io
import json
import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "helpers"))
with contextlib.redirect_stdout(sys.stderr):  # Output of MLflow must not mix with the answer.
    import boto3
    import pandas
    from pyarrow import parquet
    from fault_reader import VERDICT_TERMS, equations, last_attempts, manifest_of, objects, record_of, tokens_of, trace_id_of

# The number of examples that are printed for each problem.
SHOWN = 5


class Problems:
    def __init__(self):
        self.found = collections.defaultdict(list)

    def add(self, what, which):
        self.found[what].append(str(which))

    def told(self):
        return [f"{what}: {len(which)}, such as {which[:SHOWN]}" for what, which in self.found.items()]


class Line:
    """A line in the bucket: its place and its expected outcome."""

    __slots__ = ("key", "start", "raw", "trace_id", "tokens", "event", "wants_verdicts")

    def __init__(self, key, start, raw, experiment_id):
        self.key, self.start = key, start
        record = record_of(raw)
        self.trace_id = None if record is None else trace_id_of(experiment_id, raw)
        self.raw = raw if record is None else None
        self.tokens = 0 if record is None else tokens_of(record)
        self.event = None if record is None else record["eventMetadata"].get("eventId")
        reply = None if record is None else record["captureData"].get("endpointOutput")
        self.wants_verdicts = reply is not None and '"chat.completion"' in reply["data"]


def lines_of(s3, bucket, experiment_id):
    for key, body in objects(s3, bucket, ""):
        start = 0
        for line in body.split(b"\n"):
            if line.strip():
                yield Line(key, start, line.removesuffix(b"\r"), experiment_id)
            start += len(line) + 1


def check_lines(lines, expected, problems):
    records = {line.trace_id for line in lines if line.trace_id}
    bad = sum(line.trace_id is None for line in lines)
    got = {"lines": len(lines), "bad": bad, "records": len(records)}
    if got != expected:
        problems.add("the bucket does not contain what was generated", f"{got}, expected {expected}")


def check_traces(db, experiment_id, lines, problems):
    """Checks that every record has one trace with its tokens, event id and one root span, and that no other traces exist."""
    wanted = {line.trace_id: line for line in lines if line.trace_id}
    found = collections.Counter()
    tokens = 0
    for trace_id, total in db.execute(
        "SELECT request_id, total_tokens FROM trace_info WHERE experiment_id = ?", (experiment_id,)
    ):
        found[trace_id] += 1
        tokens += total or 0
        line = wanted.get(trace_id)
        if line is None:
            problems.add("a trace without a record", trace_id)
        elif (total or 0) != line.tokens:
            problems.add("tokens", f"{trace_id}: {total}, expected {line.tokens}")
    for trace_id, line in wanted.items():
        if found[trace_id] != 1:
            problems.add(f"a record with {found[trace_id]} traces", f"{trace_id} of {line.key} at {line.start}")
    roots = collections.Counter(
        dict(db.execute("SELECT trace_id, count(*) FROM spans WHERE parent_span_id IS NULL GROUP BY trace_id"))
    )
    for trace_id in found:
        if roots[trace_id] != 1:
            problems.add("not one root span", f"{trace_id}: {roots[trace_id]}")
    events = dict(db.execute("SELECT request_id, value FROM trace_tags WHERE key = 'event_id'"))
    for trace_id, line in wanted.items():
        if trace_id in found and events.get(trace_id) != line.event:
            problems.add("event id", f"{trace_id}: {events.get(trace_id)}, expected {line.event}")
    for event, times in collections.Counter(events.values()).items():
        if times != 1:
            problems.add("an event with several traces", f"{event}: {times}")
    return {"traces": len(found), "tokens": tokens}, found.keys()


def check_quarantine(s3, work_bucket, lines, traces, problems):
    """Checks that invalid lines are in quarantine with bytes and reason, and that other quarantined lines have a trace."""
    entries = {}
    reasons = collections.Counter()
    for _, body in objects(s3, work_bucket, "quarantine/"):
        for text in body.splitlines():
            entry = json.loads(text)
            entries[(entry["key"], entry["start"])] = entry
            reasons[entry["reason"]["name"]] += 1
            if not entry["reason"].get("message"):
                problems.add("quarantined without a reason", entry)
    by_place = {(line.key, line.start): line for line in lines}
    came_back = 0
    for place, entry in entries.items():
        line = by_place.get(place)
        if line is None:
            problems.add("a quarantine entry without a line", place)
        elif line.trace_id is None:
            if base64.b64decode(entry["base64"]) != line.raw:
                problems.add("quarantined with different bytes", place)
        elif line.trace_id in traces:
            came_back += 1
        else:
            problems.add("a record still in quarantine", f"{place}: {entry['reason']}")
    for place, line in by_place.items():
        if line.trace_id is None and place not in entries:
            problems.add("a bad line that is not in quarantine", f"{place}: {line.raw[:80]}")
    return {"entriesOfAllRuns": dict(reasons), "linesThatCameBack": came_back}


def check_verdicts(db, lines, traces, problems):
    """Checks that each scorer has one valid verdict on a trace and no error, and that only evaluated traces have verdicts."""
    evaluated = {line.trace_id: line for line in lines if "/delivered-" in line.key and line.trace_id in traces}
    in_force, judged = collections.Counter(), set()
    names = collections.defaultdict(set)
    for trace_id, name, error, source in db.execute(
        "SELECT trace_id, name, error, source_type FROM assessments WHERE valid = 1"
    ):
        in_force[(trace_id, name)] += 1
        names[trace_id].add(name)
        if source == "LLM_JUDGE":
            judged.add(trace_id)
        if error is not None and error != "null":
            problems.add("an error in place of a verdict", f"{trace_id} {name}: {error}")
        if trace_id not in evaluated:
            problems.add("a verdict on a trace that was not evaluated", f"{trace_id} {name}")
    for (trace_id, name), times in in_force.items():
        if times != 1:
            problems.add("several valid verdicts of one scorer", f"{trace_id} {name}: {times}")
    for trace_id, line in evaluated.items():
        if line.wants_verdicts and "response_words" not in names[trace_id]:
            problems.add("a chat without a code scorer's verdict", trace_id)
    for trace_id in judged:
        if not {"safety", "fluency"} <= names[trace_id]:
            problems.add("a judged trace without all of the judge's verdicts", f"{trace_id}: {sorted(names[trace_id])}")
    return {"verdicts": len(in_force), "evaluatedTraces": len(evaluated), "judgedTraces": len(judged)}, names


def check_runs(s3, work_bucket, problems):
    """Checks both equations of every summary, and compares the summary with the raw receipts."""
    statuses, usd = collections.Counter(), 0.0
    keys = [key for key, _ in list_keys(s3, work_bucket, "runs/") if key.endswith("/summary.json")]
    for key in keys:
        summary = json.loads(s3.get_object(Bucket=work_bucket, Key=key)["Body"].read())
        run, lines, verdicts = summary["run"], summary["lines"], summary["verdicts"]
        statuses[summary["status"]] += 1
        if lines["planned"] != lines["traced"] + lines["quarantined"] + lines["outsideWindow"] + lines["lost"]:
            problems.add("lines that do not add up", f"{run}: {lines}")
        if verdicts["expected"] != sum(verdicts[term] for term in VERDICT_TERMS):
            problems.add("verdicts that do not add up", f"{run}: {verdicts}")
        if summary["status"] == "succeeded" and (lines["lost"] or verdicts["lost"]):
            problems.add("a run that succeeded with losses", run)
        raw = equations(s3, {"workBucket": work_bucket, "run": run})
        usd += raw["usd"]
        if raw["planned"] != lines["planned"] or raw["accounted"] + lines["lost"] != raw["planned"]:
            problems.add("a summary that differs from the sum of its receipts", f"{run}: {raw} {lines}")
        if raw["verdictsAccounted"] != raw["verdictsExpected"]:
            problems.add("receipts whose verdicts do not add up", f"{run}: {raw}")
        if summary["status"] == "succeeded" and raw["quarantinedInObjects"] != raw["quarantinedInReceipts"]:
            problems.add("a quarantine that differs from the receipts", f"{run}: {raw}")
    return {"runs": dict(statuses), "usdOfAllRuns": round(usd, 4)}


def list_keys(s3, bucket, prefix):
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            yield entry["Key"], entry["Size"]


def ranges_of(s3, work_bucket, chunk):
    """The ranges of a chunk, which a long line of the manifest only refers to."""
    if "rangesIn" not in chunk:
        return chunk["ranges"]
    return json.loads(s3.get_object(Bucket=work_bucket, Key=chunk["rangesIn"])["Body"].read())


def check_settled(s3, work_bucket, runs, lines, names, problems):
    """Checks that the last runs over the same files found everything done and changed nothing."""
    by_key = collections.defaultdict(list)
    for line in lines:
        by_key[line.key].append(line)
    for run in runs:
        chunks = {chunk["chunk"]: chunk for chunk in manifest_of(s3, work_bucket, run)}
        last, usd = last_attempts(s3, work_bucket, run)
        if usd:
            problems.add("a settled run that paid the judge", f"{run}: {usd}")
        by_chunk = collections.defaultdict(collections.Counter)
        for (number, step, _), receipt in last.items():
            by_chunk[number, step].update(receipt["counts"])
        for (number, step), counts in by_chunk.items():
            chunk = chunks[number]
            if step == "log" and counts["written"]:
                problems.add("a settled run that wrote traces", f"{run} chunk {number}: {counts}")
            if step != "evaluate":
                continue
            if counts["newVerdicts"] or counts["failed"]:
                problems.add("a settled run with new or failed verdicts", f"{run} chunk {number}: {counts}")
            ids = {
                line.trace_id
                for part in ranges_of(s3, work_bucket, chunk)
                for line in by_key[part["key"]]
                if part["start"] <= line.start <= part["end"]
            }
            stored = sum(len(names[trace_id]) for trace_id in ids if trace_id)
            if stored != counts["alreadyThere"]:
                problems.add("verdicts stored and reported differ", f"{run} chunk {number}: {stored} and {counts['alreadyThere']}")


# The outcomes of a trace, and of a verdict, that the ledger may have of what MLflow has.
TRACED = {"traced", "alreadyThere"}


def table_of(s3, work_bucket, name):
    """All rows of a table of the ledger."""
    parts = [
        parquet.read_table(io.BytesIO(body)).to_pandas()
        for key, body in objects(s3, work_bucket, f"ledger/{name}/")
        if key.endswith(".parquet")
    ]
    return pandas.concat(parts, ignore_index=True)


def check_ledger(s3, work_bucket, db, lines, traces, problems):
    """Checks that the rows of highest precedence are what MLflow and the bucket have, one by one."""
    captures = table_of(s3, work_bucket, "captures").sort_values(["precedence", "attempt"])
    by_trace = captures[captures.trace_id.notna()].drop_duplicates("trace_id", keep="last").set_index("trace_id")
    known = set(by_trace.index[by_trace.outcome.isin(TRACED)])
    for trace_id in traces - known:
        problems.add("a trace that the ledger does not have", trace_id)
    for trace_id in known - traces:
        problems.add("a trace of the ledger that MLflow does not have", trace_id)
    places = captures[captures.trace_id.isna()].drop_duplicates(["key", "start"], keep="last")
    quarantined = {(key, int(start)) for key, start in places[places.outcome == "quarantined"][["key", "start"]].values}
    bad = {(line.key, line.start) for line in lines if line.trace_id is None}
    for place in quarantined ^ bad:
        problems.add("a place in quarantine in the ledger alone, or not in it", place)
    verdicts = table_of(s3, work_bucket, "verdicts").sort_values(["precedence", "attempt"])
    in_force = verdicts.drop_duplicates(["trace_id", "scorer"], keep="last")
    given = in_force[in_force.state == "given"]
    told = {(row.trace_id, row.scorer): row.number if row.number == row.number else row.value for row in given.itertuples()}
    stored = {
        (trace_id, name): json.loads(value)
        for trace_id, name, value in db.execute(
            "SELECT trace_id, name, value FROM assessments WHERE valid = 1 AND value IS NOT NULL"
        )
    }
    for subject in told.keys() | stored.keys():
        ours, theirs = told.get(subject), stored.get(subject)
        same = ours == theirs or str(ours).lower() == str(theirs).lower()
        if not same:
            problems.add("a verdict of the ledger that differs from MLflow's", f"{subject}: {ours} and {theirs}")
    paid = verdicts.drop_duplicates(["run", "key", "start", "scorer", "trace_id"], keep="last").usd.sum()
    return {"ledger": {"rows": len(captures), "traces": len(known), "verdicts": len(told), "usd": round(float(paid), 4)}}


def main():
    question = json.loads(sys.argv[1])
    s3 = boto3.client("s3")
    db = sqlite3.connect(f"file:{question['database']}?mode=ro", uri=True)
    db.execute("PRAGMA query_only = ON")
    (experiment_id,) = db.execute(
        "SELECT experiment_id FROM experiments WHERE name = ?", (question["experiment"],)
    ).fetchone()
    problems = Problems()
    lines = list(lines_of(s3, question["bucket"], str(experiment_id)))
    check_lines(lines, question["expected"], problems)
    stored, traces = check_traces(db, experiment_id, lines, problems)
    quarantine = check_quarantine(s3, question["workBucket"], lines, traces, problems)
    verdicts, names = check_verdicts(db, lines, traces, problems)
    ledger = check_ledger(s3, question["workBucket"], db, lines, set(traces), problems)
    runs = check_runs(s3, question["workBucket"], problems)
    check_settled(s3, question["workBucket"], question["settledRuns"], lines, names, problems)
    print(
        json.dumps(
            {
                "generated": question["expected"],
                **stored,
                "quarantine": quarantine,
                **verdicts,
                **ledger,
                **runs,
                "problems": problems.told(),
            }
        )
    )


if __name__ == "__main__":
    main()
