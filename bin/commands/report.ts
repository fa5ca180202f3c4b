/** `inference-monitor report`: a page about the endpoint. */

import { pageText } from '../../src/core/text/page.ts';
import { makePage } from '../../src/health/make-page.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { webPageOf } from '../../src/mlflow/tracking-uri.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { objectivesOf } from '../../src/quality/objectives.ts';
import { writeWhole } from '../../src/replay/results/line-writer.ts';
import { openExperiment } from '../cli/mlflow.ts';
import { command, option, options } from '../cli/options.ts';
import { terminal } from '../cli/output.ts';
import type { CommandSettings } from '../cli/settings.ts';
import { openStack, stackOption, stackSettings } from '../cli/stack.ts';
import { statePart } from '../cli/summary-page.ts';
import { hoursOf, windowFrom } from '../cli/window.ts';
import { readWorst } from '../operate/worst.ts';
import { leftOutOf } from './reading-traces.ts';
import { askedStack } from './status.ts';

const OPTIONS = options(
  ...windowFrom(),
  option('--worst', 'read MLflow: add the worst replies, with their words'),
  option('-o, --out <file>', 'where to write the page', { initial: 'report.html' }),
  stackOption(),
);

export default command('report', OPTIONS, async (flags) => {
  const stack = await openStack(flags);
  const nowMs = Date.now();
  const window = hoursOf(flags.from, flags.to, nowMs);
  const worst = flags.worst ? await repliesOf(await stackSettings(stack), window) : undefined;
  const { html, health } = await makePage(await askedStack(stack), { window, nowMs, worst });
  await writeWhole(flags.out, html);
  process.stdout.write(pageText([statePart(health, stack.outputs.endpoint), `Page: ${flags.out}`], terminal()));
});

/** Traces on the page. */
const MOST_WORST = 20;

/** Reads the worst replies of a window. */
async function repliesOf(settings: CommandSettings, window: TimeWindow) {
  const { mlflow, experiment } = await openExperiment(settings);
  const about = { experimentId: experiment.id, ...window, ...leftOutOf(settings), server: webPageOf(mlflow.target) };
  const judged = { scorers: activeScorers(settings), objectives: objectivesOf(settings) };
  return (await readWorst(mlflow.rest, { ...about, ...judged, limit: MOST_WORST })).worst;
}
