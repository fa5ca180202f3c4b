/**
 * Renders the record, a captured exchange as the judge reads it. Every heading starts with `#` and a random code. Captured
 * texts are between headings and cannot contain the code, so they can neither close the record nor imitate a heading.
 */
import { randomBytes } from 'node:crypto';
import type { ChatMessage, ToolCall } from '../../formats/types.ts';
import type { JudgeableExchange } from '../scorers/applicability.ts';
import { cutMiddle, divideBound } from './cut.ts';
import { estimateTokens } from './tokens.ts';

interface Section {
  /** Fixed words only. Captured text is never part of a heading. */
  heading: string;
  text: string;
  weight: number;
}

/** 6 bytes are 12 hex digits, about 7 tokens per heading. A text contains them by chance once in 2^48; this is checked. */
const FENCE_BYTES = 6;

/** Returns a code that none of the texts contains, ignoring case. */
export function makeFence(texts: readonly string[], random: (bytes: number) => Buffer = randomBytes): string {
  for (;;) {
    const fence = random(FENCE_BYTES).toString('hex');
    const pattern = new RegExp(fence, 'i');
    if (!texts.some((text) => pattern.test(text))) return fence;
  }
}

/** Shares of the bound if the exchange exceeds it. The reply is judged, and the last question is what it answers. */
const WEIGHTS = { reply: 8, lastRequest: 4, systemPrompt: 2, tools: 1, earlier: 2 };

/** With more turns than this, those in the middle are left out. The first show the topic, the last the current state. */
const MAX_EARLIER_MESSAGES = 40;

const HEADINGS: Record<string, string> = {
  system: 'system prompt',
  developer: 'system prompt',
  user: 'user',
  assistant: 'assistant',
  tool: 'tool result',
  function: 'tool result',
};

const headingOf = (role: unknown): string =>
  typeof role === 'string' && Object.hasOwn(HEADINGS, role) ? (HEADINGS[role] ?? 'other role') : 'other role';

function partText(part: unknown): string {
  if (typeof part === 'string') return part;
  if (part === null || typeof part !== 'object') return '';
  const { type, text, refusal } = part as { type?: unknown; text?: unknown; refusal?: unknown };
  if (typeof text === 'string') return text;
  if (typeof refusal === 'string') return refusal;
  // Other content is named, so that the judge knows that it was there.
  return `(${typeof type === 'string' && /^[a-z_]{1,40}$/i.test(type) ? type : 'part'} that is not text)`;
}

function bodyOf(message: ChatMessage): string {
  const content = message.content;
  if (typeof content === 'string') return content;
  if (Array.isArray(content)) return content.map(partText).join('\n');
  return typeof message.refusal === 'string' ? message.refusal : '';
}

const json = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''));

function toolCallsOf(message: ChatMessage): string[] {
  const legacy = message.function_call as { name?: unknown; arguments?: unknown } | null | undefined;
  // Captured as sent: it may not be a list, and its entries may not be calls.
  const calls: (Partial<ToolCall> | null)[] = Array.isArray(message.tool_calls) ? message.tool_calls : [];
  const all = calls.map((call) => call?.function as { name?: unknown; arguments?: unknown } | undefined);
  if (legacy) all.push(legacy);
  return all.map((call) => `${json(call?.name)} ${json(call?.arguments)}`);
}

function messageSections(message: ChatMessage, heading: string, weight: number): Section[] {
  const body = bodyOf(message);
  const calls = toolCallsOf(message).map((text) => ({ heading: `${heading} calls tool`, text, weight }));
  return body === '' && calls.length > 0 ? calls : [{ heading, text: body, weight }, ...calls];
}

function earlierSections(messages: readonly ChatMessage[]): Section[] {
  const sections = (part: readonly ChatMessage[]): Section[] =>
    part.flatMap((message) => {
      const heading = headingOf(message.role);
      const weight =
        heading === 'system prompt' ? WEIGHTS.systemPrompt : WEIGHTS.earlier / Math.max(1, messages.length);
      return messageSections(message, heading, weight);
    });
  if (messages.length <= MAX_EARLIER_MESSAGES) return sections(messages);
  const half = MAX_EARLIER_MESSAGES / 2;
  const left = messages.length - MAX_EARLIER_MESSAGES;
  return [
    ...sections(messages.slice(0, half)),
    { heading: `${left} messages left out here`, text: '', weight: 0 },
    ...sections(messages.slice(-half)),
  ];
}

function sectionsOf({ messages, replies, tools }: JudgeableExchange): Section[] {
  const last = messages.findLastIndex((message) => message.role === 'user');
  const sections: Section[] = [];
  if (tools.length > 0) sections.push({ heading: 'tools on offer', text: json(tools), weight: WEIGHTS.tools });
  if (messages.length === 0) sections.push({ heading: 'the request was not captured', text: '', weight: 0 });
  const question = messages[last];
  if (question === undefined) sections.push(...earlierSections(messages));
  else {
    sections.push(...earlierSections(messages.slice(0, last)));
    sections.push(...messageSections(question, 'user', WEIGHTS.lastRequest));
    sections.push(...earlierSections(messages.slice(last + 1)));
  }
  replies.forEach((reply, index) => {
    const heading = replies.length === 1 ? 'REPLY' : `REPLY ${index + 1} of ${replies.length}`;
    sections.push(...messageSections(reply, heading, WEIGHTS.reply / replies.length));
  });
  return sections;
}

interface FencedRecord {
  fence: string;
  /** From the `BEGIN` line to the `END` line, both included. */
  text: string;
}

/** Renders an exchange. Texts are cut in the middle so that all of them together fit into `maxTokens` (estimated). */
export function fencedRecord(
  exchange: JudgeableExchange,
  maxTokens: number,
  random?: (bytes: number) => Buffer,
): FencedRecord {
  const sections = sectionsOf(exchange);
  const sizes = sections.map(({ text, weight }) => ({ tokens: estimateTokens(text), weight }));
  const total = sizes.reduce((sum, { tokens }) => sum + tokens, 0);
  const bounds = total <= maxTokens ? undefined : divideBound(sizes, maxTokens);
  const texts = sections.map(({ text }, index) =>
    bounds === undefined ? text : cutMiddle(text, bounds[index] ?? 0, sizes[index]?.tokens),
  );
  const fence = makeFence(texts, random);
  const lines = [`#${fence} BEGIN`];
  sections.forEach(({ heading }, index) => {
    lines.push(`#${fence} ${heading}`);
    const text = texts[index] ?? '';
    if (text !== '') lines.push(text);
  });
  lines.push(`#${fence} END`);
  return { fence, text: lines.join('\n') };
}
