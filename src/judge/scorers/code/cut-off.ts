/** Detects replies that were cut off at the token limit. */
import type { CodeScorer } from '../../types.ts';

/** Finish reasons for the token limit: OpenAI (chat, Responses) and vLLM, TGI, Anthropic, Cohere and Gemini, TensorRT-LLM. */
const LENGTH_REASONS = new Set([
  'length',
  'max_tokens',
  'max_output_tokens',
  'error_limit',
  'max_new_tokens',
  'max_length',
  'model_length',
  'model_context_window_exceeded',
  'token_limit',
]);

export const cutOff: CodeScorer = {
  kind: 'code',
  name: 'cut_off',
  version: '1',
  fails: true,
  description:
    'Whether the endpoint says that the token limit ended the reply (`finish_reason` "length" or its equivalents), in ' +
    'any choice. It does not look at the text: a reply that stops in mid-sentence for another reason is not found, and ' +
    'without a finish reason, or on an error, it is not judgeable.',
  score(capture) {
    if (capture.error !== undefined) return { notJudgeable: 'errorReply' };
    const reasons = capture.conversation?.finishReasons ?? [];
    if (reasons.length === 0) return { notJudgeable: 'noFinishReason' };
    const cut = reasons.filter((reason) => LENGTH_REASONS.has(reason.toLowerCase()));
    if (cut.length === 0) return { value: false };
    return { value: true, rationale: `${cut.length} of ${reasons.length} choices ended by the limit: ${cut[0]}` };
  },
};
