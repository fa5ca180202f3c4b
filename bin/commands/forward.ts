/** `inference-monitor forward`: puts existing files, or files that failed, into the queue. */

import { PermanentError } from '../../src/core/errors/errors.ts';
import type { ForwardEnvironment } from '../../src/core/settings/environment.ts';
import { many } from '../../src/core/text/figure-text.ts';
import { command, type FlagsOf, option, options } from '../cli/options.ts';
import { type About, print, progress, type Report } from '../cli/output.ts';
import { type DeployedStack, openStack, stackOptions } from '../cli/stack.ts';
import { windowOfFlags, windowOptions } from '../cli/window.ts';
import { filesToForward, findForwarding, putBack, sendEvents } from '../operate/forwarding.ts';

const OPTIONS = options(
  ...windowOptions(),
  option('--prefix <prefix>', 'only keys that begin so'),
  option('--failed', 'put the dead letters back'),
  option('--dry-run', 'only count'),
  ...stackOptions(),
);
type ForwardFlags = FlagsOf<typeof OPTIONS>;

export type Output = About & {
  /** Files of the window, or about as many dead letters. */
  files: number;
  /** Total size of the files. */
  bytes: number;
  /** `false` with `--dry-run`. */
  queued: boolean;
};

export default command('forward', OPTIONS, async (flags) => {
  const given = flags.from !== undefined || flags.to !== undefined || flags.prefix !== undefined;
  if (flags.failed ? given : flags.from === undefined) {
    const facts = { expected: '--from (with --to and --prefix), or --failed alone' };
    throw new PermanentError('SourceMissing', 'No captures were named', facts);
  }
  const stack = await openStack(flags);
  const { lambda } = stack.clients;
  const forwarding = await findForwarding(lambda, stack.prefix);
  const queued = !flags.dryRun;
  const report = flags.failed
    ? { files: await putBack(lambda, forwarding, queued), bytes: 0, queued }
    : { ...(await queueFiles(stack, forwarding, flags)), queued };
  print<Report<Output>>(report, flags.json, [reportText(report, flags)], stack.about);
});

function queueFiles(stack: DeployedStack, forwarding: ForwardEnvironment, flags: ForwardFlags) {
  const found = filesToForward(stack.storage, forwarding, { within: flags.prefix, ...windowOfFlags(flags) });
  const queue = flags.dryRun ? undefined : forwarding.QUEUE_URL;
  return sendEvents(stack.clients.lambda, queue, found, (files) => progress.show(many(files, 'file')));
}

function reportText({ files, bytes, queued }: Report<Output>, { failed }: ForwardFlags): string {
  if (failed) return `About ${many(files, 'dead letter')}${queued ? ': SQS is putting them back' : ''}.`;
  return `${many(files, 'file')}, ${many(bytes, 'byte')}${queued ? ': their events are in the queue' : ''}.`;
}
