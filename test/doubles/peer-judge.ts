/**
 * The stand-in judge, with what MLflow's own judges need, which benchmarks compare with this project's: it recognizes their prompts,
 * and takes Bedrock's InvokeModel with a Claude model, which LiteLLM uses for models that it does not know yet.
 */

import type { EitherRequest } from '../../local/servers/either-http.ts';
import type { Change } from '../../local/stand-in-judge/answer.ts';
import { type ConverseBody, type ModelCall, textOf } from '../../local/stand-in-judge/converse.ts';
import type { HttpAnswer } from '../../local/stand-in-judge/http-answer.ts';
import { verdictByRule } from '../../src/judge/stand-in/answer.ts';
import type { AskedQuestion, ReadExchange } from '../../src/judge/stand-in/read-prompt.ts';
import { type IncomingCall, StandInJudge, type StandInOptions } from './faulty-judge/server.ts';

interface MlflowPrompt {
  asked: AskedQuestion;
  exchange: ReadExchange;
}

const NOTHING: ReadExchange = { request: '', reply: '', toolCalls: [], tools: '' };
const YES_NO: AskedQuestion['allowed'] = { kind: 'strings', values: ['yes', 'no'] };

function tag(text: string, name: string): string | undefined {
  const open = text.indexOf(`<${name}>`);
  const close = text.lastIndexOf(`</${name}>`);
  return open === -1 || close < open ? undefined : text.slice(open + name.length + 2, close);
}

/** Reads a prompt of MLflow's judges, which ask one question per request, in one of a few wordings. */
function readMlflowPrompt(system: string, user: string): MlflowPrompt | undefined {
  const all = `${system}\n${user}`;
  const one = (
    name: string,
    question: string,
    exchange: Partial<ReadExchange>,
    allowed: AskedQuestion['allowed'] = YES_NO,
  ): MlflowPrompt => ({ asked: { name, question, allowed }, exchange: { ...NOTHING, ...exchange } });
  const guidelines = tag(all, 'guidelines');
  if (guidelines !== undefined) {
    const sentence = guidelines.replaceAll(/<\/?guideline>/g, ' ').trim();
    return one('guideline', sentence, { request: tag(all, 'request') ?? '', reply: tag(all, 'response') ?? '' });
  }
  if (/content safety classifier/i.test(all)) return one('safety', '', { reply: tag(all, 'text') ?? '' });
  const calls = tag(all, 'actual_tool_calls') ?? tag(all, 'tools_called');
  if (calls !== undefined) {
    const toolCalls = [...calls.matchAll(/Tool Call \d+: (\S+)[\s\S]*?Arguments: (.*)/g)].map(([, name, args]) => ({
      name: name ?? '',
      arguments: (args ?? '').replaceAll("'", '"'),
    }));
    return one('tool_call_correctness', '', {
      request: tag(all, 'request') ?? '',
      toolCalls,
      tools: tag(all, 'available_tools') ?? '',
    });
  }
  const answer = tag(all, 'answer');
  if (answer !== undefined) {
    const name = /explicit (user )?requests?/i.test(all) ? 'completeness' : 'relevance_to_query';
    return one(name, '', { request: tag(all, 'question') ?? '', reply: answer });
  }
  if (/expert judge/i.test(system) || /evaluat/i.test(system)) {
    const field = (name: string): string | undefined =>
      new RegExp(`(?:^|\\n)${name}: ([\\s\\S]*?)(?=\\n(?:inputs|outputs|expectations|conversation): |$)`).exec(
        user,
      )?.[1];
    const exchange = { request: field('inputs') ?? '', reply: field('outputs') ?? user };
    if (/somewhat coherent/i.test(all)) {
      const values = ['coherent', 'somewhat coherent', 'incoherent'];
      return one('coherence', system, exchange, { kind: 'strings', values });
    }
    if (/fluency/i.test(all)) return one('fluency', system, exchange);
    if (/explicit (user )?requests?/i.test(all)) return one('completeness', system, exchange);
    return one('guideline', system, exchange);
  }
  return undefined;
}

