/**
 * Jest's reporter: keeps in a file which test runs, for when the tests are killed. It ends them at the first failure, in the
 * middle of a test file too.
 */
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';

/** The last test that ran. Its name is empty while none of its file has started. */
export interface Progress {
  state: 'running' | 'failed' | 'passed';
  testFile: string;
  test: string;
}

export const NOTHING_YET: Progress = { state: 'running', testFile: '', test: '' };
export const progressIn = (folder: string): string => join(folder, 'progress.json');
// Before a test changes the environment.
const path = progressIn(tmpdir());
let progress = NOTHING_YET;

function keep(news: Partial<Progress>): void {
  progress = { ...progress, ...news };
  writeFileSync(path, JSON.stringify(progress));
  if (progress.state === 'failed') process.exit(1);
}

export default class ProgressReporter {
  onTestFileStart(file: { path: string; context: { config: { rootDir: string } } }): void {
    keep({ testFile: relative(file.context.config.rootDir, file.path), test: '' });
  }

  onTestCaseStart(_file: unknown, { fullName }: { fullName: string }): void {
    keep({ test: fullName });
  }

  onTestCaseResult(_file: unknown, { status, fullName }: { status: string; fullName: string }): void {
    if (status === 'failed') keep({ state: 'failed', test: fullName });
  }

  /** For failures outside of a test, such as an import that throws. */
  onTestFileResult(_file: unknown, { failureMessage }: { failureMessage?: string | null }): void {
    if (failureMessage) keep({ state: 'failed' });
  }

  onRunComplete(): void {
    keep({ state: 'passed' });
  }
}
