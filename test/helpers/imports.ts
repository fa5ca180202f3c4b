/** Which of the project's own files import which, read from their text. */
import { dirname, join, normalize } from 'node:path';

export interface Import {
  file: string;
  imported: string;
  /** Whether the statement imports types alone, which are gone when the file runs. */
  typesAlone: boolean;
}

/** Also a path with a name in it, up to the name. */
const IMPORT = /(?:\b(?:import|export)\b( type\b)?[^';]*?\bfrom|\bimport)\s*\(?\s*['`](\.{1,2}\/[^'`$]+)/g;

/** Returns the relative imports of these files, by paths in the project. */
export const importsOf = (files: readonly { file: string; text: string }[]): Import[] =>
  files.flatMap(({ file, text }) =>
    [...text.matchAll(IMPORT)].map(([, type, path = '']) => ({
      file,
      imported: normalize(join(dirname(file), path)),
      typesAlone: type !== undefined,
    })),
  );
