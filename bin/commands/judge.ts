/** `inference-monitor judge`: verdicts on the captures of files, on this machine, to write guidelines and scorers. */
import { type Interruption, unlessInterrupted } from '../cli/interruption.ts';
import { command, type FlagsOf } from '../cli/options.ts';
import { EXIT, notice, print } from '../cli/output.ts';
import { parseLocation } from '../offline/capture-files.ts';
import { JUDGE_OPTIONS } from './judge-options.ts';
import { type JudgeReport, judgeFiles } from './judge-run.ts';
import { judgePage } from './judge-text.ts';

export default command('judge', JUDGE_OPTIONS, judge);

async function judge(flags: FlagsOf<typeof JUDGE_OPTIONS>): Promise<void> {
  const { path, line } = parseLocation(flags.captures);
  const judged = async ({ signal }: Interruption): Promise<void> => {
    const report = await judgeFiles(path, { line, ...flags }, signal);
    process.exitCode = signal.aborted ? EXIT.interrupted : exitCodeOf(report);
    if (report === undefined) notice('Nothing was asked.');
    else print<JudgeReport>(report, flags.json, judgePage(report, flags.all));
  };
  await unlessInterrupted(judged, () => ['Nothing was asked.']);
}

export function exitCodeOf(report: JudgeReport | undefined): number {
  const { verdicts = [], missing = {}, failure, thresholds = [], unreadable = [] } = report ?? {};
  const isWhole = failure === undefined && Object.keys(missing).length === 0 && verdicts.length > 0;
  if (!isWhole) return EXIT.notDone;
  return thresholds.every(({ holds }) => holds) && unreadable.length === 0 ? EXIT.done : EXIT.found;
}
