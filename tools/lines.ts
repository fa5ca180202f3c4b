/**
 * `npm run lines [-- <revision>]`: how many lines of code the product, its tests and its benchmarks have, without blank lines and
 * comments, in the files that git tracks: those of the work tree, or of a revision, so that a change can be compared.
 */
import { execFileSync } from 'node:child_process';

const PARTS = { product: ['bin', 'lib', 'lambda', 'src', 'local', 'tools'], tests: ['test'], bench: ['bench'] };

const TOKEN = /(?<blank>\s+|\/\/[^\n]*|\/\*.*?\*\/)|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[\w$]+|./sy;
/** A piece of a template, up to its end or to an expression in it. */
const TEMPLATE = /[`}](?:\\.|\$(?!\{)|[^\\`$])*(?:`|\$\{)/sy;
const REGULAR_EXPRESSION = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\//y;
/** What a slash divides; after anything else, a slash starts a regular expression. */
const OPERAND = /^(?!(?:return|typeof|case|of|in|await|yield|void|else|do)$)[\w$'"`)\]}]/;

/** @returns how many lines of a program have code */
export function linesOf(program: string): number {
  const braces: ('template' | 'block')[] = [];
  let code = '';
  let before = '';
  for (let at = 0; at < program.length; ) {
    const match = (pattern: RegExp): RegExpExecArray | null => {
      pattern.lastIndex = at;
      return pattern.exec(program);
    };
    const token = match(TOKEN);
    let text = token?.[0] ?? '';
    if (text === '{') braces.push('block');
    else if (text === '`' || (text === '}' && braces.pop() === 'template')) {
      text = match(TEMPLATE)?.[0] ?? text;
      if (text.endsWith('{')) braces.push('template');
    } else if (text === '/' && !OPERAND.test(before)) text = match(REGULAR_EXPRESSION)?.[0] ?? text;
    const blank = token?.groups?.blank !== undefined;
    code += blank ? text.replace(/.+/g, '') : text;
    if (!blank) before = text;
    at += text.length;
  }
  return code.split('\n').filter((line) => line.trim() !== '').length;
}

/** @param revision - as git names one; without it, the files of the work tree. @returns the programs by path */
function programs(revision: string[]): Map<string, string> {
  const grep = ['grep', '-a', '-z', '--no-color', '--no-line-number', '--no-column', '-e', '', ...revision];
  const options = { encoding: 'utf8', maxBuffer: 2 ** 30 } as const;
  const files = new Map<string, string>();
  for (const line of execFileSync('git', [...grep, '--', '*.ts', '*.js', '*.mjs'], options).split('\n')) {
    const [name = '', text = ''] = line.split('\0');
    files.set(name, `${files.get(name) ?? ''}${text}\n`);
  }
  return files;
}

function printLines(revision: string[]): void {
  const lines = Object.fromEntries(Object.keys(PARTS).map((part) => [part, 0]));
  for (const [name, program] of programs(revision)) {
    const folder = name.slice(revision.join().length).replace(/^:/, '').split('/')[0] ?? '';
    const part = Object.entries(PARTS).find(([, folders]) => folders.includes(folder))?.[0];
    if (part) lines[part] = (lines[part] ?? 0) + linesOf(program);
  }
  lines.total = Object.values(lines).reduce((sum, count) => sum + count);
  for (const [part, count] of Object.entries(lines))
    console.log(part.padEnd(8), count.toLocaleString('en').padStart(8));
}

if (process.argv[1]?.endsWith('lines.ts')) printLines(process.argv.slice(2, 3));
