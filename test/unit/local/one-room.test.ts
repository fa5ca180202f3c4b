/** `npm run test:unit -- test/unit/limits` runs the tests of one room; so does each other script of a level. */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { packagePath } from '../../../src/core/process/package-folder.ts';

const { scripts } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

test('each script of a level ends its levels in the same way', () => {
  const levels = Object.keys(scripts).filter((name) => /^test(:|$)/.test(name));
  expect(levels.length).toBeGreaterThan(7);
  const rests = levels.map((name) => scripts[name]?.replace(/^jest --selectProjects( \w+)+/, ''));
  expect(new Set(rests)).toEqual(new Set([' --config=jest.config.js']));
});

test('a path after a script is a path', () => {
  const jest = [packagePath('node_modules/jest/bin/jest.js'), ...(scripts.test ?? '').split(' ').slice(1)];
  const listed = execFileSync(process.execPath, [...jest, 'test/unit/limits', '--listTests', '--json'], {
    cwd: packagePath(),
    encoding: 'utf8',
    stdio: 'pipe',
  });
  const room = readdirSync(packagePath('test/unit/limits')).filter((name) => name.endsWith('.test.ts'));
  const paths = room.map((name) => packagePath('test/unit/limits', name));
  expect((JSON.parse(listed) as string[]).toSorted()).toEqual(paths.toSorted());
});
