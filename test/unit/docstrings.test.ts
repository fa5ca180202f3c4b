/** Docstrings are about the code below them, also after it was renamed. */
import { PRODUCT, type SourceFile, sourceFiles } from '../helpers/source-files.ts';

const FILES = sourceFiles(...PRODUCT, 'bench', 'test');

/** Returns what is within the first parentheses: the parameters of the declaration that the code begins with. */
function parametersIn(code: string): string {
  const start = code.indexOf('(');
  let depth = 0;
  for (let end = start; end < code.length; end += 1) {
    if (code[end] === '(') depth += 1;
    if (code[end] === ')') depth -= 1;
    if (depth === 0) return code.slice(start, end);
  }
  return '';
}

/** The names of parameters and of what is taken out of them, but not of types. */
const NAMES = /(?<![:<|&'"]\s*|[\w$])[A-Za-z_$][\w$]*(?=\s*[,:?=}\]]|\s*$)/g;

/** Returns each `@param` that is about no parameter, with its place. `job.chunk` is about the parameter `job`. */
function staleParams({ file, text }: SourceFile): string[] {
  return [...text.matchAll(/\/\*\*[\s\S]*?\*\//g)].flatMap(({ 0: docstring, index }) => {
    const documented = [...docstring.matchAll(/@param (\w+)/g)].map(([, name = '']) => name);
    const names = new Set<string>(parametersIn(text.slice(index + docstring.length)).match(NAMES));
    const stale = documented.filter((name) => !names.has(name));
    return stale.map((name) => `${file}:${text.slice(0, index).split('\n').length}: no parameter is named ${name}`);
  });
}

test('each @param names a parameter', () => {
  expect(FILES.flatMap(staleParams)).toEqual([]);
});

test.each([
  ['function f<T>(found: Gone, { more }: Pick<Found, gone>) {}', true],
  ['const f = (found = 1, gone: Found) => gone;', false],
  ['constructor(readonly found: Found, ...gone: string[]) {}', false],
  ['function f(found: (gone: Found) => void): gone {}', false],
  ['const f = (found?: gone, later = gone()): gone => {', true],
  ['const f = async ({ gone: found }: Found): Promise<gone> => {', false],
  ['interface Gone {}', true],
])('%s', (code, isStale) => {
  const text = `\n/** Finds. ${'@'}param gone.by somebody */\n${code}`;
  expect(staleParams({ file: 'a.ts', text })).toEqual(isStale ? ['a.ts:2: no parameter is named gone'] : []);
});
