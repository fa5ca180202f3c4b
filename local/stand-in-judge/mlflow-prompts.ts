/** Recognizes the prompts of MLflow's own judges, which benchmarks compare with this project's. */
import {
  type AskedQuestion,
  emptyExchange,
  type ReadExchange,
  type RecognizedPrompt,
} from '../../src/judge/stand-in/read-prompt.ts';

const YES_NO: AskedQuestion['allowed'] = { kind: 'strings', values: ['yes', 'no'] };

function tag(text: string, name: string): string | undefined {
  const open = text.indexOf(`<${name}>`);
  const close = text.lastIndexOf(`</${name}>`);
  return open === -1 || close < open ? undefined : text.slice(open + name.length + 2, close);
}

/** Reads a prompt of MLflow's judges, which ask one question per request, in one of a few wordings. */
export function readMlflowPrompt(system: string, user: string): RecognizedPrompt | undefined {
  const all = `${system}\n${user}`;
  const one = (
    name: string,
    question: string,
    exchange: Partial<ReadExchange>,
    allowed: AskedQuestion['allowed'] = YES_NO,
  ): RecognizedPrompt => ({
    form: 'result',
    asked: [{ name, question, allowed }],
    exchange: { ...emptyExchange(), ...exchange },
  });
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
