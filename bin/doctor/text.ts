/** The findings of `doctor` as text: grouped for a terminal of any width, a line each for a pipe. */
import { singleLine, wrapped } from '../../src/core/text/terminal-text.ts';
import type { TextOptions } from '../cli/output.ts';
import type { Diagnosis } from './diagnose.ts';
import type { Finding } from './finding.ts';

/** Headings, each with its checks in order. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  Account: ['account'],
  Settings: ['names', 'settings'],
  Endpoint: ['endpoint', 'capture'],
  Captures: ['captures', 'events'],
  MLflow: ['mlflow', 'artifacts'],
  Judge: ['judge', 'access', 'price', 'quota'],
  Limits: ['lambda', 'states'],
  'VPC, keys, secrets, replays': ['vpc', 'keys', 'secrets', 'replays'],
  'Deployed stack': ['stack', 'version', 'deployed', 'delivery', 'letters', 'alarms'],
};

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

const PLURALS: Readonly<Record<string, string>> = { warning: 'warnings', error: 'errors' };

export function diagnosisText({ findings, counts }: Diagnosis, options: TextOptions): string {
  if (!Number.isFinite(options.width)) return findings.map((each) => `${lineOf(each)}\n`).join('');
  const groups = Object.entries(GROUPS).flatMap(([heading, checks]) => {
    const own = findings.filter(({ check }) => checks.includes(check));
    if (own.length === 0) return [];
    return [options.style('bold', heading), ...own.flatMap((each) => block(each, options)), ''];
  });
  const sums = Object.entries(counts).flatMap(([level, count]) =>
    count > 0 ? [`${count} ${count > 1 ? (PLURALS[level] ?? level) : level}`] : [],
  );
  return `${[...groups, sums.join(', ')].join('\n')}\n`;
}
