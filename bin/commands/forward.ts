/** `inference-monitor forward`: forwards files that are there already, and puts back what failed. */
import { Command } from 'commander';
import type * as z from 'zod';
import type { ForwardReceipt } from '../../src/core/contract/forward.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { tableText } from '../../src/core/text/table-text.ts';
import { singleLine } from '../../src/core/text/terminal-text.ts';
import { EXIT } from '../cli/exit-codes.ts';
import { unlessInterrupted } from '../cli/follow-and-report.ts';
import { jsonOption, terminal, writeJson } from '../cli/output.ts';
import { bar, startProgress } from '../cli/progress.ts';
import { type DeployedStack, type StackFlags, stackOption, withStack } from '../cli/stack.ts';
import { FROM_OPTION, TO_OPTION, type WindowFlags, windowOfFlags } from '../cli/window.ts';
import { forwardJson } from '../json/forward.ts';
import {
  type Forwarding,
  filesToForward,
  findForwarding,
  followFiles,
  putBack,
  sendEvents,
} from '../operate/forwarding.ts';

interface ForwardFlags extends WindowFlags, StackFlags {
  prefix?: string;
  failed?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

type Report = z.input<typeof forwardJson>;

const HELP = `
New files are forwarded by themselves. This sends the events of older ones to the same queue, and follows them. A file whose receipt
says that it is forwarded is not sent again; receipts are kept for 400 days. Files are chosen by the hour of their folder.

--failed puts the dead letters back into the queue. Repair the cause first: dead letters return otherwise.

Files that Arthur has no room for wait in the queue, and go on if this command is interrupted. The exit code is 1 if a file failed.

Examples:
  inference-monitor forward --from 2026-11-01 --to 2026-11-08 --dry-run
  inference-monitor forward --from 7d --prefix my-endpoint/blue/
  inference-monitor forward --failed`;

export function forwardCommand(): Command {
  return new Command('forward')
    .option(...FROM_OPTION)
    .option(...TO_OPTION)
    .option('--prefix <prefix>', 'only keys that begin so')
    .option('--failed', 'put the dead letters back')
    .option('--dry-run', 'only count')
    .addOption(jsonOption())
    .addOption(stackOption())
    .addHelpText('after', HELP)
    .action(forward);
}

async function forward(flags: ForwardFlags): Promise<void> {
  const given = flags.from !== undefined || flags.to !== undefined || flags.prefix !== undefined;
  if (flags.failed ? given : flags.from === undefined) {
    throw new PermanentError('SourceMissing', 'It is not said which files to forward', {
      expected: '--from (with --to and --prefix), or --failed alone',
    });
  }
  await withStack(flags, async (stack) => {
    const forwarding = await findForwarding(stack.clients.lambda, stack.prefix);
    const report = flags.failed
      ? await forwardFailed(stack, forwarding, flags)
      : await forwardFiles(stack, forwarding, flags);
    if (report === undefined) return;
    if (report.failed.length > 0 && report.sent && !flags.failed) process.exitCode = EXIT.found;
    if (flags.json) writeJson(forwardJson, report);
    else process.stdout.write(reportText(report, flags));
  });
}

const NOTHING = { files: 0, bytes: 0, before: 0, forwarded: 0, inferences: 0, rejected: 0, unknown: 0, failed: [] };

async function forwardFailed(
  { clients }: DeployedStack,
  forwarding: Forwarding,
  { dryRun = false }: ForwardFlags,
): Promise<Report> {
  const failed = await putBack(clients.lambda, forwarding, dryRun);
  return { ...NOTHING, files: failed.length, sent: !dryRun, failed };
}

/** @returns `undefined` if it was interrupted */
async function forwardFiles(
  { clients: { lambda }, outputs, storage }: DeployedStack,
  forwarding: Forwarding,
  flags: ForwardFlags,
): Promise<Report | undefined> {
  const window = { within: flags.prefix, ...windowOfFlags(flags) };
  const { pending, before } = await filesToForward(storage, outputs, forwarding, window);
  const counted = { files: pending.length, bytes: pending.reduce((sum, { file }) => sum + file.size, 0), before };
  if (flags.dryRun || pending.length === 0) return { ...NOTHING, ...counted, sent: false };
  const progress = startProgress(process.stderr);
  const total = pending.length;
  const found = await unlessInterrupted(
    async (signal) => {
      await sendEvents(lambda, forwarding.queue, pending, (count) => progress.show(`sent ${bar(count, total)}`));
      const show = (done: number, waiting: number): void =>
        progress.show(`forwarded ${bar(done, total)}${waiting > 0 ? `, ${waiting} wait for Arthur` : ''}`);
      return followFiles({ storage, lambda, workBucket: outputs.workBucket }, forwarding, pending, show, signal);
    },
    () => ['What was sent is forwarded without this command. The same command again follows the rest.'],
  );
  progress.end();
  if (found === undefined) return undefined;
  const { forwarded, failed } = found;
  const sum = (of: (receipt: ForwardReceipt) => number | undefined): number =>
    forwarded.reduce((total, receipt) => total + (of(receipt) ?? 0), 0);
  return {
    ...counted,
    sent: true,
    forwarded: forwarded.length,
    inferences: sum(({ counts }) => counts?.success),
    rejected: sum(({ counts }) => counts?.failure),
    unknown: sum(({ unknown }) => unknown),
    failed,
  };
}

/** Failures that the text lists. */
const MAX_LISTED = 20;

export function reportText(report: Report, { failed: letters = false, dryRun = false }: ForwardFlags): string {
  const number = (count: number): string => count.toLocaleString('en-US');
  const rows = report.failed
    .slice(0, MAX_LISTED)
    .map(({ key = '', name, message }) => [
      ...(letters ? [] : [singleLine(key)]),
      singleLine(name),
      singleLine(message),
    ]);
  const table = rows.length === 0 ? '' : tableText([...(letters ? [] : ['file']), 'error', 'why'], rows, terminal());
  const more = report.failed.length > MAX_LISTED ? `… and ${number(report.failed.length - MAX_LISTED)} more\n` : '';
  if (letters) {
    if (report.files === 0) return 'There are no dead letters.\n';
    return `${table}${more}${dryRun ? 'These are some of the dead letters.' : `${number(report.files)} dead letters were put back.`}\n`;
  }
  const { forwarded, inferences, rejected, unknown } = report;
  const lines = [
    `${number(report.files)} files to forward, ${number(report.bytes)} bytes; ${number(report.before)} were forwarded before`,
    ...(report.sent
      ? [
          `${number(forwarded)} forwarded: Arthur took ${number(inferences)} inferences, and not ${number(rejected)}; ${number(report.failed.length)} files failed`,
        ]
      : []),
    ...(unknown > 0 ? [`${number(unknown)} posts had no answer: Arthur may have those files twice`] : []),
  ];
  return `${table}${more}${lines.map((line) => `${line}\n`).join('')}`;
}
