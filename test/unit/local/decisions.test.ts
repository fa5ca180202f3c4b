/** The index of the decisions. */
import { readdirSync, readFileSync } from 'node:fs';
import { packagePath } from '../../../src/core/process/package-folder.ts';

const FOLDER = packagePath('docs', 'decisions');
const read = (file: string): string => readFileSync(`${FOLDER}/${file}`, 'utf8');

test('lists every decision with its title, its date and what supersedes it', () => {
  const expected = readdirSync(FOLDER)
    .filter((file) => file !== 'README.md')
    .sort()
    .map((file) => {
      const [title = '', , head = ''] = read(file).split('\n');
      const date = /^Accepted (\d{4}-\d\d-\d\d)\./.exec(head)?.[1];
      const [, how = 'accepted'] = /((?:Partly s|S)uperseded by \[\d{4}\]\(\S+?\.md\))/.exec(head) ?? [];
      const status = `${how.charAt(0).toLowerCase()}${how.slice(1)}`;
      return `| [${file.slice(0, 4)}](${file}) | ${title.slice(2)} | ${date} | ${status} |`;
    });
  const rows = read('README.md')
    .split('\n')
    .filter((line) => line.startsWith('| ['));
  expect(rows).toEqual(expected);
});
