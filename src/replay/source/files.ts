/** Finds capture files on the local disk. */
import { readdir, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { PermanentError } from '../../core/errors/errors.ts';
import type { SourceFile } from './types.ts';

const CAPTURE_SUFFIXES = ['.jsonl', '.jsonl.gz'];

/** What a capture file is, for a person who gave another one. */
export const CAPTURE_FILES =
  'files of Data Capture: JSON lines, named *.jsonl or *.jsonl.gz, with an object with captureData on each line';

/** The folder beside captures that holds their true answers. Nothing in it is a capture. */
export const LABELS_FOLDER = 'labels';

/** @param root the folder that a person names */
export const isBesideLabels = (root: string, path: string): boolean =>
  relative(root, path).split(sep)[0] !== LABELS_FOLDER;

const byName = (a: SourceFile, b: SourceFile): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

/**
 * Lists the capture files of a path: the file itself, or all `*.jsonl` and `*.jsonl.gz` below a directory but not in its `labels`,
 * sorted by path.
 *
 * @throws PermanentError `SourceMissing`, `NoCaptureFiles`
 */
export async function localFiles(path: string): Promise<SourceFile[]> {
  let facts: Awaited<ReturnType<typeof stat>>;
  try {
    facts = await stat(path);
  } catch (error) {
    const expected = 'a capture file, a directory with *.jsonl files, or s3://bucket/prefix';
    throw new PermanentError('SourceMissing', 'No captures exist at that path', { got: path, expected }, error);
  }
  if (!facts.isDirectory()) return [{ path, name: path, size: facts.size }];
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const files: SourceFile[] = [];
  for (const entry of entries) {
    if (!CAPTURE_SUFFIXES.some((ending) => entry.name.endsWith(ending))) continue;
    const file = join(entry.parentPath, entry.name);
    if (!isBesideLabels(path, file)) continue;
    // Links are followed. A broken link is reported when the file is read.
    const target = await stat(file).catch(() => undefined);
    if (!target?.isDirectory()) files.push({ path: file, name: file, size: target?.size ?? 0 });
  }
  if (files.length === 0) {
    throw new PermanentError('NoCaptureFiles', 'The directory contains no capture files', {
      got: path,
      expected: `files that end with ${CAPTURE_SUFFIXES.join(' or ')}, at any depth`,
    });
  }
  return files.sort(byName);
}
