/** The rooms of docs/rooms.md, which of them may import from which, and that nothing imports in a circle. */
import { readFileSync } from 'node:fs';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { type Import, importsOf } from '../helpers/imports.ts';
import { PRODUCT, sourceFiles } from '../helpers/source-files.ts';

const ROOMS = [...readFileSync(packagePath('docs', 'rooms.md'), 'utf8').matchAll(/^\| `([^`]+)` \|/gm)].map(
  ([, room = '']) => room,
);
const MOST_ROOMS = 17;
const MOST_ARROWS = 78;

/** The product's imports of its own files, types too. `dist` is what is built of them. */
const IMPORTS = importsOf(sourceFiles(...PRODUCT)).filter(({ imported }) => !imported.startsWith('dist/'));

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

/** Returns the folder that contains both ends of an import, with a slash at its end. */
function folderOf({ file, imported }: Import): string {
  const parts = file.split('/');
  const common = parts.findIndex((part, index) => part !== imported.split('/')[index]);
  return parts
    .slice(0, common)
    .map((part) => `${part}/`)
    .join('');
}

/** Returns the shortest circle of imports that leads from a file or folder of this folder back to it, as text. */
function circleIn(folder: string, imports: readonly Import[]): string[] {
  const entryOf = (path: string): string => path.slice(folder.length).split('/')[0] as string;
  const byEntry = Map.groupBy(imports, ({ file }) => entryOf(file));
  const circles = [...byEntry.keys()].flatMap((start) => {
    // The loop also visits the entries that it adds, so that each way is the shortest one.
    const ways = new Map<string, Import[]>([[start, []]]);
    for (const [entry, way] of ways) {
      for (const next of byEntry.get(entry) ?? []) {
        const to = entryOf(next.imported);
        if (to === start) return [[...way, next]];
        if (!ways.has(to)) ways.set(to, [...way, next]);
      }
    }
    return [];
  });
  const [shortest] = circles.toSorted((a, b) => a.length - b.length);
  return shortest ? [shortest.map(({ file, imported }) => `${file} imports ${imported}`).join(', ')] : [];
}

test('the files and folders of a folder import from each other in one direction', () => {
  const circles = [...Map.groupBy(IMPORTS, folderOf)].flatMap(([folder, imports]) => circleIn(folder, imports));
  expect(circles).toEqual([]);
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
