/** The rooms of docs/rooms.md, and which of them may import from which. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { projectPath } from '../../local/project-root.ts';

const ROOMS = [...readFileSync(projectPath('docs', 'rooms.md'), 'utf8').matchAll(/^\| `([^`]+)` \|/gm)].map(
  ([, room = '']) => room,
);
const MOST_ROOMS = 17;
const MOST_ARROWS = 85;

/** The product's imports of its own files, types too. `dist` is what is built of them. */
const IMPORTS = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: projectPath(),
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => /^(?:bin|lambda|lib|local|src|tools)\/.*\.(?:ts|js)$/.test(file))
  .flatMap((file) =>
    [...readFileSync(projectPath(file), 'utf8').matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.{1,2}\/[^']+)'/g)].map(
      ([, path = '']) => ({ file, imported: normalize(join(dirname(file), path)) }),
    ),
  )
  .filter(({ imported }) => !imported.startsWith('dist/'));

const layerOf = (file: string): number => ROOMS.findIndex((room) => file.startsWith(`${room}/`));

test('every product file is in a room', () => {
  expect(IMPORTS.map(({ file }) => file).filter((file) => layerOf(file) === -1)).toEqual([]);
});

test('no room imports from a room below it', () => {
  const wrong = IMPORTS.filter(({ file, imported }) => layerOf(imported) > layerOf(file) || layerOf(imported) === -1);
  expect(
    wrong.map(({ file, imported }) => `${file} imports ${imported}, which is in a lower room of docs/rooms.md`),
  ).toEqual([]);
});

test('the rooms are few, and so are the arrows between them', () => {
  const arrows = new Set(
    IMPORTS.filter(({ file, imported }) => layerOf(file) !== layerOf(imported)).map(
      ({ file, imported }) => `${ROOMS[layerOf(file)]} → ${ROOMS[layerOf(imported)]}`,
    ),
  );
  expect(IMPORTS.length).toBeGreaterThan(1000);
  expect(ROOMS.length).toBeLessThanOrEqual(MOST_ROOMS);
  expect(arrows.size).toBeLessThanOrEqual(MOST_ARROWS);
});
