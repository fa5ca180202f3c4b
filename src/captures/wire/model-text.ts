/**
 * Reads the text that a model writes when no parser of the server has taken its template apart: thinking, channels and
 * tool calls between marks, and the marks of turns. Only text where a template puts it is taken: a reply that explains
 * such marks quotes them, names them within a sentence, or shows them in a block of code.
 */
import { isObject, type JsonObject, parseJson } from '../json.ts';
import type { ChatMessage } from '../types.ts';
import { isTextPart, toolCalls } from './messages.ts';
import ENDS from './turn-ends.json' with { type: 'json' };
import { fieldsOf } from './wire-format.ts';

interface ModelText {
  content: string;
  reasoning: string[];
  /** Tool calls, each with `name` and `arguments`. */
  calls: unknown[];
}

/** Around thinking: DeepSeek, Qwen and many more; EXAONE; Seed; Magistral; Kimi; Cohere; OpenThinker. */
const THINKING =
  /(<\/?(?:think|thinking|thought|seed:think)>|\[\/?THINK\]|◁\/?think▷|<\|(?:START|END)_THINKING\|>|<\|(?:begin|end)_of_thought\|>)/;
const CLOSES = /\/|END|end_/;
/** Finish reasons of a model that was stopped while it was thinking. */
const CUT = /length|max|limit/i;
const LINE_BREAK = /^[ \t]{0,20}(?:\r?\n|$)/;
/** A text before or after a mark that it quotes or names. */
const NAMES_NEXT = /[ \t`'"“‘(]$/;
const NAMES_LAST = /^(?![ \t]{0,20}\r?\n)[ \t`'"”’),.;:!?]/;

const isSetApart = (before: string, after: string): boolean =>
  !NAMES_NEXT.test(before.slice(-1)) && !NAMES_LAST.test(after.slice(0, 24));

/**
 * Separates the thinking at the beginning of a text, and the blocks that follow it. The opening mark may be in the
 * prompt, as in DeepSeek's and Qwen's templates.
 */
function extractThinking(text: string, reason: string | undefined, reasoning: string[]): string {
  const pieces = text.split(THINKING);
  let content = '';
  let thought: { mark: string; text: string } | undefined;
  let [isBegun, isTaken, isNamed, isCode] = [false, false, false, false];
  for (const [at, piece] of pieces.entries()) {
    const isMark = at % 2 === 1;
    const closes = isMark && CLOSES.test(piece);
    const isApart = isMark && !isCode && isSetApart(pieces[at - 1] as string, pieces[at + 1] as string);
    if (thought !== undefined && closes) {
      reasoning.push(thought.text);
      [thought, isTaken] = [undefined, true];
    } else if (thought !== undefined) thought.text += piece;
    else if (isMark && !closes && (isTaken ? isApart : !isBegun)) thought = { mark: piece, text: '' };
    else if (closes && isApart && !isTaken && !isNamed) {
      reasoning.push(content);
      [content, isTaken] = ['', true];
    } else {
      content += piece;
      isNamed ||= isMark;
      isBegun ||= piece.trim() !== '';
      if (piece.split('```').length % 2 === 0) isCode = !isCode;
    }
  }
  if (thought === undefined) return isTaken ? content.trim() : text;
  // The model was stopped while it was thinking, or its text mentions the mark.
  if (!LINE_BREAK.test(thought.text.slice(0, 24)) && !CUT.test(reason ?? ''))
    return isTaken ? content + thought.mark + thought.text : text;
  reasoning.push(thought.text);
  return content.trim();
}

const CHANNEL =
  /(?:<\|start\|>assistant([^<]{0,200}))?<\|channel\|>([^<]{0,200})(?:<\|constrain\|>[^<]{0,50})?<\|message\|>/;
const CHANNEL_END = /<\|(?:end|return|call|start)\|>/;

/** Reads the channels of gpt-oss: `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`. */
function channelsIn(text: string): ModelText | undefined {
  const [before = '', ...parts] = text.split(CHANNEL);
  if (parts.length === 0 || !/^\s{0,20}(?:to=[\w.-]{1,200}\s{0,20})?$/.test(before)) return undefined;
  const read: ModelText = { content: '', reasoning: [], calls: [] };
  for (let at = 0; at < parts.length; at += 3) {
    // The prompt ends with the role, so the first message may have only a recipient left of its header.
    const [role = before, header = '', rest = ''] = parts.slice(at, at + 3);
    const [body = ''] = rest.split(CHANNEL_END, 1);
    const [, name] = /\bto=(?:functions\.)?([\w.-]{1,200})/.exec(`${role} ${header}`) ?? [];
    if (name !== undefined) read.calls.push({ name, arguments: body.trim() });
    else if (header.startsWith('analysis')) read.reasoning.push(body);
    else read.content += body;
  }
  return read;
}

/**
 * Marks before a tool call, and before the list of tool calls: Hermes, Qwen and GLM; Llama; Mistral; DeepSeek and Kimi;
 * Granite and Phi; Cohere.
 */
const CALL =
  /<tool_calls?>|<\|tool_call\|>|<\|python_tag\|>|\[TOOL_CALLS\]|<\|START_ACTION\|>|<[|｜]tool[▁_]calls?(?:_section)?[▁_]begin[|｜]>|<function=(?=[\w.-]{1,200}>)/;
const CALL_ENDS =
  /<\/(?:tool_calls?|function)>|<\|\/tool_call\|>|<\|END_ACTION\|>|<[|｜]tool[▁_]calls?(?:_section)?[▁_]end[|｜]>/g;
/** Around the name of a call, before its arguments. */
const AROUND_NAME =
  /function<｜tool▁sep｜>|<｜tool▁sep｜>|<\|tool_call_argument_begin\|>|>|functions\.|\[CALL_ID\]\w{1,40}|\[ARGS\]|:\d{1,4}\b|```json/g;
/** An argument of Qwen's or GLM's, behind the mark that begins it. */
const ARGUMENT = /^([\w.-]{1,200})(?:>|<\/arg_key>\s{0,20}<arg_value>)([\s\S]*?)<\/(?:parameter|arg_value)>/g;
/** The name of one of Llama's own tools, which the model calls in code. */
const LLAMA_TOOL = /^[\w-]{1,200}(?=\.call\()/;

/**
 * Reads the tool calls behind a mark: JSON with names and arguments, a name followed by JSON, or arguments between
 * marks.
 */
function callsIn(piece: string): unknown[] | undefined {
  const [head = '', ...texts] = piece.split(/<parameter=|<arg_key>/);
  const at = head.search(/\{|\[\s{0,20}\{|$/);
  const name = head.slice(0, at).replace(AROUND_NAME, ' ').trim();
  const parsed = parseJson(head.slice(at).replace('```', ''));
  const found = texts.flatMap((text) => [...text.matchAll(ARGUMENT)].map(([, key, value]) => [key, value?.trim()]));
  const isWhole = texts.length > 0 && found.length === texts.length;
  const value = isWhole ? Object.fromEntries(found) : parsed.ok && texts.length === 0 ? parsed.value : undefined;
  const calls = (name === '' ? [value].flat() : [{ name, arguments: value }]).map(fieldsOf);
  const named = calls.map((call) => ({ ...call, name: call.name ?? call.tool_name }));
  const isCall = (call: JsonObject): boolean =>
    typeof call.name === 'string' && isObject(call.arguments ?? call.parameters);
  return calls.length > 0 && /^[\w.-]{0,200}$/.test(name) && named.every(isCall) ? named : undefined;
}

