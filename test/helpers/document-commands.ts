/** The shell blocks of the project's documents, and the commands in them. */
import { globSync, readFileSync } from 'node:fs';
import { packagePath } from '../../src/core/process/package-folder.ts';

export interface ShellBlock {
  /** Such as `docs/replay.md`. */
  file: string;
  /** How the block is tested, from the comment `<!-- test: … -->` before it. */
  test: string | undefined;
  /** Its commands, each on one line, without comments. */
  lines: string[];
}

const BLOCK = /(?:<!-- test: (\w+) -->\n)?```(?:sh|bash)\n([\s\S]*?)^```/gm;

const pages = () => globSync(['docs/*.md', 'docs/maintainers/*.md'], { cwd: packagePath() });
export const documents = (): string[] => ['README.md', 'CONTRIBUTING.md', ...pages()];

/** @param file relative to the project */
export const shellBlocks = (file: string): ShellBlock[] =>
  [...readFileSync(packagePath(file), 'utf8').matchAll(BLOCK)].map(([, test, text = '']) => ({
    file,
    test,
    lines: text
      .replaceAll(/\\\n\s*/g, '')
      .split('\n')
      .map((line) => line.replace(/(^|\s{2,})#.*$/, '').trim())
      .filter(Boolean),
  }));

/** A call of the command line: its command and its options. */
export interface Call {
  command: string;
  options: string[];
}

const CALL = /(?:^|[;&|(]\s*|\s)(?:npx )?(?:inference-monitor|npm run (?:-s )?monitor --)\s+([a-z][a-z-]*)([^;&|]*)/g;

export const callsIn = (line: string): Call[] =>
  [...line.matchAll(CALL)].map(([, command = '', rest = '']) => ({
    command,
    // Not those in quotes, which are the caller's text.
    options: [...rest.replaceAll(/'[^']*'|"[^"]*"/g, '').matchAll(/(?<=\s)--[a-z][a-z-]*/g)].map(([option]) => option),
  }));
