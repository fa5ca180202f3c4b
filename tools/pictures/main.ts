/**
 * `npm run pictures`: makes the pictures of the README from a local environment that runs, with the variables of `.local/env`: the
 * output of `worst` on a terminal, the page of the worst trace in MLflow, and the page about the endpoint. Needs a Chromium, and `script` of util-linux.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { findChromium } from '../../local/machine/find-chromium.ts';
import { projectPath } from '../../local/project-root.ts';
import { terminalSvg } from './terminal-svg.ts';

const COLUMNS = 124;
const WORST = 'inference-monitor worst --from 2026-11-18 --limit 3';
/** MLflow's page draws a trace in a second or two. */
const SETTLE_MS = 4_000;

/** What the command prints on a terminal of this width, with its colors. */
function onTerminal(command: string): string {
  const typed = command.replace('inference-monitor', 'npm run -s monitor --');
  const env = { ...process.env, NO_COLOR: undefined, FORCE_COLOR: undefined, TERM: 'xterm-256color' };
  const script = `stty cols ${COLUMNS}; ${typed} 2>/dev/null`;
  return execFileSync('script', ['-qec', script, '/dev/null'], { env, cwd: projectPath(), encoding: 'utf8' });
}

async function picture(url: string, file: string): Promise<void> {
  const browser = await chromium.launch({ executablePath: findChromium(), args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage({ viewport: { width: 1400, height: 760 } });
    // At the first visit MLflow opens its assistant beside the traces.
    await page.goto(url.slice(0, url.indexOf('?')));
    const assistant = page.getByText('MLflow Assistant').first();
    if (
      await assistant.waitFor({ timeout: 20_000 }).then(
        () => true,
        () => false,
      )
    ) {
      await assistant.locator('xpath=ancestor::*[.//button][1]//button').last().click();
    }
    await page.goto(url);
    await page.reload();
    // The page asks for news all the time, so the network is never idle.
    await page.getByText('fluency').first().waitFor({ timeout: 60_000 });
    await page.waitForTimeout(SETTLE_MS);
    // Without room for the verdicts beside the reply, they are behind a button.
    if (!(await page.getByText('Add feedback').isVisible())) await page.getByText('Assess').first().click();
    await page.getByText('Add feedback').waitFor();
    await page.screenshot({ path: file });
  } finally {
    await browser.close();
  }
}

/** The page about the endpoint, on the days of the examples. */
async function reportPicture(file: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'report-'));
  const page = join(folder, 'report.html');
  const args = ['report', '--from', '2026-11-18', '--to', '2026-11-21', '--worst', '--out', page];
  execFileSync(process.execPath, ['--import', './bin/ready.js', 'bin/inference-monitor.ts', ...args], {
    cwd: projectPath(),
  });
  const browser = await chromium.launch({ executablePath: findChromium(), args: ['--no-sandbox'] });
  try {
    const opened = await browser.newPage({ viewport: { width: 1200, height: 1000 } });
    await opened.goto(`file://${page}`);
    await opened.screenshot({ path: file });
  } finally {
    await browser.close();
    rmSync(folder, { recursive: true });
  }
}

const output = onTerminal(WORST);
const terminal = projectPath('docs', 'images', 'worst.svg');
writeFileSync(terminal, terminalSvg(`$ ${WORST}\n${output}`, COLUMNS));
console.log(terminal);
const url = output
  .split(/\s/)
  .find((word) => word.includes('selectedEvaluationId'))
  ?.split('\u001b')[0];
if (url === undefined) throw new Error('worst printed no link; got: no trace; expected: the environment of npm start');
if (findChromium() === undefined) throw new Error('There is no Chromium; expected: one on the PATH, or CHROMIUM_PATH');
const trace = projectPath('docs', 'images', 'trace.png');
await picture(url, trace);
console.log(trace);
const report = projectPath('docs', 'images', 'report.png');
await reportPicture(report);
console.log(report);
