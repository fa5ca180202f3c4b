/**
 * No regular expression of the product takes more than linear time on untrusted text. The test finds all of them in the source
 * and runs them on inputs generated for them. `expressions.json` lists them; to add a new one, run
 * `UPDATE_EXPRESSIONS=1 npx jest test/unit/expressions.test.ts && npm run format`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { createContext, Script } from 'node:vm';
import { type AST, RegExpParser } from '@eslint-community/regexpp';
import { parseSync } from '@swc/core';
import { PRODUCT, sourceFiles } from '../helpers/source-files.ts';

interface Expression {
  file: string;
  /** The source text: `/a+/g`, or `RegExp(…)` for an expression that is composed at run time. */
  code: string;
  /** Missing for an expression that is composed at run time. */
  pattern?: RegExp;
}

/** Returns every expression in the product's source files, sorted by file, once per file. */
const productExpressions = (): Expression[] =>
  sourceFiles(...PRODUCT, 'test/aws').flatMap(({ file, text }) => [
    ...new Map(expressionsIn(file, text).map((expression) => [expression.code, expression])).values(),
  ]);

/** The parser's byte offsets continue from the previously parsed file. */
const spanStart = (module: { span: { start: number } }): number => module.span.start;

function expressionsIn(file: string, source: string): Expression[] {
  // A first statement provides this file's offset. A shebang line becomes a comment after it.
  const text = `0;${source.replace(/^#!/, '//')}`;
  const module = parseSync(text, { syntax: 'typescript', target: 'es2024' });
  const bytes = Buffer.from(text);
  const offset = spanStart(module);
  const found: Expression[] = [];
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) {
      for (const item of node) visit(item);
      return;
    }
    if (typeof node !== 'object' || node === null) return;
    const { type, pattern, flags, callee, span } = node as Record<string, unknown> & {
      callee?: { value?: string };
      span: { start: number; end: number };
    };
    if (type === 'RegExpLiteral') {
      found.push({ file, code: `/${pattern}/${flags}`, pattern: new RegExp(pattern as string, flags as string) });
    } else if ((type === 'NewExpression' || type === 'CallExpression') && callee?.value === 'RegExp') {
      found.push({ file, code: bytes.subarray(span.start - offset, span.end - offset).toString() });
    }
    for (const [name, value] of Object.entries(node)) if (name !== 'span') visit(value);
  };
  visit(module.body);
  return found;
}

// ------------------------------------------------------------------------------------------------ hostile inputs

/** Characters that are tried for a class: all of ASCII, and some of each other kind. */
const PROBES = [
  ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)),
  ...'éªäñ’“。！あカ한中ไ😀\u2028',
];

/** Limit for the copies of a counted group. */
const MAX_COPIES = 20;
/** A quantifier with at least this maximum gets its own inputs. */
const MIN_REPEATS = 10;
/** A character that few patterns match, a line end, which `.` does not match, and a word character. */
const SUFFIXES = ['\u0001', '\n', 'z'];
/** Enough for nearly all combinations of each pattern of the product. */
const MAX_INPUTS = 150;

interface HostileInput {
  prefix: string;
  pump: string;
  suffix: string;
}

const inputOf = ({ prefix, pump, suffix }: HostileInput, times: number): string => prefix + pump.repeat(times) + suffix;

/**
 * Generates inputs for a pattern. For each quantifier: a prefix that reaches it, many repetitions of its element (or of a
 * character that it shares with its neighbors), and a suffix that makes the match fail. Also repetitions of whole matches.
 */
