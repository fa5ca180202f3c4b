/** Captures for the judge's tests. */
import type { Capture, ChatMessage, ExchangeFacts, Payload } from '../../../src/captures/types.ts';
import { answerSchema } from '../../../src/judge/answer/answer-schema.ts';
import type { Feature } from '../../../src/judge/errors.ts';
import { buildPrompt, type Rung } from '../../../src/judge/prompt/build-prompt.ts';
import type { JudgeScorer } from '../../../src/judge/types.ts';
import { payload } from '../../helpers/captures.ts';

export interface ChatParts {
  system?: string;
  user?: string;
  reply?: string | null;
  messages?: ChatMessage[];
  replies?: ChatMessage[];
  tools?: unknown[];
}

/** Returns a chat, by default about parcels. */
export function chatCapture(parts: ChatParts = {}): Capture {
  const {
    system = 'You answer questions about parcel delivery.',
    user = 'Where is my parcel 8841?',
    reply = 'Your parcel 8841 is at the depot in Bern and will be delivered tomorrow.',
  } = parts;
  const asked = Object.entries({ system, user }).map(([role, content]) => ({ role, content }));
  const messages = parts.messages ?? asked;
  const replies = parts.replies ?? [{ role: 'assistant', content: reply }];
  return {
    inferenceTimeMs: Date.parse('2026-11-20T10:00:00Z'),
    timeSource: 'inferenceTime',
    format: 'chat',
    request: payload({ messages }),
    response: payload({ choices: replies.map((message) => ({ message })) }),
    conversation: {
      messages,
      replies,
      ...(parts.tools === undefined ? {} : { tools: parts.tools }),
      parameters: {},
      jsonRequested: false,
      finishReasons: ['stop'],
    },
    attributes: {},
    notes: [],
  };
}

/** Returns a chat that a replay sent. @param captured the line with the reply to compare with */
export const exchangeCapture = (captured: ExchangeFacts['captured'], parts: ChatParts = {}): Capture => ({
  ...chatCapture(parts),
  exchange: {
    ...{ requestId: 'r', run: 'run', target: 'e', startMs: 0, endMs: 1, scheduledMs: 0, status: 200 },
    ...{ file: 'f', line: 1, captured },
  },
});

/** Returns a capture without a conversation. */
export function plainCapture(fields: Partial<Capture> & Pick<Capture, 'format'>): Capture {
  return { inferenceTimeMs: 0, timeSource: 'inferenceTime', attributes: {}, notes: [], ...fields };
}

export const textPayload = (text: string, value: unknown = text): Payload =>
  payload(text, { contentType: 'text/plain', encoding: 'CSV', value });

export const TRACK_TOOL = {
  type: 'function',
  function: { name: 'track', parameters: { type: 'object', properties: { parcel: { type: 'string' } } } },
};

/** Returns a capture whose reply is one tool call without text. */
export const toolCallCapture = (name = 'track', args = '{"parcel":"8841"}'): Capture =>
  chatCapture({
    tools: [TRACK_TOOL],
    replies: [
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name, arguments: args } }],
      },
    ],
  });

/** Returns a scorer, by default one that is answered with yes or no. */
export const scorerOf = (name: string, more: Partial<JudgeScorer> = {}): JudgeScorer => ({
  ...{ kind: 'judge', name, version: '1', question: `Has the reply ${name}?`, values: { kind: 'yes-no' } },
  needs: ['reply'],
  ...more,
});

export const YES_NO_SCORERS: readonly JudgeScorer[] = ['safety', 'fluency'].map((name) => scorerOf(name));

/** Returns a chat completion that answers them and reports its usage. */
export const completionOf = (usage: unknown = { prompt_tokens: 500, completion_tokens: 50 }, content?: string) => {
  const entries = YES_NO_SCORERS.map(({ name }) => [name, { rationale: 'It does.', value: 'yes' }]);
  const message = { role: 'assistant', content: content ?? JSON.stringify(Object.fromEntries(entries)) };
  return { choices: [{ index: 0, message, finish_reason: 'stop' }], usage };
};

/** A request to a model that lacks one feature, or none. */
export const askOf = (lacking?: Feature, rung: Rung = 'json-schema') => ({
  prompt: buildPrompt(chatCapture(), YES_NO_SCORERS, rung),
  schema: answerSchema(YES_NO_SCORERS),
  maxTokens: 77,
  supports: (feature: Feature) => feature !== lacking,
});
