"""Joins labels to captures with pandas. Standard input is JSON: the capture files, and the label files in the order of their time.
Prints {id: [label, prediction]}, both as they are written."""
import io
import json
import sys

import pandas as pd

given = json.load(sys.stdin)


def predictions():
    for name in given["captures"]:
        for line in open(name, encoding="utf-8"):
            record = json.loads(line)
            meta, reply = record["eventMetadata"], record["captureData"]["endpointOutput"]
            call = meta.get("inferenceId") or meta["eventId"]
            if reply["encoding"] == "CSV":
                values = pd.read_csv(io.StringIO(reply["data"]), header=None, dtype=str)[0].tolist()
            else:
                values = [str(row["predicted_label"]) for row in json.loads(reply["data"])["predictions"]]
            for index, value in enumerate(values):
                yield {"id": f"{call}_{index}" if len(values) > 1 else call, "prediction": value}


def records(name):
    for line in open(name, encoding="utf-8"):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if "groundTruthData" in record:
            record = {"id": record["eventMetadata"]["eventId"], "label": record["groundTruthData"]["data"]}
        yield record


def labels(name):
    table = pd.read_csv(name, dtype=str) if name.endswith(".csv") else pd.DataFrame(records(name))
    return table.rename(columns={"inference_id": "id"})[["id", "label"]].dropna().astype(str)


latest = pd.concat([labels(name) for name in given["labels"]]).drop_duplicates("id", keep="last")
joined = pd.DataFrame(predictions()).merge(latest, on="id", validate="one_to_one")
print(json.dumps({row.id: [row.label, row.prediction] for row in joined.itertuples()}))
