/** `inference-monitor sql`: asks Athena, or DuckDB on this machine, about the rows of the ledger. */
import { csvText } from '../../src/core/text/csv.ts';
import { dollars, many, megabytes } from '../../src/core/text/figure-text.ts';
import { block, table } from '../../src/core/text/page.ts';
import { unlessInterrupted } from '../cli/interruption.ts';
import { argument, command, numbers, option, options, refuseUseless } from '../cli/options.ts';
import { type About, aboutLine, jsonOption, notice, print } from '../cli/output.ts';
import { openStack, stackOption } from '../cli/stack.ts';
import { DEFAULT_FROM, instantMs } from '../cli/window.ts';
import { askAthena, type SqlResult } from '../operate/athena.ts';
import { askLocally } from '../operate/local-sql.ts';

const DEFAULT_GB = 2;

const OPTIONS = options(
  argument('<statement>', 'such as "select count(*) from captures"'),
  option('--local', 'copy the files of the ledger to this machine, and ask DuckDB'),
  option('--from <time>', `with --local, the first day to copy (default: ${DEFAULT_FROM})`),
  option('--max-gb <gigabytes>', `with --local, the most to copy (default: ${DEFAULT_GB})`, numbers.amount),
  jsonOption().conflicts('csv'),
  option('--csv', 'print the rows as CSV'),
  stackOption(),
);

export type Output = About & SqlResult;

export default command('sql', OPTIONS, async (flags) => {
  refuseUseless(flags, { from: ['local'], maxGb: ['local'] });
  const { statement, local, from = DEFAULT_FROM, maxGb = DEFAULT_GB, csv, json } = flags;
  const { work, outputs, clients, about } = await openStack(flags);
  const since = new Date(instantMs(from, Date.now())).toISOString().slice(0, '2026-11-20'.length);
  const found = await unlessInterrupted(
    ({ signal }) =>
      local ? askLocally(work, statement, since, maxGb) : askAthena(clients.lambda, outputs, statement, signal),
    () => ['The query was stopped.'],
  );
  if (found === undefined) return;
  const { columns, rows, bytes, usd } = found;
  const read = `${megabytes(bytes)} ${local ? 'copied' : `scanned, ${dollars(usd)} at $5 a TB`}`;
  const head = columns.map(({ name }) => name);
  if (csv) {
    for (const line of [aboutLine(about), read]) notice(line);
    process.stdout.write(csvText(head, rows));
  } else {
    const cells = rows.map((row) => row.map((value) => String(value ?? '')));
    print<SqlResult>(found, json, [table(cells, head), block(`${many(rows.length, 'row')}, ${read}`)], about);
  }
});
