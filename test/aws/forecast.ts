/** What a canary will cost, from the price table and the template. */
import { functionEnvironment } from '../../lib/settings/function-environment.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { estimateFromSizes } from '../../src/judge/pricing/estimate.ts';
import { BATCHED, exampleLines, JUDGED } from './captures.ts';
import { budgetOf, checkedSettings, type Template } from './stack.ts';
import type { CanaryState } from './state.ts';

/** List prices of us-east-1 in dollars. Alarms and dashboards are charged by the hour. */
const ALARM_METRIC_MONTH = 0.1;
const DASHBOARD_MONTH = 3;
const HOURS_OF_MONTH = 730;
/** All other services together: some hundred requests, a few GB-seconds and MB. */
const REST = 0.05;

/** With a batch job, the stack stands for a day. */
const hoursOf = (batch: boolean): number => (batch ? 24 : 1);

/** Returns the lines to print before anything is made. */
export function canaryForecast(state: CanaryState, template: Template): string[] {
  const one = judgeUsd(state, 'converse', JUDGED);
  const many = state.batch ? judgeUsd(state, 'batch', BATCHED) : 0;
  const hours = hoursOf(state.batch);
  const resting = (restingMonth(template) * hours) / HOURS_OF_MONTH;
  const known = one !== null && many !== null;
  const usd = (value: number | null) => (value === null ? 'an unknown price' : `$${value.toFixed(2)}`);
  return [
    `judge            ${usd(one)} for ${JUDGED} captures, one by one`,
    ...(state.batch ? [`batch inference  ${usd(many)} for ${BATCHED} captures`] : []),
    `stack            ${usd(resting)} for ${Object.keys(template.Resources).length} resources, alarms and a dashboard for ${hours === 1 ? 'an hour' : 'a day'}`,
    `everything else  $${REST.toFixed(2)} at most: Lambda, Step Functions, S3, logs`,
    `together         about ${usd(known ? one + many + resting + REST : null)}; the judge's budget is ${budgetOf(state.batch)} dollars, and it stops there`,
    ...(state.endpoint
      ? [`The endpoint ${state.endpoint} gets about a hundred requests; they are not in this sum`]
      : []),
  ];
}

function judgeUsd(state: CanaryState, judge: 'converse' | 'batch', captures: number): number | null {
  const settings = checkedSettings(state);
  const environment = readEnvironment(functionEnvironment(settings, 'work', 'budget'));
  const bytes = exampleLines(captures).reduce((sum, line) => sum + Buffer.byteLength(line), 0);
  const options = { judge, sampleRate: 1 };
  return estimateFromSizes(environment, activeScorers(environment, judge), options, { captures, bytes }).usd;
}

/** Dollars a month for what costs while nothing runs. */
function restingMonth({ Resources }: Template): number {
  let sum = 0;
  for (const { Type, Properties = {} } of Object.values(Resources)) {
    if (Type === 'AWS::CloudWatch::Dashboard') sum += DASHBOARD_MONTH;
    if (Type !== 'AWS::CloudWatch::Alarm') continue;
    const metrics = (Properties.Metrics as { MetricStat?: object }[] | undefined) ?? [];
    sum += ALARM_METRIC_MONTH * Math.max(1, metrics.filter(({ MetricStat }) => MetricStat).length);
  }
  return sum;
}
