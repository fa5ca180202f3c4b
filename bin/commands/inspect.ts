/**
 * `inference-monitor inspect`: shows offline what capture files contain, how the stack would process them, and the cost
 * of judging them.
 */

import { stringify } from 'yaml';
import { redactionOf } from '../../src/captures/redact/redaction.ts';
import { REDACT_KINDS } from '../../src/core/settings/redact-setting.ts';
import { dollars, many, megabytes, time, whole } from '../../src/core/text/figure-text.ts';
import { block, bold, facts, firstOf, type Page, type Part, red, section, table } from '../../src/core/text/page.ts';
import { namedCounts } from '../../src/core/text/terminal-text.ts';
import { CAPTURE_FILES } from '../../src/replay/source/open-source.ts';
import { argument, command, option, options } from '../cli/options.ts';
import { EXIT, jsonOption, print } from '../cli/output.ts';
import { commandSettings } from '../cli/settings.ts';
import { parseLocation, placeText } from '../offline/capture-files.ts';
import { type InspectReport, inspectAll, inspectLine, type LineReport } from '../offline/inspect.ts';

const OPTIONS = options(
  argument('<captures>', 'a capture file, file:line, or a folder'),
  option('--redact', 'show what REDACT would mask: counts, and ten masked lines'),
  jsonOption(),
);

/** Of `file:line` the result for the line. */
export type Output = InspectReport | LineReport;

export default command('inspect', OPTIONS, async ({ json, captures, redact }) => {
  const { path, line } = parseLocation(captures);
  const own = commandSettings();
  const redaction = redactionOf({ ...own, REDACT: own.REDACT ?? REDACT_KINDS.join(',') });
  const settings = redact ? { ...own, redaction } : own;
  if (line !== undefined) {
    const report = await inspectLine(path, line, settings);
    print<LineReport>(report, json, linePage(report));
    if (report.quarantined !== undefined) process.exitCode = EXIT.found;
    return;
  }
  const report = await inspectAll(path, settings);
  print<InspectReport>(report, json, inspectPage(report));
  const isClean = report.captures > 0 && report.quarantined.length === 0 && report.unreadable.length === 0;
  if (!isClean) process.exitCode = EXIT.found;
});

// ------------------------------------------------------------------------------------------------------------ pages

export function inspectPage(report: InspectReport): Page {
  const { files, bytes, gzip, lines, captures, duplicates, times, quarantined, redacted, shape, cost } = report;
  const lost = quarantined.reduce((sum, { count }) => sum + count, 0);
  return [
    bold(`${many(files, 'file')}, ${megabytes(bytes)}, ${many(lines, 'line')}`),
    `${many(captures, 'capture')}, ${many(duplicates, 'duplicate')}, ${whole(lost)} quarantined`,
    times && `captured ${time(times.first)} to ${time(times.last)}`,
    red(gzip > 0 && `${many(gzip, 'file')} compressed or named *.gz: the stack reads only uncompressed *.jsonl`),
    red(captures === 0 && `No line is a capture. Expected: ${CAPTURE_FILES}.`),
    ...report.unreadable.map(({ file, message }) => red(`${file}: ${message}`)),
    section(
      'Quarantined',
      ...quarantined.flatMap(({ name, count, at }) => {
        const places = at.map((place) => `${placeText(place)}: ${place.message}`);
        return [red(`${name}: ${whole(count)}`), firstOf(places.length, places, '', count)];
      }),
    ),
    redacted &&
      section(
        'Masked',
        `${many(redacted.captures, 'capture')}${redacted.captures > 0 ? `: ${namedCounts(redacted.items)}` : ''}`,
        redacted.lines.map((line) => `${placeText(line)}: … ${line.text} …`),
      ),
    section(
      `What ${many(shape.captures, 'capture is', 'captures are')} like`,
      ...shape.facts.flatMap(({ says, setting }) => [says, [setting && `→ set ${setting}`]]),
      contentOf(report),
    ),
    section(
      'Notes on the traces',
      ...report.notes.map(({ note, count, at }) => `${whole(count)} × ${note} (${at.slice(0, 1).map(placeText)})`),
    ),
    captures > 0 && section('What can be judged, of captures', scorersTable(report)),
    captures > 0 &&
      section(
        `Judging costs about ${dollars(cost.usd)}`,
        `${whole(cost.judgedCaptures)} of ${many(cost.captures, 'capture')}, ${many(cost.judgeCalls, 'call')}, ${whole(cost.inputTokens)} tokens in, ${whole(cost.outputTokens)} out`,
        cost.basis,
      ),
  ];
}