function hostileInputs(pattern: RegExp): HostileInput[] {
  const { pattern: tree } = new RegExpParser().parseLiteral(String(pattern));
  const flags = pattern.flags.replace(/[gy]/g, '');
  const matches = (node: AST.Node, text: string): boolean => {
    try {
      return new RegExp(`^(?:${node.raw})$`, flags).test(text);
    } catch {
      return false;
    }
  };
  const sample = (node: AST.Node): string => {
    switch (node.type) {
      case 'Character':
        return String.fromCodePoint(node.value);
      case 'CharacterSet':
      case 'CharacterClass':
      case 'ExpressionCharacterClass':
        return (
          PROBES.findLast((probe) => /\w/.test(probe) && matches(node, probe)) ??
          PROBES.find((probe) => matches(node, probe)) ??
          ''
        );
      case 'Quantifier':
        return sample(node.element).repeat(Math.min(MAX_COPIES, Math.max(1, node.min)));
      case 'Group':
      case 'CapturingGroup':
        return node.alternatives.map(sample).find((text) => text !== '') ?? '';
      case 'Alternative':
        return node.elements.map(sample).join('');
      case 'Backreference':
        return Array.isArray(node.resolved) ? '' : sample(node.resolved);
      default:
        return '';
    }
  };
  /** Returns text that a match consumes before this node. */
  const before = (node: AST.Node): string => {
    const { parent } = node;
    if (parent === null) return '';
    if (parent.type !== 'Alternative') return before(parent);
    const index = parent.elements.indexOf(node as AST.Element);
    return before(parent) + parent.elements.slice(0, index).map(sample).join('');
  };

  /** Returns text for the nodes between this quantifier and the previous one. */
  const sinceLast = (node: AST.Quantifier): string => {
    const { parent } = node;
    if (parent.type !== 'Alternative') return '';
    const ahead = parent.elements.slice(0, parent.elements.indexOf(node));
    return ahead
      .slice(ahead.findLastIndex(({ type }) => type === 'Quantifier') + 1)
      .map(sample)
      .join('');
  };

  const leaves: AST.Node[] = [];
  const quantifiers: AST.Quantifier[] = [];
  const walk = (node: AST.Node): void => {
    if (node.type === 'Character' || node.type.endsWith('CharacterClass') || node.type === 'CharacterSet') {
      leaves.push(node);
      return;
    }
    if (node.type === 'Quantifier') {
      if (node.max >= MIN_REPEATS) quantifiers.push(node);
      walk(node.element);
    } else if ('alternatives' in node) for (const alternative of node.alternatives) walk(alternative);
    else if ('elements' in node) for (const element of node.elements) walk(element);
  };
  walk(tree);

  // One character for each class of characters that the pattern distinguishes.
  const kinds = new Map<string, string>();
  for (const probe of PROBES) {
    const kind = leaves.map((leaf) => (matches(leaf, probe) ? '1' : '0')).join('');
    if (!kinds.has(kind)) kinds.set(kind, probe);
  }
  const inputs: HostileInput[] = [];
  const add = (prefix: string, pumps: readonly string[]): void => {
    for (const pump of new Set(pumps.filter((text) => text !== ''))) {
      for (const suffix of SUFFIXES) inputs.push({ prefix, pump, suffix });
    }
  };
  for (const quantifier of quantifiers) {
    const shared = [...kinds.values()].filter((character) => matches(quantifier.element, character));
    const once = sample(quantifier.element);
    add(before(quantifier), [...shared.slice(0, 3), once, sinceLast(quantifier) + once, before(quantifier) + once]);
  }
  add('', [...tree.alternatives.map(sample), ...kinds.values()]);
  const different = [...new Map(inputs.map((input) => [JSON.stringify(input), input])).values()];
  // Sampled evenly, so that no quantifier is omitted.
  const step = Math.max(1, different.length / MAX_INPUTS);
  return Array.from(
    { length: Math.min(MAX_INPUTS, different.length) },
    (_, index) => different[Math.floor(index * step)] as HostileInput,
  );
}

const LIST = `${__dirname}/expressions.json`;

