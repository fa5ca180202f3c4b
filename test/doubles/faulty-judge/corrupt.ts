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

const PROSE = 'The reply reads well and I see no problem with it, so my verdict is positive throughout.';
const BLOCKED = 'Sorry, the model cannot answer this question.';

/** Returns an answer with a fault. */
export function corrupt(answer: Answer, fault: AnswerFault): Answer {
  const { object, text, stopReason } = answer;
  const withObject = (changed: Record<string, unknown>): Answer => ({
    object: changed,
    text: JSON.stringify(changed),
    stopReason,
  });
  const without = (said: string, reason = stopReason): Answer => ({ object: {}, text: said, stopReason: reason });
  const fenced = `Here is my assessment.\n\n\`\`\`json\n${JSON.stringify(object, null, 2)}\n\`\`\`\nI hope this helps.`;
  switch (fault) {
    case 'fenced':
      return { ...answer, text: fenced };
    case 'sloppy-json':
      return { ...answer, text: `${text.replaceAll('"', "'").slice(0, -1)}, // done\n}` };
    case 'prose':
      return without(PROSE);
    case 'nonsense':
      return { ...answer, object: { '%%': [[]] }, text: '%%[[ }{ 7 <|im_end|> ]]' };
    case 'missing-keys':
      return withObject(Object.fromEntries(Object.entries(object).filter((_, index) => index % 2 === 0)));
    case 'wrong-value':
      return withObject(mapValues(object, () => 'maybe'));
    case 'wrong-language':
      return withObject(mapValues(object, (value) => GERMAN[String(value)] ?? `sozusagen ${String(value)}`));
    case 'empty':
      return without('');
    case 'cut':
      return cutOff(answer);
    case 'malformed':
      return without('', 'malformed_model_output');
    case 'guardrail':
      return without(BLOCKED, 'guardrail_intervened');
    case 'content-filtered':
      return without('', 'content_filtered');
    case 'context-exceeded':
      return without('', 'model_context_window_exceeded');
  }
}
