/** `inference-monitor report`: a page about the endpoint. */
import { escapeHtml, isolated } from '../../src/core/text/html-page.ts';
import { makePage } from '../../src/health/make-page.ts';
import { sheet } from '../../src/health/page-elements.ts';
import { stateLines } from '../../src/health/text.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { webPageOf } from '../../src/mlflow/tracking-uri.ts';
import { labelsByCell } from '../../src/quality/calibration/window-labels.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { objectivesOf } from '../../src/quality/objectives.ts';
import { writeWhole } from '../../src/replay/results/whole-file.ts';
import { withExperiment } from '../cli/mlflow.ts';
import { command, option, options } from '../cli/options.ts';
import { terminal } from '../cli/output.ts';
import type { CommandSettings } from '../cli/settings.ts';
import { stackOption, stackSettings, withStack } from '../cli/stack.ts';
import { hoursOf, windowFrom } from '../cli/window.ts';
import { named } from '../operate/summary-report.ts';
import { readWorst, type WorstTrace } from '../operate/worst.ts';
import { labelReader } from './reading-traces.ts';
import { askedStack } from './status.ts';

const OPTIONS = options(
  ...windowFrom('30d'),
  option('--compare-from <time>', 'start of an earlier window of the same length (default: the one right before)'),
  option('--worst', "read MLflow: add the worst replies, and correct rates by people's labels"),
  option('-o, --out <file>', 'where to write the page', { initial: 'report.html' }),
  stackOption(),
);

const HELP = `
The page says how the endpoint is and why, what has changed since when and for which variant, and what true answers say. It is made of
counts, as “status” and “rates”, and loads nothing from elsewhere. The stack writes it too: reports/latest.html in its work bucket.

Examples:
  inference-monitor report
  inference-monitor report --from 7d --compare-from 14d --worst --out week.html`;

export default command('report', OPTIONS, HELP, (flags) =>
  withStack(flags, async (stack) => {
    const nowMs = Date.now();
    const window = hoursOf(flags.from, flags.to, nowMs);
    const length = window.toMs - window.fromMs;
    const fromMs = flags.compareFrom ? hoursOf(flags.compareFrom, flags.from, nowMs).fromMs : window.fromMs - length;
    const query = { window, before: { fromMs, toMs: Math.min(fromMs + length, window.fromMs) }, nowMs };
    const { html, health } = await makePage(await askedStack(stack), {
      ...query,
      ...(flags.worst ? await fromMlflow(await stackSettings(stack), query) : {}),
    });
    await writeWhole(flags.out, html);
    const { width, style } = terminal();
    const state = stateLines(named(health, stack.outputs.endpoint), width, style);
    process.stdout.write(`${[...state, `Page: ${flags.out}`].join('\n')}\n`);
  }),
);

/** Traces on the page. */
const MOST_WORST = 20;

/** Reads the worst replies of the window, and people's labels. */
const fromMlflow = (settings: CommandSettings, { window, before }: Record<'window' | 'before', TimeWindow>) =>
  withExperiment(settings, async (mlflow, { id: experimentId }) => {
    const scorers = activeScorers(settings);
    const about = { experimentId, ...window, shadow: settings.SHADOW_VARIANTS, server: webPageOf(mlflow.target) };
    const { worst } = await readWorst(mlflow.rest, {
      ...about,
      scorers,
      objectives: objectivesOf(settings),
      limit: MOST_WORST,
    });
    const read = labelReader(settings, scorers, undefined);
    const found = [await read(before), await read(window)];
    const covered = new Map(found.flatMap((one) => [...one.covered]));
    const labels = found.flatMap((one) => one.labels);
    const head = ['fails', 'reply', 'request', 'the judge', 'when'];
    const more = sheet('Worst replies', 'The gravest first. Equal replies are one.', head, worst.map(worstCells));
    return { more, labelsOf: labelsByCell(labels, covered) };
  });

function worstCells({ failing, severity, count, reply, request, time, variant, url }: WorstTrace): string[] {
  const when = escapeHtml(time.slice(0, 16).replace('T', ' '));
  const names = failing.map(({ scorer }) => scorer).join(', ');
  return [
    isolated(`${count > 1 ? `${count} × ` : ''}${severity}: ${names}`),
    ...[reply, request, failing[0]?.rationale ?? ''].map(isolated),
    `${url === undefined ? when : `<a href="${escapeHtml(url)}">${when}</a>`} ${isolated(variant)}`,
  ];
}
