/** Chat captures of typical length, each unique, and the same in every run. */

const SUBJECTS = ['roses', 'tomatoes', 'a lawn', 'an apple tree', 'lavender', 'a hedge', 'strawberries', 'a fern'];
const QUESTIONS = [
  'When should I water',
  'How do I prune',
  'Which soil suits',
  'How much sun needs',
  'What harms',
  'How do I winter',
];
const REPLIES = [
  'Early in the morning is best, because the water reaches the roots before the sun dries the soil.',
  'Cut back the weak stems first, keep the strongest ones, and always cut above a bud that faces outwards.',
  'A loose soil with some compost suits it well. Heavy clay can be mixed with sand so that water drains.',
  'Six hours of sun a day are enough. In the afternoon a little shade keeps the leaves from burning.',
];

const pick = <T>(list: readonly T[], n: number): T => list[n % list.length] as T;

/** Returns the capture line of the n-th record, about 1 KB. */
export function chatRecord(n: number): string {
  const request = {
    model: 'garden-assistant',
    messages: [
      {
        role: 'system',
        content: 'You are the assistant of a garden centre. Answer questions about plants in a friendly tone.',
      },
      {
        role: 'user',
        content: `${pick(QUESTIONS, n)} ${pick(SUBJECTS, Math.floor(n / 6))} in week ${(n % 52) + 1}? (ticket ${n})`,
      },
    ],
    max_tokens: 256,
    temperature: 0.3,
  };
  const content = `${pick(REPLIES, n)} ${pick(REPLIES, n + 1)} Reference ${n}.`;
  const response = {
    id: `chatcmpl-${n}`,
    object: 'chat.completion',
    model: 'garden-assistant',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 42, completion_tokens: 44, total_tokens: 86 },
  };
  const side = (mode: string, body: unknown) => ({
    observedContentType: 'application/json',
    mode,
    data: JSON.stringify(body),
    encoding: 'JSON',
  });
  return JSON.stringify({
    captureData: { endpointInput: side('INPUT', request), endpointOutput: side('OUTPUT', response) },
    eventMetadata: {
      eventId: `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`,
      inferenceTime: new Date(Date.UTC(2026, 10, 20, 10) + n * 100).toISOString().replace(/\.\d+/, ''),
    },
    eventVersion: '0',
  });
}

export const chatFile = (count: number, from = 0): string =>
  `${Array.from({ length: count }, (_, n) => chatRecord(from + n)).join('\n')}\n`;
