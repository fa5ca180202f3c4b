/** Finds every regular expression of the product, and generates inputs on which a superlinear one is slow. */
import { type AST, RegExpParser } from '@eslint-community/regexpp';
import { parseSync } from '@swc/core';
import { PRODUCT, sourceFiles } from './source-files.ts';

export interface Expression {
  file: string;
  /** The source text: `/a+/g`, or `RegExp(…)` for an expression that is composed at run time. */
  code: string;
  /** Missing for an expression that is composed at run time. */
  pattern?: RegExp;
}

/** Returns every expression in the product's source files, sorted by file, once per file. */
export const productExpressions = (): Expression[] =>
  sourceFiles(...PRODUCT, 'test/aws').flatMap(({ file, text }) => [
    ...new Map(expressionsIn(file, text).map((expression) => [expression.code, expression])).values(),
  ]);

/** The parser's byte offsets continue from the previously parsed file. */
const spanStart = (module: { span: { start: number } }): number => module.span.start;

export function expressionsIn(file: string, source: string): Expression[] {
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

export interface HostileInput {
  prefix: string;
  pump: string;
  suffix: string;
}

export const inputOf = ({ prefix, pump, suffix }: HostileInput, times: number): string =>
  prefix + pump.repeat(times) + suffix;

/**
 * Generates inputs for a pattern. For each quantifier: a prefix that reaches it, many repetitions of its element (or of a
 * character that it shares with its neighbors), and a suffix that makes the match fail. Also repetitions of whole matches.
 */
export function hostileInputs(pattern: RegExp): HostileInput[] {
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
