/** The functions as zips. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Zippable, zipSync } from 'fflate';
import { bundleFunctions } from '../../lib/bundle-functions.ts';

/** In the fields of a zip, which have no time zone. */
const SAME_TIME = new Date(1980, 0, 1);
/** A regular file that everybody may read, as on Unix: Lambda refuses a file that it may not. */
const READABLE = { os: 3, attrs: 0o100644 << 16 };

/**
 * Zips bundles. The same sources give the same bytes, so that the CDK does not deploy them again.
 *
 * @param bundles a folder as `bundleFunctions` makes it
 * @param nameOf a zip's name, by the folder of the handler and the content
 * @returns the names by the folder of the handler
 */
export function zipBundles(
  bundles: string,
  outdir: string,
  nameOf: (folder: string, zip: Uint8Array) => string = (folder) => `${folder}.zip`,
): Record<string, string> {
  mkdirSync(outdir, { recursive: true });
  return Object.fromEntries(
    readdirSync(bundles).map((folder) => {
      const files = readdirSync(join(bundles, folder)).map((file): [string, Zippable[string]] => {
        const code = readFileSync(join(bundles, folder, file));
        return [file, [code, { ...READABLE, level: 9, mtime: SAME_TIME }]];
      });
      const zip = zipSync(Object.fromEntries(files));
      const name = nameOf(folder, zip);
      writeFileSync(join(outdir, name), zip);
      return [folder, name];
    }),
  );
}

/** Bundles the functions for the time of some work. */
export function withBundles<T>(work: (bundles: string, inputs: string[]) => T): T {
  const bundles = mkdtempSync(join(tmpdir(), 'functions-'));
  try {
    return work(bundles, bundleFunctions(bundles).inputs);
  } finally {
    rmSync(bundles, { recursive: true });
  }
}
