/** Tests of pages in a real browser. */
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { hasChromium } from './chromium.ts';

const isSkipped = !hasChromium() && !process.env.CI;
if (isSkipped) console.warn('No Chromium on the PATH and no CHROMIUM_PATH: tests in a browser are skipped.');

/** `describe` of tests that need a browser. Without one they fail in CI, and are skipped elsewhere. */
export const inBrowser = isSkipped ? describe.skip : describe;

/** Widths in pixels of a phone and a desktop, each in light and dark. */
export const VIEWS = [
  [400, 'light'],
  [400, 'dark'],
  [1280, 'light'],
  [1280, 'dark'],
] as const;

interface Axe {
  run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
}

/** Expects that the page does not scroll horizontally, and that axe finds nothing. */
export async function expectReadable(page: Page, [width, colorScheme]: (typeof VIEWS)[number]): Promise<void> {
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme });
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
  await page.evaluate(readFileSync(packagePath('node_modules', 'axe-core', 'axe.min.js'), 'utf8'));
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: Axe };
    return (await axe.run()).violations.map(({ id, nodes }) => ({ id, first: nodes[0]?.html }));
  });
  expect(found).toEqual([]);
}
