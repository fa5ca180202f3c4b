/**
 * Reads the text that a model writes when no parser of the server has taken its template apart: thinking, channels and
 * tool calls between marks, and the marks of turns. Only text where a template puts it is taken: a reply that explains
 * such marks quotes them, names them within a sentence, or shows them in a block of code.
 */
import { isObject, parseJson } from '../json.ts';
import type { ChatMessage, ToolCall } from '../types.ts';
import { isTextPart, toolCalls } from './messages.ts';

/** What a text consists of. */
interface ModelText {
  content: string;
  reasoning: string[];
  calls: ToolCall[];
}

/** Around thinking: DeepSeek, Qwen and many more; EXAONE; Seed; Magistral; Kimi; Cohere; OpenThinker. */
const THINKING: readonly (readonly [open: string, close: string])[] = [
  ['<think>', '</think>'],
  ['<thinking>', '</thinking>'],
  ['<thought>', '</thought>'],
  ['<seed:think>', '</seed:think>'],
  ['[THINK]', '[/THINK]'],
  ['◁think▷', '◁/think▷'],
  ['<|START_THINKING|>', '<|END_THINKING|>'],
  ['<|begin_of_thought|>', '<|end_of_thought|>'],
];

const BEGINNINGS = [
  ...['<|begin_of_text|>', '<|start_header_id|>assistant<|end_header_id|>', '<|im_start|>assistant', '<bos>'],
  ...['<start_of_turn>model', '<|START_RESPONSE|>', '<|begin_of_solution|>', '<|start|>assistant'],
];
const ENDS = [
  ...['<|im_end|>', '<|eot_id|>', '<|eom_id|>', '<|end_of_text|>', '<|endoftext|>', '<end_of_turn>', '<eos>', '</s>'],
  ...['<|end|>', '<|return|>', '<|END_RESPONSE|>', '<|END_OF_TURN_TOKEN|>', '<|end_of_solution|>'],
  '<｜end▁of▁sentence｜>',
];

