/**
 * Renders the record, a captured exchange as the judge reads it. Every heading starts with `#` and a random code. Captured
 * texts are between headings and cannot contain the code, so they can neither close the record nor imitate a heading.
 */
import { randomBytes } from 'node:crypto';
import { ofContent } from '../../captures/content.ts';
import type { Capture, ChatMessage, ToolCall } from '../../captures/types.ts';
import roles from '../../captures/wire/roles.json' with { type: 'json' };
import { addCounts, noCounts } from '../../core/values/counts.ts';
import { isSystem, type JudgeableExchange, judgeableExchange } from '../scorers/applicability.ts';
import { cutMiddle, divideBound, estimateTokens, MIN_TEXT_TOKENS } from '../tokens.ts';

interface Section {
  /** Fixed words only. Captured text is never part of a heading. */
  heading: string;
  text: string;
  weight: number;
  /** Distance from the nearer end of its list. Sections far from both ends are left out first. */
  rank: number;
  /** The unit for counting left-out sections. */
  what: 'messages' | 'replies' | 'tool calls';
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

/**
 * Shares of the bound if the exchange exceeds it. The reply gets most because it is judged, then the last question
 * because the reply answers it.
 */
const WEIGHTS = { reply: 8, lastRequest: 4, systemPrompt: 2, tools: 1, earlier: 2 };

/**
 * Maximum number of earlier turns. Further turns are left out in the middle: the first show the topic, the last the
 * current state.
 */
const MAX_EARLIER_MESSAGES = 40;

const HEADINGS: Record<string, string> = roles.judge;

const headingOf = (role: unknown): string =>
  typeof role === 'string' && Object.hasOwn(HEADINGS, role) ? (HEADINGS[role] ?? 'other role') : 'other role';

function partText(part: unknown): string {
  if (typeof part === 'string') return part;
  if (part === null || typeof part !== 'object') return '';
  const { type, text, refusal } = part as { type?: unknown; text?: unknown; refusal?: unknown };
  if (typeof text === 'string') return text;
  if (typeof refusal === 'string') return refusal;
  // Other content is mentioned, so that the judge knows of its existence.
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

const rankOf = (index: number, length: number): number => Math.min(index, length - 1 - index);

/**
 * Rank of the sections that always stay, and of the question. The ends of the replies follow, then all other sections.
 */
const FIRST_RANK = -1;
const REPLY_RANK = -0.5;
const CALLS_BEHIND = 0.25;

/** A heading without a text. */
const note = (heading: string): Section => ({ heading, text: '', weight: 0, rank: FIRST_RANK, what: 'messages' });

function messageSections(message: ChatMessage, place: Omit<Section, 'text'>): Section[] {
  const body = bodyOf(message);
  const texts = toolCallsOf(message);
  const calls = texts.map((text, index): Section => {
    const rank = place.rank + CALLS_BEHIND + rankOf(index, texts.length);
    return { heading: `${place.heading} calls tool`, text, weight: place.weight, rank, what: 'tool calls' };
  });
  return body === '' && calls.length > 0 ? calls : [{ ...place, text: body }, ...calls];
}

function earlierSections(messages: readonly ChatMessage[]): Section[] {
  const half = MAX_EARLIER_MESSAGES / 2;
  const middle = messages.length > MAX_EARLIER_MESSAGES ? messages.slice(half, -half) : [];
  const systemPrompts = middle.filter(isSystem);
  const left = middle.length - systemPrompts.length;
  const sections = (part: readonly ChatMessage[]): Section[] =>
    part.flatMap((message, index) => {
      const weight = isSystem(message) ? WEIGHTS.systemPrompt : WEIGHTS.earlier / messages.length;
      const place = { heading: headingOf(message.role), weight, rank: rankOf(index, part.length) };
      return messageSections(message, { ...place, what: 'messages' });
    });
  if (middle.length === 0) return sections(messages);
  const told = left > 0 ? [note(`${left} messages left out here`)] : [];
  const [first, last] = [messages.slice(0, half), messages.slice(-half)];
  return [...sections(first), ...told, ...sections(systemPrompts), ...sections(last)];
}

function questionSections(messages: readonly ChatMessage[]): Section[] {
  if (messages.length === 0) return [note('the request was not captured')];
  const last = messages.findLastIndex((message) => message.role === 'user');
  const question = messages[last];
  if (question === undefined) return earlierSections(messages);
  const place = { heading: 'user', weight: WEIGHTS.lastRequest, rank: FIRST_RANK, what: 'messages' } as const;
  return [
    ...earlierSections(messages.slice(0, last)),
    ...messageSections(question, place),
    ...earlierSections(messages.slice(last + 1)),
  ];
}

/** @param place of the first reply */
const replySections = (replies: readonly ChatMessage[], to: string, place: Pick<Section, 'weight' | 'rank'>) =>
  replies.flatMap((reply, index) => {
    const heading = `REPLY${replies.length === 1 ? '' : ` ${index + 1} of ${replies.length}`}${to}`;
    const rank = place.rank + rankOf(index, replies.length);
    return messageSections(reply, { heading, weight: place.weight, rank, what: 'replies' });
  });

/** The judge’s instructions assume one conversation. For a batch of prompts, this heading replaces that assumption. */
const BATCH_RULE =
  'independent prompts of one call. A REPLY answers only the prompt above it. Replies to different prompts are no alternatives and need not fit together; a fault in any of them counts';

/** Returns each prompt with its own replies. */
function batchSections(prompts: readonly ChatMessage[], replies: readonly ChatMessage[], each: number): Section[] {
  const pairs = prompts.flatMap((prompt, index) => {
    const rank = REPLY_RANK + rankOf(index, prompts.length);
    const heading = `prompt ${index + 1} of ${prompts.length}`;
    const own = replies.slice(index * each, (index + 1) * each);
    return [
      ...messageSections(prompt, { heading, weight: WEIGHTS.lastRequest / prompts.length, rank, what: 'messages' }),
      ...replySections(own, ` to ${heading}`, { weight: WEIGHTS.reply / replies.length, rank }),
    ];
  });
  return [note(`${prompts.length} ${BATCH_RULE}`), ...pairs];
}

function sectionsOf({ messages, replies, tools, repliesPerPrompt }: JudgeableExchange): Section[] {
  const offered = tools.length > 0 ? [{ ...note('tools on offer'), text: json(tools), weight: WEIGHTS.tools }] : [];
  if (repliesPerPrompt !== undefined) return [...offered, ...batchSections(messages, replies, repliesPerPrompt)];
  const place = { weight: WEIGHTS.reply / replies.length, rank: REPLY_RANK };
  return [...offered, ...questionSections(messages), ...replySections(replies, '', place)];
}

/** Returns the sections of the lowest ranks, with headings where others were left out. */
function lowestRanks(sections: readonly Section[], most: number): Section[] {
  const ordered = sections.toSorted((a, b) => a.rank - b.rank);
  // A prompt and its reply share one rank, because each is useless without the other.
  const tooFar = ordered[most]?.rank ?? Number.POSITIVE_INFINITY;
  const kept = new Set(ordered.filter(({ rank }) => rank < tooFar));
  let left = noCounts();
  return sections.flatMap((section, index) => {
    if (kept.has(section)) return [section];
    addCounts(left, { [section.what]: 1 });
    const next = sections[index + 1];
    if (next !== undefined && !kept.has(next)) return [];
    const counts = Object.entries(left).map(([what, count]) => `${count} ${what}`);
    left = noCounts();
    return [note(`${counts.join(', ')} left out here`)];
  });
}

/** Tokens of a section with its minimum text, and of a heading about the sections left out before it. */
const SECTION_TOKENS = MIN_TEXT_TOKENS + 40;
const FRAME_TOKENS = 30;

/** Cuts the sections’ texts in the middle, each to its share of the bound. */
function cutToFit(sections: readonly Section[], maxTokens: number): Section[] {
  const sizes = sections.map(({ text }) => estimateTokens(text));
  const least = sizes.map((tokens) => Math.min(tokens, MIN_TEXT_TOKENS));
  const rest = least.reduce((left, tokens) => left - tokens, maxTokens);
  const shares = sections.map(({ weight }, index) => ({ tokens: (sizes[index] ?? 0) - (least[index] ?? 0), weight }));
  const granted = divideBound(shares, Math.max(0, rest));
  return sections.map((section, index) => {
    const tokens = (least[index] ?? 0) + (granted[index] ?? 0);
    return { ...section, text: cutMiddle(section.text, tokens, sizes[index]) };
  });
}

function linesOf(fence: string, sections: readonly Section[]): string {
  const lines = sections.flatMap(({ heading, text }) => [`#${fence} ${heading}`, ...(text === '' ? [] : [text])]);
  return [`#${fence} BEGIN`, ...lines, `#${fence} END`].join('\n');
}

const ANY_FENCE = '0'.repeat(2 * FENCE_BYTES);

function fitted(sections: Section[], maxTokens: number): Section[] {
  if (estimateTokens(linesOf(ANY_FENCE, sections)) <= maxTokens) return sections;
  const kept = lowestRanks(sections, Math.floor((maxTokens - FRAME_TOKENS) / SECTION_TOKENS));
  const bare = kept.map((section) => ({ ...section, text: '' }));
  // Each text is a further line.
  const most = maxTokens - estimateTokens(linesOf(ANY_FENCE, bare)) - Math.ceil(kept.length / 4);
  return cutToFit(kept, most);
}

/**
 * Renders the judge's view of a capture in at most `maxTokens` (estimated), headings included. If it is longer,
 * sections in the middle of long lists are left out first. Then long texts are cut in the middle.
 *
 * @param maxTokens at least 500
 */
export function captureRecord(capture: Capture, maxTokens: number, random?: (bytes: number) => Buffer) {
  const exchange = () => judgeableExchange(capture) ?? { messages: [], replies: [], tools: [] };
  const made = ofContent(capture, 'record', () => fitted(sectionsOf(exchange()), maxTokens));
  // Another process has made the longest record.
  const sections = capture.isApart ? fitted(made, maxTokens) : made;
  const texts = sections.map(({ text }) => text);
  const fence = makeFence(texts, random);
  /** `text`: from the `BEGIN` line to the `END` line, both included. */
  return { fence, text: linesOf(fence, sections) };
}
