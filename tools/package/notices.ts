/** The licenses of the packages that are bundled, which ask to be passed on with the code. */
import { readdirSync, readFileSync } from 'node:fs';
import { projectPath } from '../../local/project-root.ts';

/** The folder of the innermost package that a file is in. */
const PACKAGE = /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;
const LICENSE_FILE = /^(?:licen[cs]e|copying|notice)/i;
const RULE = '-'.repeat(80);

/**
 * Lists the packages with their licenses. Packages with the same text are listed together.
 *
 * @param inputs the bundled files, relative to the project
 * @throws Error if a package does not say its license
 */
export function thirdPartyNotices(inputs: readonly string[]): string {
  const folders = new Set(inputs.flatMap((file) => PACKAGE.exec(file)?.[0] ?? []));
  const byText = new Map<string, Set<string>>();
  for (const folder of folders) {
    const manifest = JSON.parse(readFileSync(projectPath(folder, 'package.json'), 'utf8'));
    const { name, version, license, author } = manifest as Record<string, unknown>;
    if (typeof license !== 'string') {
      throw new Error(`A bundled package has no license; got: ${folder}; expected: a license in its package.json`);
    }
    const files = readdirSync(projectPath(folder), { withFileTypes: true })
      .filter((entry) => entry.isFile() && LICENSE_FILE.test(entry.name))
      .map((entry) => entry.name)
      .sort();
    const text = files.map((file) => readFileSync(projectPath(folder, file), 'utf8').trim()).join('\n\n');
    const packages = byText.get(text) ?? new Set();
    const by =
      text === '' && author ? `, by ${typeof author === 'string' ? author : (author as { name: string }).name}` : '';
    byText.set(text, packages.add(`${name} ${version} (${license})${by}`));
  }
  const parts = [...byText].map(([text, packages]) => `${[...packages].sort().join('\n')}\n\n${text}`.trim());
  return `This package contains code of the packages below.\n\n${parts.sort().join(`\n\n${RULE}\n\n`)}\n`;
}
