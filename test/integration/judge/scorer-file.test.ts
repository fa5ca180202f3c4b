/** `judge --scorer-file`: scorers in Python on captures of the disk. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exitCodeOf, judgePage } from '../../../bin/commands/judge.ts';
import { type JudgeFlags, type JudgeReport, judgeFiles } from '../../../bin/commands/judge-run.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { pageText } from '../../../src/core/text/page.ts';
import { expectPublished } from '../../helpers/published-json.ts';
import { temporaryFolder } from '../../helpers/temporary-folder.ts';

const CAPTURES = packagePath('examples', 'captures');
const EXAMPLE = packagePath('examples', 'scorers', 'custom_metric.py');

/** Judges the first ten captures, one of which says "bleach". */
async function judged(scorerFile: string, flags: Partial<JudgeFlags> = {}, signal = new AbortController().signal) {
  const report = await judgeFiles(CAPTURES, { limit: 10, budget: 1, scorerFile, ...flags }, signal, {});
  return expectPublished('judge', JSON.stringify(report)) as JudgeReport;
}

function file(code: string): string {
  const path = join(temporaryFolder('scorers-'), 'mine.py');
  writeFileSync(path, code);
  return path;
}

/** A scorer with this body, from line 5. */
const scoring = (body: string) =>
  file(
    `import os, sys, time\nfrom sagemaker_inference_monitor_scorers import *\n@scorer\ndef mine(reply):\n    ${body}\n    return 1\n`,
  );

test('runs the example without a judge, and without credentials', async () => {
  const report = await judged(EXAMPLE);
  expect(report).toMatchObject({ captures: 10, missing: {}, spend: { usd: 0 } });
  expect(report.judge).toBeUndefined();
  expect(report.scorers).toMatchObject([{ name: 'custom_metric', verdicts: 10, passes: null, numbers: { max: 20 } }]);
  expect(exitCodeOf(report)).toBe(0);
});

test('has verdicts, costs and failures as of other scorers, whatever the file prints', async () => {
  const path = file(`
import os, sys
from typing import Literal
from sagemaker_inference_monitor_scorers import Feedback, scorer
print("loaded")
sys.stderr.write(sys.stdin.read())

@scorer
def safe(reply) -> Literal["good", "bad"]:
    print("asked", flush=True)
    return "bad" if "bleach" in reply else "good"

@scorer
def short(outputs) -> bool:
    return len(outputs) < 1000

@scorer
def variables(trace):
    return Feedback(",".join(sorted(os.environ)), "of the process", usd=0.01)
`);
  const { scorers } = await judged(path, { scorer: ['response_words', 'short'] });
  expect(scorers.map(({ name }) => name)).toEqual(['response_words', 'short']);
  const all = await judged(path, { atLeast: [{ scorer: 'safe', atLeast: 0.95 }] });
  expect(all.scorers).toMatchObject([
    { name: 'safe', values: { good: 9, bad: 1 }, passes: { hits: 9, of: 10 } },
    { name: 'short', values: { true: 10 }, passes: { hits: 10 } },
    { name: 'variables', passes: null },
  ]);
  const [names = ''] = Object.keys(all.scorers[2]?.values ?? {});
  expect(names).toContain('PATH');
  expect(names).not.toMatch(/AWS|KEY|TOKEN|NODE|npm/);
  expect(all.spend.usd).toBeCloseTo(0.1);
  expect(all.thresholds).toEqual([{ scorer: 'safe', atLeast: 0.95, holds: false }]);
  expect(pageText(judgePage(all))).toMatch(/fail +safe: bad/);
});

test.each([
  ['if "bleach" in reply: os._exit(7)', 1, 'ScorerFailed', 'got: exit code 7'],
  ['if "bleach" in reply: os.write(3, b"x" * 2_000_000)', 1, 'ScorerReplyTooLong', 'at most 1000000 bytes'],
  ['if "bleach" in reply: os.write(3, b"{}\\n")', 1, 'ScorerReplyUnreadable', 'another number'],
  ['if "bleach" in reply: raise KeyError("x")', 1, 'ScorerFailed', "KeyError: 'x'"],
  ['if "bleach" in reply: return float("nan")', 1, 'ScorerFailed', 'ValueError: value; got: nan'],
  ['return Feedback(1, name="yours")', 10, 'ScorerUnknownName', 'got: yours; expected: mine'],
  ['os.kill(os.getpid(), 9)', 10, 'ScorerFailed', 'got: SIGKILL'],
])('%s is an error of %i records', async (body, count, code, message) => {
  const report = await judged(scoring(body));
  expect(report.missing).toEqual({ [code]: count });
  expect(report.scorers).toMatchObject([{ verdicts: 10 - count, missing: count }]);
  expect(report.verdicts.find(({ error }) => error)?.error?.message).toContain(message);
});

test.each([
  ['import os\n\ndef mine(:', ':3: invalid syntax'],
  ['import os\nimport sklearnx.linear', ":2: sklearnx is not installed: /.+/python3 -m pip install 'sklearnx'"],
  ['from sagemaker_inference_monitor_scorers.adapters import *\nfrom_deepeval(1)', ':2: deepeval is not installed: .*'],
  ['import sys\nsys.exit(3)', ':2: SystemExit: 3'],
  ['import os\nos._exit(3)', ': The process of the file has ended; got: exit code 3'],
  ['', ': .*expected: a function with @scorer.*'],
])('%j is one line with its place', async (code, message) => {
  const path = file(code);
  await expect(judged(path)).rejects.toThrow(new RegExp(`^${path}${message}$`));
});

test('a Python that is not there is one line too, and so is a file', async () => {
  await expect(judged(EXAMPLE, { python: 'no-python' })).rejects.toThrow(/custom_metric\.py: .*no-python ENOENT$/);
  await expect(judged('nowhere.py')).rejects.toThrow(/nowhere\.py: .*No such file or directory/);
});

test('Ctrl-C ends a file that does not answer', async () => {
  const report = await judged(scoring('time.sleep(600)'), {}, AbortSignal.timeout(2000));
  expect(report).toMatchObject({ verdicts: [], missing: { notAsked: 10 } });
});
