/** Reads the judge's prompt as a model would, by its text alone: the questions, and the exchange that they are about. */

type AllowedValues =
  | { kind: 'strings'; values: string[] }
  | { kind: 'boolean' }
  | { kind: 'number'; min: number; max: number };

export interface AskedQuestion {
  name: string;
  question: string;
  allowed: AllowedValues;
}

export interface ReadExchange {
  /** The last user message. */
  request: string;
  /** All replies, joined. */
  reply: string;
  /** The replies one by one, if there are several. */
  replies?: string[];
  toolCalls: { name: string; arguments: string }[];
  tools: string;
  /** The prompts of a call that carries several, each with its own replies. */
  pairs?: ReadExchange[];
}

export type RecognizedPrompt = NonNullable<ReturnType<typeof readOwnPrompt>>;

export const isYesNo = ({ allowed }: AskedQuestion): boolean =>
  allowed.kind === 'strings' && allowed.values[0] === 'yes';

/** Reads the rules of this project's prompts for short answers and for the first model of a cascade. */
function readBrevity(text: string, asked: readonly AskedQuestion[]) {
  const rule = /^- A "yes" needs no words: it stands alone, without a rationale(?:; for (.+?) that is the "no")?/m.exec(
    text,
  );
  const others = new Set((rule?.[1] ?? '').split(', '));
  return {
    /** The value that needs no rationale, by question. */
    bare: Object.fromEntries<string>(
      rule ? asked.filter(isYesNo).map(({ name }) => [name, others.has(name) ? 'no' : 'yes']) : [],
    ),
    /** Yes/no questions get one word: `yes`, `no` or `unsure`. */
    marks: /^- A question that is answered with "yes" or "no" gets that word alone/m.test(text),
    /** Other answers end with `sure`. */
    sure: /^- Last comes "sure": false/m.test(text),
  };
}

function readAllowed(text: string): AllowedValues {
  if (text === 'true or false') return { kind: 'boolean' };
  const range = /^a number from (-?[\d.]+) to (-?[\d.]+)$/.exec(text);
  if (range) return { kind: 'number', min: Number(range[1]), max: Number(range[2]) };
  return { kind: 'strings', values: [...text.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, value]) => value ?? '') };
}

const splitCall = (text: string): { name: string; arguments: string } => {
  const space = text.indexOf(' ');
  return space < 0 ? { name: text, arguments: '' } : { name: text.slice(0, space), arguments: text.slice(space + 1) };
};

/** Reads the sections of this project's fenced record, which the code before it delimits. */
function readRecord(user: string): ReadExchange | undefined {
  const fence = /^#([0-9a-f]{8,}) BEGIN$/m.exec(user)?.[1];
  if (fence === undefined) return undefined;
  const start = user.indexOf(`#${fence} BEGIN`);
  const end = user.lastIndexOf(`#${fence} END`);
  const sections = user
    .slice(start, end)
    .split(new RegExp(`^#${fence} `, 'm'))
    .slice(2)
    .map((section) => {
      const [heading = '', ...lines] = section.replace(/\n$/, '').split('\n');
      return { heading, text: lines.join('\n') };
    });
  const prompts = sections.flatMap(({ heading }, index) => (/^prompt \d+ of /.test(heading) ? [index] : []));
  const pairs = prompts.map((from, index) => readSections(sections.slice(from, prompts[index + 1])));
  return { ...readSections(sections), ...(pairs.length > 0 && { pairs }) };
}

function readSections(sections: readonly { heading: string; text: string }[]): ReadExchange {
  const exchange: ReadExchange = { request: '', reply: '', toolCalls: [], tools: '' };
  const replies: string[] = [];
  for (const { heading, text } of sections) {
    if (heading === 'user' || heading.startsWith('prompt ')) exchange.request = text;
    else if (heading === 'tools on offer') exchange.tools = text;
    else if (/^REPLY.* calls tool$/.test(heading)) exchange.toolCalls.push(splitCall(text));
    else if (heading.startsWith('REPLY')) replies.push(text);
  }
  return { ...exchange, reply: replies.join('\n'), ...(replies.length > 1 ? { replies } : {}) };
}

function readQuestions(system: string): AskedQuestion[] {
  const start = system.indexOf('\nThe questions\n');
  return [...system.slice(start).matchAll(/^([A-Za-z][\w-]*) \((.+?)\): (.*)$/gm)].map(
    ([, name = '', allowed = '', question = '']) => ({ name, question, allowed: readAllowed(allowed) }),
  );
}

/** Reads a prompt of this project. @returns `undefined` if it contains no record */
export function readOwnPrompt(system: string, user: string) {
  const exchange = readRecord(user);
  if (exchange === undefined) return undefined;
  // For a model without system prompts, the user turn contains the instructions too.
  const instructions = system.includes('\nThe questions\n')
    ? system
    : user.slice(0, user.indexOf('\nThe code of this record'));
  const asked = readQuestions(instructions);
  return { asked, exchange, brevity: readBrevity(instructions, asked) };
}
