"""What applications in Python do with the capture client: capture_cases.py CASE ENDPOINT S3 …. Each case prints what a test expects."""

import asyncio
import datetime
import gc
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "clients", "python"))

import aiobotocore.credentials
import aiobotocore.session
import boto3

from sagemaker_inference_monitor_capture import capture_all, capture_invocations

case, ENDPOINT, S3 = sys.argv[1:4]
place = {"region_name": "eu-west-1"}
key = {**place, "aws_access_key_id": "AKIDTEST", "aws_secret_access_key": "a-secret"}
s3 = boto3.client("s3", endpoint_url=S3, **key)


def make(**more):
    return boto3.client("sagemaker-runtime", endpoint_url=ENDPOINT, **{**key, **more})


def make_async(session=None, given=key):
    session = session or aiobotocore.session.get_session()
    return session.create_client("sagemaker-runtime", endpoint_url=ENDPOINT, **given)


def ask(client):
    return list(client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}")["Body"])


async def ask_async(client):
    body = (await client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}"))["Body"]
    return [event async for event in body]


def refused():
    """Another object than a client of the runtime, and than one of boto3 for S3."""
    client, making = make(), make_async()
    others = [s3, boto3.client("sagemaker", **key), boto3.Session(), making, None]
    for given in [(other, s3) for other in others] + [(client, client), (client, making), (client, object())]:
        try:
            capture_invocations(given[0], bucket="captures", s3=given[1])
        except TypeError as error:
            print(str(error).split(";")[0])
    making._coro.close()


def renewed():
    """Credentials of aiobotocore that renew themselves are asked for in the loop of the call, and serve after it."""
    os.environ["AWS_ENDPOINT_URL_S3"] = S3
    loops = []

    async def renew():
        loops.append(asyncio.get_running_loop())
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=30)
        return {"access_key": f"AKID{len(loops)}", "secret_key": "s", "token": "t", "expiry_time": soon.isoformat()}

    async def main():
        session = aiobotocore.session.get_session()
        create = aiobotocore.credentials.AioRefreshableCredentials.create_from_metadata
        session._credentials = create(await renew(), renew, "test")
        async with make_async(session, place) as client:
            captures = capture_invocations(client, bucket="captures", batch_seconds=600)
            await ask_async(client)
            # In the loop itself, which waits meanwhile.
            print(captures.flush()["written"])
            await ask_async(client)
            return captures, asyncio.get_running_loop()

    captures, loop = asyncio.run(main())
    stats = captures.flush()
    print(stats["written"], stats["last_error"], len(loops) > 2, set(loops) == {loop})


def cancelled():
    """A task that is cancelled in a stream has left it."""

    async def main():
        async with make_async() as client:
            captures = capture_invocations(client, bucket="captures", s3=s3)
            seen = asyncio.Event()

            async def read():
                async for _ in (await client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}"))["Body"]:
                    seen.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(read())
            await seen.wait()
            task.cancel()
            await asyncio.wait([task])
            del task
            # The loop closes the generators that it had.
            for _ in range(3):
                gc.collect()
                await asyncio.sleep(0.1)
            print(captures.flush()["written"])

    asyncio.run(main())


def everything():
    """All clients that are made later, in both SDKs, whoever makes them."""
    earlier = make()
    own = make()
    captured = capture_invocations(own, bucket="captures", prefix="own", s3=s3)
    captures = capture_all(bucket="captures", s3=s3)
    print(capture_all(bucket="another") is captures)
    clients = [earlier, own, make(), boto3.Session(region_name="eu-west-1").client("sagemaker-runtime", endpoint_url=ENDPOINT, **key)]
    for client in clients:
        ask(client)
    print(capture_invocations(clients[3], bucket="another") is captures)

    async def main():
        for _ in range(2):
            async with make_async() as client:
                await ask_async(client)

    asyncio.run(main())
    print(captures.flush()["written"], captured.flush()["written"])


def traced():
    """Beside X-Ray, which raises errors without a segment, and OpenTelemetry; they are set up before and after the captures."""
    from aws_xray_sdk.core import patch_all, xray_recorder
    from opentelemetry.instrumentation.botocore import BotocoreInstrumentor
    from opentelemetry.instrumentation.utils import is_instrumentation_enabled
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    def set_up():
        xray_recorder.configure(context_missing="RUNTIME_ERROR", emitter=Emitter(), sampling=False)
        patch_all()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        BotocoreInstrumentor().instrument(tracer_provider=provider)

    class Emitter:
        def send_entity(self, entity):
            segments.append([each.name for each in entity.subsegments])

    os.environ["AWS_ENDPOINT_URL_S3"] = S3
    spans, segments, seen = InMemorySpanExporter(), [], []
    if "before" in sys.argv:
        set_up()
    s3.meta.events.register("before-send.s3", lambda **_: seen.append(is_instrumentation_enabled()))
    client, another = make(), make()
    captures = [capture_invocations(client, bucket="captures"), capture_invocations(another, bucket="captures", s3=s3)]
    if "after" in sys.argv:
        set_up()
    with xray_recorder.in_segment("app"):
        ask(client)
        ask(another)
        # The application's own call is traced.
        s3.put_object(Bucket="own", Key="k", Body=b"")
        print([each.flush()["written"] for each in captures])
    print([each.stats()["last_error"] for each in captures])
    print(segments, [span.name for span in spans.get_finished_spans()], seen)
    print([f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01" for span in spans.get_finished_spans()][0])


globals()[case]()