/** Takes the tool calls from the end of a text, if each can be read. */
function extractCalls(text: string): { content: string; calls: unknown[] } {
  const [content = '', ...rest] = text.split(CALL);
  const pieces = rest.map((piece) => piece.replace(CALL_ENDS, '').trim()).filter((piece) => piece !== '');
  const isLlama = text.trimStart().startsWith('<|python_tag|>');
  const inCode = (code: string) => [{ name: LLAMA_TOOL.exec(code)?.[0] ?? 'code_interpreter', arguments: code }];
  const calls = pieces.map((piece) => callsIn(piece) ?? (isLlama ? inCode(piece) : undefined));
  const isCode = content.split('```').length % 2 === 0;
  return isCode || calls.length === 0 || calls.includes(undefined)
    ? { content: text, calls: [] }
    : { content: content.trimEnd(), calls: calls.flat() };
}

const BEGINNINGS =
  /^(?:\s*(?:<bos>|<\|begin_of_text\|>|<\|start_header_id\|>assistant<\|end_header_id\|>|<\|im_start\|>assistant|<start_of_turn>model|<\|START_RESPONSE\|>|<\|begin_of_solution\|>))+\s*/;

/** Takes away the marks of turns that a template puts around a reply. */
function withoutMarks(text: string): string {
  let bare = text.replace(BEGINNINGS, '');
  for (;;) {
    const end = bare.trimEnd();
    const mark = ENDS.find((candidate) => end.endsWith(candidate));
    const before = end.slice(0, end.length - (mark?.length ?? 0));
    // `</s>` also ends a passage that HTML strikes through.
    const isNamed = !isSetApart(before, '') || (mark === '</s>' && before.includes('<s>'));
    if (mark === undefined || isNamed) return bare;
    bare = before.trimEnd();
  }
}

/**
 * Returns a reply with thinking and tool calls separated from its text. Returns the same object if its text has
 * neither.
 *
 * @param reason finish reason of the reply.
 */
export function spokenReply(message: ChatMessage, reason?: string): ChatMessage {
  const given = message.content;
  const isTexts = Array.isArray(given) && given.length > 0 && given.every(isTextPart);
  const text = isTexts ? given.map((part) => part.text).join('') : given;
  if (typeof text !== 'string') return message;
  const read = channelsIn(text) ?? { content: withoutMarks(text), reasoning: [], calls: [] };
  const spoken = withoutMarks(extractThinking(read.content, reason, read.reasoning));
  const { content, calls } = extractCalls(spoken);
  if (content === text) return message;
  const own = Array.isArray(message.tool_calls) ? message.tool_calls : [];
  const all = own.concat(toolCalls(read.calls), toolCalls(calls));
  const thoughts = [message.reasoning ?? message.reasoning_content, ...read.reasoning];
  const reasoning = thoughts.flatMap((thought) => (typeof thought === 'string' && thought.trim()) || []).join('\n\n');
  return {
    ...message,
    content: content === '' && all.length > 0 ? null : content,
    ...(reasoning === '' ? {} : { reasoning }),
    ...(all.length > 0 ? { tool_calls: all } : {}),
  };
}
