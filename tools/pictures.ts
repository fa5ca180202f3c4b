/**
 * `npm run pictures`: makes the pictures of the README from a local environment that runs, with the variables of `.local/env`: the
 * page of the worst trace in MLflow, and the page about the endpoint.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import type { WorstTraces } from '../bin/operate/worst.ts';
import { launchChromium } from '../local/machine/chromium.ts';
import { projectPath } from '../local/project-root.ts';

/** The first of the examples' days. */
const FROM = ['--from', '2026-11-18'];
/** MLflow's page draws a trace in a second or two. */
const SETTLE_MS = 4_000;

const monitor = (...args: string[]): string =>
  execFileSync(process.execPath, ['--import', './bin/ready.js', 'bin/inference-monitor.ts', ...args], {
    cwd: projectPath(),
    encoding: 'utf8',
  });

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

async function save(page: Page, name: string): Promise<void> {
  const path = projectPath('docs', 'images', name);
  await page.screenshot({ path });
  console.log(path);
}

const { worst } = JSON.parse(monitor('worst', ...FROM, '--limit', '1', '--json')) as WorstTraces;
const url = worst[0]?.url;
if (!url) throw new Error('worst found no trace; expected: the environment of npm start');
const folder = mkdtempSync(join(tmpdir(), 'report-'));
const browser = await launchChromium();
try {
  const trace = await browser.newPage({ viewport: { width: 1400, height: 760 } });
  await openTrace(trace, url);
  await save(trace, 'trace.png');
  const report = join(folder, 'report.html');
  monitor('report', ...FROM, '--to', '2026-11-21', '--worst', '--out', report);
  const page = await browser.newPage({ viewport: { width: 1200, height: 1000 } });
  await page.goto(`file://${report}`);
  await save(page, 'report.png');
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}