interface MessagesBody {
  system?: string | { text?: string }[];
  messages?: { role: string; content: string | { text?: string }[] }[];
  max_tokens?: number;
  temperature?: number;
  tools?: { name?: string; input_schema?: unknown }[];
  tool_choice?: { type?: string; name?: string };
  output_format?: { schema?: unknown };
  output_config?: { format?: { schema?: unknown } };
}

const blocks = (content: string | { text?: string }[] | undefined): { text: string }[] =>
  typeof content === 'string' ? [{ text: content }] : (content ?? []).map(({ text }) => ({ text: text ?? '' }));

function toConverse(body: MessagesBody): ConverseBody {
  const tool = body.tool_choice?.type === 'tool' ? body.tool_choice.name : undefined;
  const format = body.output_config?.format ?? body.output_format;
  return {
    system: body.system === undefined ? undefined : blocks(body.system),
    messages: (body.messages ?? []).map(({ role, content }) => ({ role, content: blocks(content) })),
    inferenceConfig: { maxTokens: body.max_tokens, temperature: body.temperature },
    toolConfig: body.tools && {
      tools: body.tools.map(({ name = '', input_schema }) => ({ toolSpec: { name, inputSchema: input_schema } })),
      toolChoice: tool === undefined ? undefined : { tool: { name: tool } },
    },
    outputConfig: format && { textFormat: { type: 'json_schema', structure: format.schema } },
  };
}

interface ConverseAnswer {
  output: { message: { content: { text?: string; toolUse?: { toolUseId: string; name: string; input: unknown } }[] } };
  stopReason: string;
  usage: { inputTokens: number; outputTokens: number };
}

function fromConverse(answer: HttpAnswer, modelId: string): HttpAnswer {
  if (answer.status !== 200) return answer;
  const { output, stopReason, usage } = JSON.parse(answer.body) as ConverseAnswer;
  const content = output.message.content.map(({ text, toolUse }) =>
    toolUse === undefined
      ? { type: 'text', text: text ?? '' }
      : { type: 'tool_use', id: toolUse.toolUseId, name: toolUse.name, input: toolUse.input },
  );
  const message = {
    id: 'msg_standin',
    type: 'message',
    role: 'assistant',
    model: modelId,
    content,
    stop_reason: stopReason,
    stop_sequence: null,
    usage: { input_tokens: usage.inputTokens, output_tokens: usage.outputTokens },
  };
  return { ...answer, body: JSON.stringify(message) };
}

class PeerJudge extends StandInJudge {
  protected override async route(request: EitherRequest, method: string, path: string, text: string) {
    const modelId = /^\/model\/([^/]+)\/invoke$/.exec(path)?.[1];
    if (modelId === undefined) return super.route(request, method, path, text);
    const body = JSON.stringify(toConverse(JSON.parse(text) as MessagesBody));
    const answer = await super.route(request, method, `/model/${modelId}/converse`, body);
    return fromConverse(answer, decodeURIComponent(modelId));
  }

  /** Answers a prompt of MLflow's judges, which to the stand-in has no question. */
  protected override async answer(call: IncomingCall, change?: Change): Promise<ModelCall> {
    const answered = await super.answer(call, change);
    const { system, messages } = call.body as ConverseBody;
    if (call.operation !== 'converse' || answered.asked.length > 0 || answered.answer.status !== 200) return answered;
    const user = textOf(messages?.findLast(({ role }) => role === 'user')?.content);
    const prompt = readMlflowPrompt(textOf(system), user);
    if (prompt === undefined) return answered;
    const { rationale, value } = verdictByRule(prompt.asked, prompt.exchange);
    const verdict = { rationale, result: value };
    const reply = JSON.parse(answered.answer.body) as ConverseAnswer;
    for (const block of reply.output.message.content) {
      if (block.toolUse) block.toolUse.input = verdict;
      else block.text = JSON.stringify(verdict);
    }
    return { ...answered, asked: [prompt.asked.name], answer: { ...answered.answer, body: JSON.stringify(reply) } };
  }
}

/** Starts the stand-in judge of a benchmark with MLflow's own judges. Call `close()` when done. */
export async function startPeerJudge(options: StandInOptions = {}): Promise<StandInJudge> {
  const judge = new PeerJudge(options);
  await judge.listen(options.port);
  return judge;
}
