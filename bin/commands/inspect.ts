/**
 * `inference-monitor inspect`: shows offline what capture files contain, how the stack would process them, and the cost
 * of judging them.
 */

import { redactionOf } from '../../src/captures/redact/redaction.ts';
import { REDACT_KINDS } from '../../src/core/settings/redact-setting.ts';
import { argument, command, option, options } from '../cli/options.ts';
import { EXIT, jsonOption, print } from '../cli/output.ts';
import { commandSettings } from '../cli/settings.ts';
import { parseLocation } from '../offline/capture-files.ts';
import { type InspectReport, inspectAll, inspectLine, type LineReport } from '../offline/inspect.ts';
import { inspectPage, linePage } from './inspect-text.ts';

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
