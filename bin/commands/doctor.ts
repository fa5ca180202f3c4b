/**
 * `inference-monitor doctor`: checks what a deployment needs, and the deployed stack. It changes nothing, and pays nothing without
 * `--ask-judge`.
 */

import { many } from '../../src/core/text/figure-text.ts';
import { singleLine, type TextOptions, wrapped } from '../../src/core/text/terminal-text.ts';
import { command, numbers, option, options } from '../cli/options.ts';
import { EXIT, jsonOption, print } from '../cli/output.ts';
import { stackOption } from '../cli/stack.ts';
import { type Diagnosis, diagnose } from '../doctor/diagnose.ts';
import type { Finding } from '../doctor/finding.ts';
// Headings, each with its checks in order.
import GROUPS from '../doctor/groups.json' with { type: 'json' };

const OPTIONS = options(
  option('--judge-model <id>', 'a Bedrock model id, inference profile or ARN (default: BEDROCK_MODEL_ID)'),
  option('--captures <number>', 'say what so many captures of the newest files are like', numbers.from(1, 1_000)),
  option('--region <region>', 'region of the stack (default: AWS_REGION)'),
  stackOption(),
  option('--ask-judge', 'ask the judge one question, which costs some cents; its most is printed before'),
  jsonOption(),
);

export default command('doctor', OPTIONS, async ({ json, ...flags }) => {
  const diagnosis = await diagnose(flags);
  const about = diagnosis.endpoint && diagnosis.stack ? diagnosis : undefined;
  print<Diagnosis>(diagnosis, json, (out) => diagnosisText(diagnosis, out), about);
  if (!diagnosis.healthy) process.exitCode = EXIT.found;
});

// ------------------------------------------------------------------------------------------------------------ text
// The findings: grouped for a terminal of any width, a line each for a pipe.

const COLORS = { ok: 'green', warning: 'bold', error: 'red', unknown: 'dim' } as const;

const LEVEL_WIDTH = 9;
const CHECK_WIDTH = 10;

/** One line, also in a pipe: level, check, message and repair. */
const lineOf = ({ level, check, message, repair }: Finding): string =>
  `${level.padEnd(LEVEL_WIDTH)}${check.padEnd(CHECK_WIDTH)}${singleLine(message)}${repair ? ` → ${singleLine(repair)}` : ''}`;

/** A narrower terminal has the level on a line of its own. */
const NARROW = 60;

function block({ level, message, repair }: Finding, { width, style }: TextOptions): string[] {
  const isNarrow = width < NARROW;
  const indent = ' '.repeat(isNarrow ? 4 : LEVEL_WIDTH + 2);
  const lines = [message, ...(repair === undefined ? [] : [`→ ${repair}`])]
    .flatMap((text) => wrapped(singleLine(text), width - indent.length))
    .map((line) => indent + line);
  const label = style(COLORS[level], level.padEnd(LEVEL_WIDTH));
  if (isNarrow) return [`  ${label}`.trimEnd(), ...lines];
  const [first = '', ...rest] = lines;
  return [`  ${label}${first.slice(indent.length)}`, ...rest];
}

/** Formats the findings: grouped for a terminal of any width, a line each for a pipe. */
export function diagnosisText({ findings, counts }: Diagnosis, options: TextOptions): string {
  if (!Number.isFinite(options.width)) return findings.map((each) => `${lineOf(each)}\n`).join('');
  const groups = Object.entries(GROUPS).flatMap(([heading, checks]) => {
    const own = findings.filter(({ check }) => checks.includes(check));
    if (own.length === 0) return [];
    return [options.style('bold', heading), ...own.flatMap((each) => block(each, options)), ''];
  });
  const sums = Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([level, count]) => (level === 'ok' || level === 'unknown' ? `${count} ${level}` : many(count, level)));
  return `${[...groups, sums.join(', ')].join('\n')}\n`;
}
