/** Makes a release for one's own bucket: the stack's template and the functions' zips. */
import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { releasedTemplate } from '../../lib/released-stack.ts';
import { zipBundles } from './build.ts';

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
