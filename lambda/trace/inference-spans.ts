/** The child spans of a call that carried inferences: one each. */
import { isObject } from '../capture/json.ts';
import type { Capture, Inference } from '../capture/types.ts';
import { childSpanIdOf } from './ids.ts';
import { cleanText, cleanValue } from './text.ts';
import type { SpanRecord } from './types.ts';

/** @param root of the trace; the children take its times and its status. */
export function inferenceSpans(capture: Capture, root: SpanRecord, traceId: string): SpanRecord[] {
  const isTalk = capture.conversation !== undefined;
  return (capture.inferences ?? []).map((inference) => ({
    spanId: childSpanIdOf(traceId, inference.index),
    parentSpanId: root.spanId,
    name: `inference ${inference.index}`,
    spanType: isTalk ? root.spanType : 'UNKNOWN',
    startTimeMs: root.startTimeMs,
    endTimeMs: root.endTimeMs,
    ...(isTalk ? talkOf(inference) : rowOf(inference)),
    attributes: {
      'inference.index': inference.index,
      ...(inference.inferenceId === '' ? {} : { 'inference.id': cleanText(inference.inferenceId) }),
      ...(isTalk ? { 'mlflow.message.format': 'openai' } : {}),
    },
    status: root.status,
  }));
}

function rowOf({ features, prediction }: Inference): Pick<SpanRecord, 'inputs' | 'outputs'> {
  return {
    ...(features === undefined ? {} : { inputs: cleanValue(features).value }),
    ...(prediction === undefined ? {} : { outputs: cleanValue(prediction).value }),
  };
}

/** One prompt of a batch, and its answer, as a conversation of their own. */
function talkOf({ features, prediction }: Inference): Pick<SpanRecord, 'inputs' | 'outputs'> {
  const prompt = isObject(features) && typeof features.prompt === 'string' ? features.prompt : '';
  const replies = Array.isArray(prediction) ? prediction : prediction === undefined ? [] : [prediction];
  const choices = replies.map((content, index) => ({
    index,
    message: { role: 'assistant', content: typeof content === 'string' ? cleanText(content) : content },
  }));
  return {
    inputs: { messages: [{ role: 'user', content: cleanText(prompt) }] },
    ...(choices.length > 0 ? { outputs: { choices } } : {}),
  };
}
