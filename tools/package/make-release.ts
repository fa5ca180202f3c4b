/** Makes a release for one's own bucket: the stack's template and the functions' zips. */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Zippable, zipSync } from 'fflate';
import { bundleFunctions } from '../../lib/bundle-functions.ts';
import { releasedTemplate } from '../../lib/released-stack.ts';

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

/** CloudFormation sees by the name that a function has changed. */
const HASH_CHARS = 16;
const named = (folder: string, zip: Uint8Array): string =>
  `${folder}-${createHash('sha256').update(zip).digest('hex').slice(0, HASH_CHARS)}.zip`;

/**
 * Writes `template.json` and the folder `zips`.
 *
 * @param variables the settings as in the environment
 * @param bundles a folder with the functions' bundles
 * @throws Error `InvalidSettings`
 */
export function makeRelease(
  variables: Readonly<Record<string, string | undefined>>,
  bundles: string,
  outdir: string,
): void {
  const zips = join(outdir, 'zips');
  rmSync(zips, { recursive: true, force: true });
  mkdirSync(zips, { recursive: true });
  const template = releasedTemplate(variables, zipBundles(bundles, zips, named));
  writeFileSync(join(outdir, 'template.json'), `${JSON.stringify(template, null, 1)}\n`);
}
