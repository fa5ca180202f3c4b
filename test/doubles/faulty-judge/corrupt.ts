/** The ways in which a fault can corrupt an answer. */
import { type Answer, cutOff } from '../../../local/stand-in-judge/answer.ts';
import type { AnswerFault } from './behavior.ts';

const mapValues = (object: Record<string, unknown>, change: (value: unknown) => unknown): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(object).map(([key, entry]) =>
      entry !== null && typeof entry === 'object' && 'value' in entry
        ? [key, { ...entry, value: change((entry as { value: unknown }).value) }]
        : [key, key === 'result' ? change(entry) : entry],
    ),
  );

const GERMAN: Record<string, string> = { yes: 'ja', no: 'nein', coherent: 'kohärent', incoherent: 'inkohärent' };

/** Returns an answer with a fault. */
export function corrupt({ object, text, stopReason }: Answer, fault: AnswerFault): Answer {
  const withObject = (changed: Record<string, unknown>): Answer => ({
    object: changed,
    text: JSON.stringify(changed),
    stopReason,
  });
  switch (fault) {
    case 'fenced':
      return {
        object,
        text: `Here is my assessment.\n\n\`\`\`json\n${JSON.stringify(object, null, 2)}\n\`\`\`\nI hope this helps.`,
        stopReason,
      };
    case 'sloppy-json':
      return { object, text: `${text.replaceAll('"', "'").slice(0, -1)}, // done\n}`, stopReason };
    case 'prose':
      return {
        object: {},
        text: 'The reply reads well and I see no problem with it, so my verdict is positive throughout.',
        stopReason,
      };
    case 'nonsense':
      return { object: { '%%': [[]] }, text: '%%[[ }{ 7 <|im_end|> ]]', stopReason };
    case 'missing-keys':
      return withObject(Object.fromEntries(Object.entries(object).filter((_, index) => index % 2 === 0)));
    case 'wrong-value':
      return withObject(mapValues(object, () => 'maybe'));
    case 'wrong-language':
      return withObject(mapValues(object, (value) => GERMAN[String(value)] ?? `sozusagen ${String(value)}`));
    case 'empty':
      return { object: {}, text: '', stopReason };
    case 'cut':
      return cutOff({ object, text, stopReason });
    case 'malformed':
      return { object: {}, text: '', stopReason: 'malformed_model_output' };
    case 'guardrail':
      return { object: {}, text: 'Sorry, the model cannot answer this question.', stopReason: 'guardrail_intervened' };
    case 'content-filtered':
      return { object: {}, text: '', stopReason: 'content_filtered' };
    case 'context-exceeded':
      return { object: {}, text: '', stopReason: 'model_context_window_exceeded' };
  }
}
