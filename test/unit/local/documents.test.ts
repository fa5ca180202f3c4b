/** The commands, options and links in the documents exist, and each block of the README is run by a test. */
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { COMMANDS } from '../../../bin/commands.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { type Call, callsIn, documents, shellBlocks } from '../../helpers/document-commands.ts';
// What runs the lines that `test/slow/readme.test.ts` does not run: they install, deploy, or are tests themselves.
import RUN_BY from './run-by.json' with { type: 'json' };

const GLOBAL = ['--help', '--version', '--debug', '--no-color'];
/** Their options are those of other programs. */
const PASSES_ON = ['deploy', 'destroy', 'smoke'];

const blocks = documents().flatMap(shellBlocks);

test('every command and option of the documents exists', async () => {
  const calls: (Call & { file: string })[] = blocks.flatMap(({ file, lines }) =>
    lines.flatMap((line) => callsIn(line).map((call) => ({ ...call, file }))),
  );
  expect(calls.length).toBeGreaterThan(40);
  const wrong: string[] = [];
  for (const { file, command, options } of calls) {
    const load = COMMANDS[command];
    if (load === undefined) wrong.push(`${file}: ${command}`);
    if (load === undefined || PASSES_ON.includes(command)) continue;
    const known = [...GLOBAL, ...(await load()).options.flatMap(({ long }) => long ?? [])];
    wrong.push(...options.filter((one) => !known.includes(one)).map((one) => `${file}: ${command} ${one}`));
  }
  expect(wrong).toEqual([]);
});

test('every block can be parsed by bash, and no two commands share a line', () => {
  // bash would complain about a missing locale.
  const env = { PATH: process.env.PATH, LC_ALL: 'C' };
  const wrong = blocks.flatMap(({ file, lines }) => [
    ...lines.filter((line) => /^--|(?<!^npx|^until|[;&|({])\s+(?:inference-monitor|npm|aws) /.test(line)),
    ...(spawnSync('bash', ['-n'], { input: lines.join('\n'), env }).status === 0 ? [] : [`${file}: ${lines[0]}`]),
  ]);
  expect(wrong).toEqual([]);
});

test('every npm script of the documents exists', () => {
  const { scripts } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8')) as { scripts: object };
  const named = blocks.flatMap(({ lines }) =>
    lines.flatMap((line) => [...line.matchAll(/npm run (?:-s )?([\w:-]+)/g)]),
  );
  const names = named.map(([, name = '']) => name);
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
});

test('every block of the README says how it is tested, what runs it exists, and it is short', () => {
  const readme = shellBlocks('README.md');
  expect(readme.filter(({ test }) => test === 'local').length).toBeGreaterThan(1);
  for (const { test, lines } of readme) {
    expect([test, lines[0]]).toEqual([expect.stringMatching(/^(start|local|account)$/), lines[0]]);
    if (test === 'account') expect(lines.filter((line) => !Object.hasOwn(RUN_BY, line))).toEqual([]);
  }
  for (const file of Object.values(RUN_BY)) expect([file, existsSync(packagePath(file))]).toEqual([file, true]);
  expect(readFileSync(packagePath('README.md'), 'utf8').trimEnd().split('\n').length).toBeLessThanOrEqual(100);
});

/** The anchor of a heading, as GitHub makes it. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');

test('every link of the documents leads to a file, and to a heading of it', () => {
  const roots = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];
  const files = [...roots, ...globSync(['docs/**/*.md', 'examples/**/*.md'], { cwd: packagePath() })];
  const read = (file: string): string => readFileSync(packagePath(file), 'utf8').replaceAll(/^```[\s\S]*?^```/gm, '');
  const anchors = new Map(
    files.map((file) => [file, [...read(file).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => anchorOf(title))]),
  );
  const broken = files.flatMap((file) =>
    [...read(file).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].flatMap(([link, path = '', anchor]) => {
      const target = path === '' ? file : join(dirname(file), path);
      const isThere = existsSync(packagePath(target));
      return isThere && (anchor === undefined || anchors.get(target)?.includes(anchor)) ? [] : [`${file}: ${link}`];
    }),
  );
  expect(broken).toEqual([]);
});

test('every term of the glossary stands there once, and is used', () => {
  const glossary = readFileSync(packagePath('docs', 'glossary.md'), 'utf8');
  const terms = [...glossary.matchAll(/^\| (?!Term |---)(.+?) \|/gm)].map(([, term = '']) => term);
  const files = globSync(['{src,lib,lambda,bin}/**/*.ts', 'docs/*.md'], { cwd: packagePath() });
  const texts = files
    .filter((file) => !file.endsWith('glossary.md'))
    .map((file) => readFileSync(packagePath(file), 'utf8'))
    .join('\n');
  // In code, the words of a term are one name.
  expect(terms.filter((term) => !new RegExp(term.replaceAll(' ', '[-\\s]*'), 'i').test(texts))).toEqual([]);
  expect(terms.filter((term, at) => terms.indexOf(term) !== at)).toEqual([]);
});

const DECISIONS = packagePath('docs', 'decisions');
const readDecision = (file: string): string => readFileSync(`${DECISIONS}/${file}`, 'utf8');

test('the index of the decisions lists every decision with its title, its date and what supersedes it', () => {
  const expected = readdirSync(DECISIONS)
    .filter((file) => file !== 'README.md')
    .sort()
    .map((file) => {
      const [title = '', , head = ''] = readDecision(file).split('\n');
      const date = /^Accepted (\d{4}-\d\d-\d\d)\./.exec(head)?.[1];
      const [, how = 'accepted'] = /((?:Partly s|S)uperseded by \[\d{4}\]\(\S+?\.md\))/.exec(head) ?? [];
      const status = `${how.charAt(0).toLowerCase()}${how.slice(1)}`;
      return `| [${file.slice(0, 4)}](${file}) | ${title.slice(2)} | ${date} | ${status} |`;
    });
  const rows = readDecision('README.md')
    .split('\n')
    .filter((line) => line.startsWith('| ['));
  expect(rows).toEqual(expected);
});