const contentOf = ({ models, usage: { captures, inputTokens, outputTokens } }: InspectReport): Part =>
  facts({
    models: namedCounts(models) || null,
    tokens:
      captures > 0 &&
      `${whole(inputTokens)} in, ${whole(outputTokens)} out, as ${many(captures, 'capture')} report them`,
  });

const scorersTable = ({ scorers }: InspectReport): Part =>
  table(
    scorers.map(({ name, kind, captures, not }) => {
      const others = namedCounts(not);
      return [name, `${whole(captures)}${kind === 'code' ? ' by code' : ''}${others && `; not: ${others}`}`];
    }),
  );

/** Longer texts, lists and objects are shortened in the view of a line; `--json` has them in full. */
const MAX_CHARS = 2_000;
const MAX_ITEMS = 50;

function shortened(_: string, value: unknown): unknown {
  if (typeof value === 'string' && value.length > MAX_CHARS)
    return `${value.slice(0, MAX_CHARS)}… (${whole(value.length - MAX_CHARS)} characters more)`;
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value);
  if (entries.length <= MAX_ITEMS) return value;
  const more = `… (${whole(entries.length - MAX_ITEMS)} more)`;
  if (Array.isArray(value)) return [...value.slice(0, MAX_ITEMS), more];
  return Object.fromEntries([...entries.slice(0, MAX_ITEMS), ['…', more]]);
}

/** Returns the trace in YAML, and the scorers that can judge it. */
export function linePage(report: LineReport): Page {
  const { quarantined, trace, format, wireFormat, notes } = report;
  const head = [
    bold(placeText(report)),
    red(quarantined && `quarantined: ${quarantined.name}: ${quarantined.message}`),
  ];
  if (trace === undefined) return head;
  const { name, state, startTimeMs, tags, spans, tokenUsage, clientRequestId, sessionId, userId, model } = trace;
  const [root, ...children] = spans;
  const shown = {
    ...{ format, wireFormat, model, clientRequestId, sessionId, userId, notes },
    ...{ inputs: root?.inputs, outputs: root?.outputs, tokens: tokenUsage, tags },
    [`attributes of the ${root?.spanType} span`]: root?.attributes,
    children:
      children.length > 0 ? children.map(({ name, inputs, outputs }) => ({ name, inputs, outputs })) : undefined,
  };
  const yaml = stringify(JSON.parse(JSON.stringify(shown, shortened)), { lineWidth: 0 });
  return [
    ...head,
    `${name}: ${state}, ${time(startTimeMs)}`,
    red(root?.status.message),
    // Empty lines of a text are part of it.
    block(
      ...yaml
        .trimEnd()
        .split('\n')
        .map((line) => line || ' '),
    ),
    scorersOf(report),
  ];
}

function scorersOf({ scorers = {}, judgeUsd = 0 }: LineReport): Part {
  const byReason = Map.groupBy(Object.keys(scorers), (name) => scorers[name]);
  const can = byReason.get(null) ?? [];
  return block(bold(`Can be judged by ${many(can.length, 'scorer')}, for about ${dollars(judgeUsd)}`), [
    can.join(', '),
    ...[...byReason].map(([reason, names]) => reason && `${reason}: not ${names.join(', ')}`),
  ]);
}
