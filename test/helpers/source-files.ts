/** The source files that git lists, also those that are not committed yet. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { packagePath } from '../../src/core/process/package-folder.ts';

/** Folders with the product's code. */
export const PRODUCT = ['bin', 'lambda', 'lib', 'local', 'src', 'tools'];

export interface SourceFile {
  /** The path in the project. */
  file: string;
  text: string;
}

/** Returns the files of these folders, sorted by path. */
export function sourceFiles(...folders: string[]): SourceFile[] {
  const options = ['--cached', '--others', '--exclude-standard'];
  const listed = execFileSync('git', ['ls-files', ...options, ...folders], { cwd: packagePath(), encoding: 'utf8' });
  const files = [...new Set(listed.split('\n'))].filter(
    (file) => /(?<!\.d)\.[jt]s$/.test(file) && existsSync(packagePath(file)),
  );
  return files.sort().map((file) => ({ file, text: readFileSync(packagePath(file), 'utf8') }));
}