const CUT = /length|max|limit/i;
/** Before or after a mark that a text quotes or names. */
const NAMED_BEFORE = /[\s`'"“‘(]$/;
const NAMED_AFTER = /^[ \t`'"”’),.;:!?]/;
const FENCE = '```';

const isLineBreak = (text: string): boolean => text === '' || /^[ \t]*\r?\n/.test(text);

/** Whether a mark stands where a template puts it, and not within a sentence or in quotes. */
function isSetApart(text: string, from: number, length: number): boolean {
  const [before, after] = [text.slice(Math.max(0, from - 1), from), text.slice(from + length, from + length + 100)];
  const begins = before === '' || before === '\n' || !NAMED_BEFORE.test(before);
  return begins && (isLineBreak(after) || !NAMED_AFTER.test(after));
}

/** Whether a place is in an open block of code. */
const isInCode = (before: string): boolean => before.split(FENCE).length % 2 === 0;

/**
 * Takes the thinking from the beginning of a text, and what follows it in blocks of the same form. The opening mark may be
 * in the prompt, as DeepSeek's and Qwen's templates have it.
 */
function takeThinking(text: string, reason: string | undefined, reasoning: string[]): string {
  const start = text.trimStart();
  const opened = THINKING.find(([open]) => start.startsWith(open));
  if (opened === undefined) return takeUnopened(text, reasoning);
  const [open, close] = opened;
  const first = start.indexOf(close, open.length);
  if (first === -1) {
    // The model was stopped while it was thinking, or the text is about the mark.
    if (!isLineBreak(start.slice(open.length, open.length + 100)) && !CUT.test(reason ?? '')) return text;
    reasoning.push(start.slice(open.length));
    return '';
  }
  reasoning.push(start.slice(open.length, first));
  const pieces: string[] = [];
  let isCode = false;
  let at = first + close.length;
  for (let next = start.indexOf(open, at); next !== -1; next = start.indexOf(open, at)) {
    const end = start.indexOf(close, next);
    if (end === -1) break;
    const between = start.slice(at, next);
    isCode = isInCode(between) !== isCode;
    const isBlock =
      between.trim() === '' || (!isCode && isSetApart(start, next, 0) && isSetApart(start, end, close.length));
    pieces.push(between, ...(isBlock ? [] : [start.slice(next, end + close.length)]));
    if (isBlock) reasoning.push(start.slice(next + open.length, end));
    at = end + close.length;
  }
  return [...pieces, start.slice(at)].join('').trim();
}

function takeUnopened(text: string, reasoning: string[]): string {
  for (const [open, close] of THINKING) {
    const at = text.indexOf(close);
    if (at === -1) continue;
    const before = text.slice(0, at);
    if (before.includes(open) || isInCode(before) || !isSetApart(text, at, close.length)) continue;
    reasoning.push(before);
    return text.slice(at + close.length).trim();
  }
  return text;
}

const CHANNEL = '<|channel|>';
const MESSAGE = '<|message|>';
const CHANNEL_END = /<\|(?:end|return|call|start)\|>/;

/** Reads the channels of gpt-oss: `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`. */
function channelsIn(text: string): ModelText | undefined {
  const [head = '', ...channels] = text.split(CHANNEL);
  const isOurs = /^\s*(?:<\|start\|>)?(?:assistant)?[^<]{0,100}$/.test(head) && channels[0]?.includes(MESSAGE);
  if (!isOurs || (head.trim() !== '' && !head.includes('assistant'))) return undefined;
  const read: ModelText = { content: '', reasoning: [], calls: [] };
  let role = head;
  for (const channel of channels) {
    const at = channel.indexOf(MESSAGE);
    const header = at === -1 ? channel : channel.slice(0, at);
    const rest = at === -1 ? '' : channel.slice(at + MESSAGE.length);
    const end = rest.search(CHANNEL_END);
    const body = end === -1 ? rest : rest.slice(0, end);
    const [, name] = /\bto=(?:functions\.)?([\w.-]{1,200})/.exec(`${role.slice(-300)} ${header.slice(0, 300)}`) ?? [];
    if (name !== undefined) read.calls.push(...toolCalls([{ name, arguments: body.trim() }]));
    else if (header.startsWith('analysis')) read.reasoning.push(body);
    else read.content += body;
    role = end === -1 ? '' : rest.slice(end);
  }
  return read;
}

/** Before and after tool calls at the end of a text: Hermes and Qwen; Llama 3. */
const CALL_MARKS: readonly (readonly [open: string, close: string])[] = [
  ['<tool_call>', '</tool_call>'],
  ['<|python_tag|>', ''],
];

/** Takes the tool calls from the end of a text, if each is JSON with a name and arguments. */
function takeCalls(text: string, calls: ToolCall[]): string {
  for (const [open, close] of CALL_MARKS) {
    const at = text.indexOf(open);
    const tail = text.trimEnd();
    if (at === -1 || !tail.endsWith(close) || !isSetApart(text, at, 0) || isInCode(text.slice(0, at))) continue;
    const pieces = tail
      .slice(at, tail.length - close.length)
      .split(open)
      .slice(1);
    const found = pieces.map((piece) => callIn(piece.trim().replace(close, '')));
    if (found.some((call) => call === undefined)) continue;
    calls.push(...toolCalls(found));
    return text.slice(0, at).trimEnd();
  }
  return text;
}

function callIn(text: string): unknown {
  const parsed = parseJson(text);
  const call = parsed.ok && isObject(parsed.value) ? parsed.value : {};
  const isCall = typeof call.name === 'string' && isObject(call.arguments ?? call.parameters);
  return isCall ? call : undefined;
}

/** Takes away the marks of turns that a template puts around a reply. */
function withoutMarks(text: string): string {
  let bare = text;
  const beginning = (): string | undefined => BEGINNINGS.find((mark) => bare.trimStart().startsWith(mark));
  for (let mark = beginning(); mark !== undefined; mark = beginning())
    bare = bare.trimStart().slice(mark.length).trimStart();
  const ending = (): string | undefined =>
    ENDS.find((mark) => {
      const end = bare.trimEnd();
      return end.endsWith(mark) && isSetApart(end, end.length - mark.length, mark.length);
    });
  // `</s>` also ends a passage that HTML strikes through.
  for (let mark = ending(); mark !== undefined && !(mark === '</s>' && bare.includes('<s>')); mark = ending())
    bare = bare.trimEnd().slice(0, -mark.length).trimEnd();
  return bare;
}

/** A text without any of these characters has no mark. */
const hasMark = (text: string): boolean => /[<◁]|\[\/?THINK\]/.test(text);

/**
 * Returns a reply with its thinking and tool calls apart from its text; the same object if its text has none.
 *
 * @param reason finish reason of the reply.
 */
export function spokenReply(message: ChatMessage, reason?: string): ChatMessage {
  const { content, tool_calls: own, reasoning: thought, reasoning_content: other } = message;
  const isTexts = Array.isArray(content) && content.length > 0 && content.every(isTextPart);
  const text = isTexts ? content.map((part) => part.text).join('') : content;
  if (typeof text !== 'string' || !hasMark(text)) return message;
  const channels = channelsIn(text);
  const read = channels ?? { content: withoutMarks(text), reasoning: [], calls: [] };
  read.content = takeCalls(withoutMarks(takeThinking(read.content, reason, read.reasoning)), read.calls);
  if (read.content === text) return message;
  const earlier = [thought, other].find((said) => typeof said === 'string' && said !== '');
  const reasoning = [earlier, ...read.reasoning].flatMap((said) => (typeof said === 'string' ? said.trim() : []));
  const calls = [...(Array.isArray(own) ? own : []), ...read.calls];
  const joined = reasoning.filter((said) => said !== '').join('\n\n');
  return {
    ...message,
    content: read.content === '' && calls.length > 0 ? null : read.content,
    ...(joined === '' ? {} : { reasoning: joined }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}
