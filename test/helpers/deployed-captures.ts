/** Capture lines for tests, as Data Capture writes them. */
import { hash } from 'node:crypto';

export interface Side {
  contentType: string | null;
  data: string;
  encoding: 'JSON' | 'CSV' | 'BASE64';
}

export const json = (value: unknown): Side => ({
  contentType: 'application/json',
  data: JSON.stringify(value),
  encoding: 'JSON',
});
export const base64 = (value: string, contentType: string | null = 'application/json'): Side => ({
  contentType,
  data: Buffer.from(value).toString('base64'),
  encoding: 'BASE64',
});
export const csv = (data: string): Side => ({ contentType: 'text/csv', data, encoding: 'CSV' });

/** Returns one line. `name` determines the event id, so lines with different names differ. */
export function captureLine(name: string, time: string, input: Side | undefined, output: Side | undefined): string {
  const side = (mode: string, { contentType, data, encoding }: Side) => ({
    observedContentType: contentType,
    mode,
    data,
    encoding,
  });
  const hex = hash('sha256', name);
  const eventId = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join(
    '-',
  );
  return JSON.stringify({
    captureData: {
      ...(input ? { endpointInput: side('INPUT', input) } : {}),
      ...(output ? { endpointOutput: side('OUTPUT', output) } : {}),
    },
    eventMetadata: { eventId, inferenceTime: time },
    eventVersion: '0',
  });
}

export const chatRequest = (question: string) => ({
  model: 'garden-llm',
  messages: [
    { role: 'system', content: 'You help people look after their garden.' },
    { role: 'user', content: question },
  ],
  max_tokens: 200,
});
export const chatReply = (answer: string) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  model: 'garden-llm',
  choices: [{ index: 0, message: { role: 'assistant', content: answer }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 30, completion_tokens: 12, total_tokens: 42 },
});

/** Returns a chat with 42 tokens. */
export const chatLine = (name: string, time = '2026-11-20T10:00:00Z'): string =>
  captureLine(
    name,
    time,
    json(chatRequest(`When should I prune plant ${name}?`)),
    json(chatReply(`Prune plant ${name} in late winter, before new growth starts.`)),
  );

/** Returns a chat whose request names its caller. @param caller fields of the request, such as `user` */
export const callerLine = (name: string, caller: object, time = '2026-11-20T10:00:00Z', inferenceId?: string) => {
  const reply = json(chatReply(`Water plant ${name} in the morning.`));
  const record = JSON.parse(captureLine(name, time, json({ ...chatRequest(`Plant ${name}?`), ...caller }), reply));
  return JSON.stringify({ ...record, eventMetadata: { ...record.eventMetadata, inferenceId } });
};

/** Returns a line of each kind that the deployed path must trace, and one that is not a capture record. */
export function mixedLines(name: string, time = '2026-11-20T10:00:00Z'): string[] {
  return [
    chatLine(`${name}-chat`, time),
    captureLine(
      `${name}-base64`,
      time,
      base64(JSON.stringify(chatRequest('Which soil suits blueberries?'))),
      base64(JSON.stringify(chatReply('Acid soil, pH 4.5 to 5.5.'))),
    ),
    captureLine(
      `${name}-generation`,
      time,
      json({ inputs: 'Name three perennials.', parameters: { max_new_tokens: 40 } }),
      json({ generated_text: 'Lavender, sage and catmint.' }),
    ),
    captureLine(`${name}-csv`, time, csv('5.1,3.5,1.4\n6.2,2.9,4.3\n'), csv('0.97\n0.12\n')),
    captureLine(
      `${name}-error`,
      time,
      json(chatRequest('Why is this so long?')),
      base64('{"code":424,"message":"prediction failure"}', null),
    ),
    '{"captureData": {"endpointInput": "cut off',
  ];
}
