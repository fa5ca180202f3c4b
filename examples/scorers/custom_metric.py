"""The words of a sentence, on average."""

from sagemaker_inference_monitor_scorers import scorer, serve


@scorer
def custom_metric(outputs) -> float:
    sentences = [one for one in outputs.replace("!", ".").replace("?", ".").split(".") if one.strip()]
    return len(outputs.split()) / max(1, len(sentences))


handler = serve(custom_metric)
