"""Computes AIPerf's own figures of what was under way (`effective_*`, `active_*`, `tokens_in_flight`) from a replay's records."""

import json
import pathlib
import sys

from aiperf.metrics.accumulator_sweeps import compute_sweep_curves
from aiperf.metrics.column_store import ColumnStore

NS_PER_MS = 1_000_000
STATISTICS = ("avg", "min", "max", "p50", "p90", "p95", "p99", "std")

store = ColumnStore()
lines = (pathlib.Path(sys.argv[1]) / "profile_export.jsonl").read_text().splitlines()
for index, line in enumerate(lines):
    record = json.loads(line)
    metrics = {tag: metric["value"] for tag, metric in record["metrics"].items()}
    started = float(record["metadata"]["request_start_ns"])
    first = metrics.get("time_to_first_token")
    kept = {tag: metrics[tag] for tag in ("input_sequence_length", "output_sequence_length") if tag in metrics}
    if "inter_chunk_latency" in metrics:
        kept["inter_chunk_latency"] = [gap * NS_PER_MS for gap in metrics["inter_chunk_latency"]]
    store.ingest(
        idx=index,
        record_metrics=kept,
        start_ns=started,
        end_ns=float(record["metadata"]["request_end_ns"]),
        generation_start_ns=None if first is None else started + first * NS_PER_MS,
    )
curves = compute_sweep_curves(store)
results = curves.compute_metrics(float(curves.concurrency_ts[0]), float(curves.concurrency_ts[-1]))
print(json.dumps({tag: {key: getattr(result, key) for key in STATISTICS} for tag, result in results.items()}))
