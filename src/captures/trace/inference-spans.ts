/** Builds the child spans of a call with several inferences, one for each. */
import { isObject } from '../json.ts';
import type { Capture, Inference } from '../types.ts';
import { childSpanIdOf } from './ids.ts';
import type { Storer } from './storable.ts';
import { fitted } from './text.ts';
import type { SpanRecord } from './types.ts';

/** @param root the root span of the trace, from which the children copy times and status */
export function inferenceSpans(capture: Capture, root: SpanRecord, traceId: string, storer: Storer): SpanRecord[] {
  const isConversation = capture.conversation !== undefined;
  return (capture.inferences ?? []).map((inference) => ({
    spanId: childSpanIdOf(traceId, inference.index),
    parentSpanId: root.spanId,
    name: `inference ${inference.index}`,
    spanType: isConversation ? root.spanType : 'UNKNOWN',
    startTimeMs: root.startTimeMs,
    endTimeMs: root.endTimeMs,
    ...stored(isConversation ? conversationOf(inference) : rowOf(inference), storer),
    attributes: {
      'inference.index': inference.index,
      ...(inference.inferenceId === '' ? {} : { 'inference.id': fitted(inference.inferenceId) }),
      ...(isConversation ? { 'mlflow.message.format': 'openai' } : {}),
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

/** Returns one prompt of a batch and its answer as a separate conversation. */
function conversationOf({ features, prediction }: Inference): Values {
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
