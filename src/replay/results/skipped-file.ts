/** Lines that are not replayed: counted by reason, and listed with their places in a file, if there are any. */
import { join } from 'node:path';
import type { SkippedLine } from '../source/types.ts';
import { LineWriter } from './line-writer.ts';

export const SKIPPED_FILE = 'skipped.jsonl';

export function skippedFile(directory: string, onError?: (error: Error) => void) {
  const reasons = new Map<string, number>();
  const path = join(directory, SKIPPED_FILE);
  let file: LineWriter | undefined;
  return {
    reasons: reasons as ReadonlyMap<string, number>,
    add: (line: SkippedLine): void => {
      reasons.set(line.reason, (reasons.get(line.reason) ?? 0) + 1);
      file ??= new LineWriter(path, onError);
      file.write(JSON.stringify(line));
    },
    /** Completes the file. @returns its path; `undefined` without lines */
    close: async (): Promise<string | undefined> => {
      await file?.close();
      return file?.path;
    },
  };
}
