/**
 * `inference-monitor doctor`: checks what a deployment needs, the deployed stack, and its ledger. It changes nothing, and pays nothing
 * without `--ask-judge`.
 */

import { many } from '../../src/core/text/figure-text.ts';
import { block, bold, dim, type Page, red, section, table } from '../../src/core/text/page.ts';
import { command, numbers, option, options, refuseUseless } from '../cli/options.ts';
import { EXIT, jsonOption, print } from '../cli/output.ts';
import { stackOption } from '../cli/stack.ts';
import { windowOfFlags, windowOptions } from '../cli/window.ts';
import { type Diagnosis, diagnose } from '../doctor/diagnose.ts';
// Headings, each with its checks in order.
import GROUPS from '../doctor/groups.json' with { type: 'json' };

const OPTIONS = options(
  option('--judge-model <id>', 'a Bedrock model id, inference profile or ARN (default: BEDROCK_MODEL_ID)'),
  option('--captures <number>', 'say what so many captures of the newest files are like', numbers.from(1, 1_000)),
  option('--region <region>', 'region of the stack (default: AWS_REGION)'),
  stackOption(),
  option('--ask-judge', 'ask the judge one question, which costs some cents; its most is printed before'),
  option('--ledger', 'compare the ledger with MLflow, trace by trace and verdict by verdict'),
  ...windowOptions(),
  jsonOption(),
);

export type Output = Diagnosis;

export default command('doctor', OPTIONS, async ({ json, ledger, ...flags }) => {
  refuseUseless({ ...flags, ledger }, { from: ['ledger'], to: ['ledger'] });
  const nowMs = Date.now();
  const { fromMs, toMs = nowMs } = windowOfFlags({ from: '7d', ...flags }, nowMs);
  const diagnosis = await diagnose({ ...flags, ledger: ledger ? { fromMs: fromMs ?? nowMs, toMs } : undefined });
  const about = diagnosis.endpoint && diagnosis.stack ? diagnosis : undefined;
  print<Diagnosis>(diagnosis, json, diagnosisPage(diagnosis), about);
  if (!diagnosis.healthy) process.exitCode = EXIT.found;
});

const COLORS = { ok: undefined, warning: bold, error: red, unknown: dim } as const;

/** Returns the findings grouped by subject, each with its repair. */
export function diagnosisPage({ findings, counts }: Diagnosis): Page {
  const groups = Object.entries(GROUPS).map(([heading, checks]) => {
    const rows = findings
      .filter(({ check }) => checks.includes(check))
      .map(({ level, check, message, repair }) => {
        const row = [level, check, `${message}${repair ? ` → ${repair}` : ''}`];
        return COLORS[level]?.(row) ?? row;
      });
    return section(heading, table(rows));
  });
  const sums = Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([level, count]) => (level === 'ok' || level === 'unknown' ? `${count} ${level}` : many(count, level)));
  return [...groups, block(sums.join(', '))];
}
