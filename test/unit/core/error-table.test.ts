/**
 * The table of errors, docs/errors.md and the code have the same names. After a change of the table, run
 * `UPDATE_ERRORS=1 npm run test:unit -- test/unit/core/error-table`.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import ERROR_TABLE from '../../../src/core/errors/errors.json' with { type: 'json' };

const PAGE = 'docs/errors.md';

const RETRIED: Record<keyof typeof ERROR_TABLE, string> = {
  transient: 'by Step Functions, for two minutes; for 35 where the judge is asked',
  throttled: 'by Step Functions, until there is room, for 83 hours at the longest',
  redelivered: 'by the queue, for a day',
  permanent: 'no',
  reported: 'no',
  killed: 'by Step Functions',
};

type Entry = { name: string; meaning: string; repair: string; retried: string };
const entries = Object.entries(ERROR_TABLE)
  .flatMap(([group, named]) =>
    Object.entries(named).map(([name, told]): Entry => {
      return { name, ...told, retried: RETRIED[group as keyof typeof RETRIED] };
    }),
  )
  .sort((a, b) => (a.name < b.name ? -1 : 1));
const names = new Set(entries.map(({ name }) => name));

const page = `# Errors

Every name of an error of this project, by the alphabet: what it means, whether it is retried, and what to do. The names are in logs,
receipts, summaries, causes of executions, reasons of quarantined lines and codes of assessments. After the repair, complete the run by a
[retry](runbook.md#runfailed).

A message has the name, the code, the HTTP status and the request id of another program’s error, and of a call that AWS denied the action
and the resource. It does not have that program’s own words, which can quote captured content.

| Error | What it means | Retried | What to do |
|---|---|---|---|
${entries.map(({ name, meaning, repair, retried }) => `| \`${name}\` | ${meaning} | ${retried} | ${repair} |`).join('\n')}
`;

/** Named alike: other programs' errors without a name, errors that are caught, of a reply. */
const NO_REASONS = ['NoReplyError', 'Unknown', 'UnknownScorer', 'Words'];

const code = globSync(['bin/**/*.ts', 'lambda/**/*.ts', 'lib/**/*.ts', 'src/**/*.ts'])
  .map((path) => readFileSync(path, 'utf8'))
  .join('\n');

it('is what docs/errors.md says', () => {
  if (process.env.UPDATE_ERRORS) writeFileSync(PAGE, page);
  expect(readFileSync(PAGE, 'utf8')).toBe(page);
});

it('has each name once, with whole sentences', () => {
  expect(names.size).toBe(entries.length);
  expect(
    entries.filter(({ meaning, repair }) => ![meaning, repair].every((text) => /^[^a-z].*\.$/.test(text))),
  ).toEqual([]);
});

it('has no name that the code does not use', () => {
  const ours = entries.filter(({ retried }) => retried !== RETRIED.killed);
  expect(ours.map(({ name }) => name).filter((name) => !new RegExp(`['":]${name}['":]`).test(code))).toEqual([]);
});

it('has the names of all reasons in receipts, reports and assessments', () => {
  // Constructors take the names of the table alone. A reason is an object with a name and a message, or a class that sets its name.
  const reasons = /(?:\bname: |\bname = |\bbad\(\s*)'([A-Z]\w+)'(?=,\s*(?:message|what|test|`|'[^']* |describe)|;)/g;
  const used = new Set([...code.matchAll(reasons)].map(([, name = '']) => name));
  expect(used.size).toBeGreaterThan(20);
  expect([...used].filter((name) => !names.has(name)).sort()).toEqual(NO_REASONS);
});
