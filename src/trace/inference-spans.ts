/** The child spans of a call that carried inferences: one each. */
import { isObject } from '../formats/json.ts';
import type { Capture, Inference } from '../formats/types.ts';
import { childSpanIdOf } from './ids.ts';
import type { Storer } from './storable.ts';
import { fitted } from './text.ts';
import type { SpanRecord } from './types.ts';

/** @param root of the trace; the children take its times and its status. */
export function inferenceSpans(capture: Capture, root: SpanRecord, traceId: string, storer: Storer): SpanRecord[] {
  const isTalk = capture.conversation !== undefined;
  return (capture.inferences ?? []).map((inference) => ({
    spanId: childSpanIdOf(traceId, inference.index),
    parentSpanId: root.spanId,
    name: `inference ${inference.index}`,
    spanType: isTalk ? root.spanType : 'UNKNOWN',
    startTimeMs: root.startTimeMs,
    endTimeMs: root.endTimeMs,
    ...stored(isTalk ? talkOf(inference) : rowOf(inference), storer),
    attributes: {
      'inference.index': inference.index,
      ...(inference.inferenceId === '' ? {} : { 'inference.id': fitted(inference.inferenceId) }),
      ...(isTalk ? { 'mlflow.message.format': 'openai' } : {}),
    },
    status: root.status,
  }));
}

type Values = Pick<SpanRecord, 'inputs' | 'outputs'>;

const stored = ({ inputs, outputs }: Values, storer: Storer): Values => ({
  ...(inputs === undefined ? {} : { inputs: storer.store(inputs) }),
  ...(outputs === undefined ? {} : { outputs: storer.store(outputs) }),
});

const rowOf = ({ features, prediction }: Inference): Values => ({ inputs: features, outputs: prediction });

/** One prompt of a batch, and its answer, as a conversation of their own. */
function talkOf({ features, prediction }: Inference): Values {
  const prompt = isObject(features) && typeof features.prompt === 'string' ? features.prompt : '';
  const replies = Array.isArray(prediction) ? prediction : prediction === undefined ? [] : [prediction];
  const choices = replies.map((content, index) => ({
    index,
    message: { role: 'assistant', content: content },
  }));
  return {
    inputs: { messages: [{ role: 'user', content: prompt }] },
    ...(choices.length > 0 ? { outputs: { choices } } : {}),
  };
}
