/**
 * `npm run pictures`: makes the README's picture of the worst trace in MLflow from a local environment that runs, with the variables of
 * `.local/env`. The picture of the page about the endpoint is that of its test.
 */
import { execFileSync } from 'node:child_process';
import type { Page } from 'playwright-core';
import type { WorstTraces } from '../bin/operate/worst.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { launchChromium } from './helpers/chromium.ts';

/** MLflow's page draws a trace in a second or two. */
const SETTLE_MS = 4_000;

async function openTrace(page: Page, url: string): Promise<void> {
  // At the first visit MLflow opens its assistant beside the traces.
  await page.goto(url.slice(0, url.indexOf('?')));
  const assistant = page.getByText('MLflow Assistant').first();
  const isThere = await assistant.waitFor({ timeout: 20_000 }).then(
    () => true,
    () => false,
  );
  if (isThere) await assistant.locator('xpath=ancestor::*[.//button][1]//button').last().click();
  await page.goto(url);
  await page.reload();
  // The page asks for news all the time, so the network is never idle.
  await page.getByText('fluency').first().waitFor({ timeout: 60_000 });
  await page.waitForTimeout(SETTLE_MS);
  // Without room for the verdicts beside the reply, they are behind a button.
  if (!(await page.getByText('Add feedback').isVisible())) await page.getByText('Assess').first().click();
  await page.getByText('Add feedback').waitFor();
}

const monitor = ['--import', './bin/ready.js', 'bin/inference-monitor.ts'];
const asked = ['worst', '--from', '2026-11-18', '--limit', '1', '--json'];
const printed = execFileSync(process.execPath, [...monitor, ...asked], { cwd: packagePath(), encoding: 'utf8' });
const { worst } = JSON.parse(printed) as WorstTraces;
const url = worst[0]?.url;
if (!url) throw new Error('worst found no trace; expected: the environment of npm start');
const browser = await launchChromium();
try {
  const trace = await browser.newPage({ viewport: { width: 1400, height: 760 } });
  await openTrace(trace, url);
  await trace.screenshot({ path: packagePath('docs', 'images', 'trace.png') });
} finally {
  await browser.close();
}
