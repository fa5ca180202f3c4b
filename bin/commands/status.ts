/** `inference-monitor status`: is the endpoint healthy, and if not, why. */
import { inTime } from '../../src/core/process/concurrency.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { block, dim } from '../../src/core/text/page.ts';
import { type Health, healthOf } from '../../src/health/findings.ts';
import { type AskedStack, readFacts } from '../../src/health/gather.ts';
import { EXIT_CODES } from '../../src/health/known.ts';
import { judgeModels } from '../../src/judge/judge-id.ts';
import { checkJudgeModel } from '../../src/judge/model-check.ts';
import { outcomesTable, windowText } from '../../src/quality/rates-text.ts';
import { command, options } from '../cli/options.ts';
import { type About, aboutLine, notice, print } from '../cli/output.ts';
import { type DeployedStack, deployedSettings, openStack, stackOptions } from '../cli/stack.ts';
import { findingsPage, statePart } from '../cli/summary-page.ts';
import { hoursOf, isoWindow, windowFrom } from '../cli/window.ts';

const OPTIONS = options(...windowFrom(), ...stackOptions());

export type Output = Health & About & { window: ReturnType<typeof isoWindow> };

export default command('status', OPTIONS, async (flags) => {
  const stack = await openStack(flags);
  const nowMs = Date.now();
  const window = hoursOf(flags.from, flags.to, nowMs);
  const asked = await askedStack(stack);
  const [facts, checks] = await Promise.all([readFacts(asked, { window, nowMs }), judgesOf(asked)]);
  const health = healthOf(facts);
  for (const check of checks) if (check?.dearerFrom !== undefined) notice(check.message);
  process.exitCode = EXIT_CODES[health.state];
  const { about } = stack;
  const page = [
    statePart(health, stack.outputs.endpoint),
    block(dim(`${aboutLine(about)}, ${windowText(window)}`), ...findingsPage(health, nowMs)),
    block(outcomesTable(health.outcomes)),
  ];
  print<Output>({ ...health, ...about, window: isoWindow(window) }, flags.json, page);
});

/** Checks the judge's models in Bedrock. Returns no result if the user lacks the permission. */
const judgesOf = ({ environment }: AskedStack) =>
  Promise.all(judgeModels(environment).map((model) => inTime(checkJudgeModel(model), 3_000).catch(() => undefined)));

/** Returns the context for questions about a deployed stack, with the settings of its functions. */
export async function askedStack(stack: DeployedStack): Promise<AskedStack> {
  const { storage, clients, outputs, flag } = stack;
  const environment = readEnvironment(await deployedSettings(stack));
  return { storage, sfn: clients.sfn, stateMachineArn: outputs.stateMachineArn, environment, stack: flag };
}