/** Superlinear but safe: they read short text from the person who deploys or runs the program. */
const READS_SETTINGS = new Set([
  'src/judge/connect.ts /^([a-z][a-z0-9_-]*):\\/+(.+)$/',
  'src/judge/transports/openai.ts /\\/+$/',
  'src/mlflow/artifact-store.ts /\\/+$/',
  'src/mlflow/artifact-store.ts /^mlflow-artifacts:(?:\\/\\/[^/]*)?\\/*(.*)$/',
  'src/mlflow/artifact-store.ts /^s3:\\/\\/([^/]+)\\/*(.*)$/',
  'src/mlflow/rest.ts /\\/+$/',
  'src/mlflow/runs.ts /^mlflow-artifacts:(?:\\/\\/[^/]*)?\\/*(.*)$/',
  'src/mlflow/runs.ts /^s3:\\/\\/([^/]+)\\/*(.*)$/',
  'lib/access/judge.ts /:application-inference-profile\\/.*$/',
  'lib/access/mlflow.ts /\\/+$/',
  'src/core/settings/variables.ts /(:\\/\\/[^?]*\\?).*$/s',
  'src/core/settings/variables.ts /\\/\\/.*@/s',
  'lib/access/work.ts /\\d+\\/$/',
  // Reads SageMaker's own answer.
  'bin/capture/switch.ts /\\/+$/',
  // Reads only paths on the disk.
  'bin/operate/capture-files.ts /([^/]+)\\/([^/]+)\\/\\d{4}\\/(?:0[1-9]|1[0-2])\\/(?:0[1-9]|[12]\\d|3[01])\\/(?:[01]\\d|2[0-3])\\/[^/]+\\.jsonl$/',
]);
/** Results of the patterns that are composed at run time, in the order of the code. */
const PUT_TOGETHER: Record<string, RegExp[]> = {
  'src/captures/errors/error-reply.ts': [
    /^Content\s{1,20}type\s{1,20}.{0,300}\s{1,20}is\s{1,20}not\s{1,20}supported\.[\s\S]*[.!]?$/i,
  ],
  'src/judge/prompt/record.ts': [/0a1b2c3d4e5f/i],
  'src/replay/marks/believe.ts': [/^replay-(?<mark>[0-9a-f]{16})?[0-9a-f]{32}$/],
  'src/core/settings/redact-setting.ts': [/,(?=\s*(?:(?:email|date_of_birth)\s*(?:,|$)|field:|pattern:))/],
  'src/captures/redact/births.ts': [
    /(?=(?:1[3-9]|2[0-5])\d\d(?!\d|[-/.]\d)|\d{1,3}年)(?<!\d|\d[-/.])(?:(?<=((?:(?<!\d)\d{1,2}(?:st|[.º])?(?:[ -]\p{L}{1,4}\.?)?[ ./-]{0,2}\p{L}[\p{L}\p{M}]{2,13}[.,]{0,2}(?:[ -]\p{L}{1,4}\.?)?|(?<!\p{L})\p{L}[\p{L}\p{M}]{2,13}\.? \d{1,2}(?:st)?,?)[ ./-]{0,2}))(\d{4})|(\d{4}\.?(?: \p{L}{1,5}\.?)? \p{L}[\p{L}\p{M}]{2,13} \d{1,2}|\d{1,4} ?[년年] ?\d{1,2} ?[월月] ?\d{1,2} ?[일日]?))(?!\d)/gu,
  ],
  'src/captures/redact/national-ids.ts': [
    /^(?:\d{9}[A-Z0-9]{2}\d)$/iu,
    /(?=[A-ZÑ&]{0,6}[- ]?\d)(?<![\p{L}\p{N}_+]|[\p{L}\p{N}][-.])(?:\d\d\.?\d{3}\.?\d{3}[ -]?[A-HJ-NP-TV-Z]|[A-Z]{3} ?[A-Z]{3} ?[0-9LMNP-V]{2}[A-EHLMPRST]|[2-9]\d{3}(?<aadhaar>[ -])\d{4}\k<aadhaar>\d{4})(?![\p{L}\p{N}_]|[-.]\p{N})/giu,
  ],
  'src/captures/redact/secrets.ts': [
    /(?:hf_[A-Za-z0-9]{30,}|sk-[\w-]{20,}|SG\.[\w-]{16,32}\.[\w-]{16,64})(?![\p{L}\d_-])/uy,
  ],
  'src/captures/redact/mask.ts': [/<(\\*)((?:email|date_of_birth)(?::[0-9a-f]{12})?>)/g],
  'src/core/settings/schema.ts': [/^[a-zA-Z0-9-]{1,40}$/],
  'local/machine/own-folder.ts': [/^mlflow-(\d+)-/],
  'src/judge/stand-in/read-prompt.ts': [/^#0a1b2c3d4e5f /m],
  'src/captures/files/other-files.ts': [/(?:^|\/)(?:in|out)put\/\d{4}\/\d\d\/\d\d\/\d\d\/[^/]{1,200}\.json$/],
  'src/captures/media.ts': [/^(?:ffd8ff|52494646.{8}57454250)/, /\[(?:base64(?:, \d+ bytes)?|image|audio)\]/g],
};

/** A linear expression needs a few milliseconds for this many repetitions, a quadratic one a hundred times that. */
const REPEATS = 24_000;
const LIMIT_MS = 100;
const TRIES = 2;
/** A busy machine gives a search at least this part of the time that passes. */
const LEAST_SHARE = 1 / 50;

const work = { search: (): unknown => undefined };
const context = createContext(work);
const search = new Script('search()');

/** Eight times the length with more than eight times the limit, to distinguish a slow machine from a quadratic expression. */
const MORE_REPEATS = 8 * REPEATS;
const MORE_MS = 30 * LIMIT_MS;

/**
 * Whether searching the whole text stays within the limit of processor time at least once. A time-out counts only if the search
 * had that time: a busy machine gives it less.
 */
function isQuick(pattern: RegExp, text: string, limitMs = LIMIT_MS): boolean {
  // A global expression searches for all matches, as in a replacement.
  work.search = () => (pattern.global ? text.replace(pattern, '') : pattern.exec(text));
  let timeout = limitMs;
  for (let slow = 0; slow < TRIES; ) {
    const started = process.cpuUsage();
    const spentMs = (): number => process.cpuUsage(started).user / 1_000;
    try {
      search.runInContext(context, { timeout });
      if (spentMs() < limitMs) return true;
    } catch (error) {
      // A time-out within an expression is an overflow of the stack at times.
      const isTimeOut = (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
      if (!isTimeOut && (error as Error).name !== 'RangeError') throw error;
    }
    if (spentMs() < limitMs && timeout < limitMs / LEAST_SHARE) timeout *= 2;
    else slow += 1;
  }
  return false;
}

/** Returns a few inputs on which the pattern is too slow. */
function slowInputs(pattern: RegExp, most = 3): HostileInput[] {
  const slow: HostileInput[] = [];
  for (const input of hostileInputs(pattern)) {
    if (slow.length < most && !isQuick(pattern, inputOf(input, REPEATS))) slow.push(input);
  }
  return slow;
}

const expressions = productExpressions();
const nameOf = ({ file, code }: Expression): string => `${file} ${code}`;

if (process.env.UPDATE_EXPRESSIONS === '1') {
  const byFile: Record<string, string[]> = {};
  for (const { file, code } of expressions) byFile[file] = [...(byFile[file] ?? []), code];
  writeFileSync(LIST, `${JSON.stringify(byFile, null, 2)}\n`);
}

test('lists exactly the expressions of the product', () => {
  const listed = JSON.parse(readFileSync(LIST, 'utf8')) as Record<string, string[]>;
  const names = Object.entries(listed).flatMap(([file, codes]) => codes.map((code) => `${file} ${code}`));
  expect(expressions.map(nameOf).sort()).toEqual(names.sort());
});

test('has an example of every expression that is composed at run time', () => {
  const together = expressions.filter(({ pattern }) => pattern === undefined).map(({ file }) => file);
  expect(together.sort()).toEqual(
    Object.entries(PUT_TOGETHER)
      .flatMap(([file, { length }]) => Array(length).fill(file))
      .sort(),
  );
});

test.each(
  // Each of them was once in the product, or is a textbook example. The generated inputs must detect all of them.
  [
    /^\s*```(?:json)?\s*\n([\s\S]*?)\n\s*```\s*$/i,
    /<title>\s*([^<]{3,120}?)\s*<\/title>/i,
    /<(think|thinking|reasoning)>[\s\S]*?<\/\1>/g,
    /[\p{P}\p{S}]+$/u,
    /^\s*([\w.:-]{1,128})\s*=\s*(.*?)\s*$/s,
    /(Z|UTC)?\s*(?:a|b)\s*$/,
    /0+$/,
    /\S+@\S+/g,
    /maximum (context|number of) .*tokens/i,
    /,? *(?:\.\.\.)?"[\s\S]*$/,
    /^application\/vnd\.sagemaker\..*binary.*$/,
    /^(a+)+$/,
  ].map((pattern) => [String(pattern), pattern] as const),
)('the inputs show that %s is superlinear', (_name, pattern) => {
  expect(slowInputs(pattern, 1)).toHaveLength(1);
});

test('every expression is linear on its generated inputs', () => {
  const slow: Record<string, string> = {};
  const literal = expressions.filter((one) => !READS_SETTINGS.has(nameOf(one)));
  const together = Object.entries(PUT_TOGETHER).flatMap(([file, patterns]) =>
    patterns.map((pattern) => ({ file, code: String(pattern), pattern })),
  );
  for (const expression of [...literal, ...together]) {
    const { pattern } = expression;
    const inputs = pattern === undefined ? [] : slowInputs(pattern);
    const sure = inputs.find((input) => pattern && !isQuick(pattern, inputOf(input, MORE_REPEATS), MORE_MS));
    if (sure !== undefined) slow[nameOf(expression)] = JSON.stringify(sure);
  }
  expect(slow).toEqual({});
});
