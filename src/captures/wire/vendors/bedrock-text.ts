/** Reads the forms of Bedrock's models when they are invoked directly: Titan, Llama, Mistral, Claude 2. */
import type { JsonObject } from '../../json.ts';
import { answersIn, userMessages } from '../messages.ts';
import { fieldsOf, objectsIn, textIn, type WireFormat, without } from '../types.ts';

const PIECE_NAMES = ['outputText', 'generation', 'completion', 'text', 'outputs', 'results', 'response', 'generations'];

/** Reads a streamed piece of Titan, Llama, Claude 2, Cohere, Mistral or watsonx. Each has a field for the finish reason. */
function pieceOf(event: JsonObject): { text: string; reason: unknown } | undefined {
  for (const [list, name] of [
    ['outputs', 'text'],
    ['results', 'generated_text'],
  ] as const) {
    const [item, ...others] = objectsIn(event[list]);
    if (item !== undefined && others.length === 0 && typeof item[name] === 'string' && 'stop_reason' in item)
      return { text: item[name], reason: item.stop_reason };
  }
  for (const [name, reason] of [
    ['outputText', 'completionReason'],
    ['generation', 'stop_reason'],
    ['completion', 'stop_reason'],
  ] as const) {
    if (typeof event[name] === 'string' && reason in event) return { text: event[name], reason: event[reason] };
  }
  if (typeof event.is_finished !== 'boolean' || 'event_type' in event) return undefined;
  return { text: textIn(event.text), reason: event.finish_reason };
}

const isReason = (reason: unknown): boolean => typeof reason === 'string' && reason !== 'not_finished';

/** Reads `inputText` → `results[].outputText` and `prompt` → `generation`, `outputs[].text`, `completion`. */
export const bedrockText: WireFormat = {
  name: 'bedrock-text',
  format: 'completion',
  request(body) {
    if (typeof body.inputText !== 'string') return undefined;
    return {
      messages: userMessages([body.inputText]),
      parameters: { ...without(body, 'inputText', 'textGenerationConfig'), ...fieldsOf(body.textGenerationConfig) },
    };
  },
  reply: (body) =>
    answersIn(body.results, 'outputText', 'completionReason') ??
    answersIn(body.results, 'generated_text', 'stop_reason') ??
    answersIn(body.outputs, 'text', 'stop_reason') ??
    answersIn([body], 'generation', 'stop_reason') ??
    answersIn([body], 'completion', 'stop_reason'),
  delta(event) {
    const piece = pieceOf(event);
    return piece && { output: piece.text };
  },
  assemble(events) {
    const pieces = events.map(pieceOf).filter((piece) => piece !== undefined);
    // Lines that each have a finish reason are separate replies. Counts may follow the last piece.
    const reasons = pieces.map(({ reason }) => reason).filter(isReason);
    if (pieces.length < Math.max(2, events.length - 1) || reasons.length > 1) return undefined;
    const known = events.flatMap((event) => Object.entries(event).filter(([, value]) => value !== null));
    const answer = { generation: pieces.map(({ text }) => text).join(''), stop_reason: reasons[0] };
    const rest = without(Object.fromEntries(known), ...PIECE_NAMES);
    return { value: { ...rest, ...answer }, ended: reasons.length > 0 };
  },
  usage: {
    inputTokens: ['inputTextTokenCount', 'prompt_token_count', 'amazon-bedrock-invocationMetrics.inputTokenCount'],
    outputTokens: [
      ...['generation_token_count', 'totalOutputTextTokenCount', 'results.*.tokenCount'],
      'amazon-bedrock-invocationMetrics.outputTokenCount',
    ],
  },
};
