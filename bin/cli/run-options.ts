/** The options of commands that start runs. */
import { type Command, InvalidArgumentError } from 'commander';
import type { RunOptions } from '../../src/core/contract/input.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { number, share } from '../commands/numbers.ts';

export interface RunFlags {
  evaluate?: boolean;
  sampleRate?: number;
  budget?: number;
  batch?: boolean;
  reevaluate?: boolean;
  dryRun?: boolean;
  detach?: boolean;
  name?: string;
}

/** Adds the options of a run to a command. */
export const addRunOptions = (command: Command): Command =>
  command
    .option('--evaluate', 'judge the captures (the default)')
    .option('--no-evaluate', 'only log traces')
    .option('--sample-rate <share>', 'judge this share of the captures, 0 to 1', share)
    .option('--budget <dollars>', 'the most that this run may spend on the judge, within the daily budget', budgetOf)
    .option('--batch', 'judge by Bedrock batch inference: half the price, hours later')
    .option('--reevaluate', 'judge captures again that have a verdict')
    .option('--dry-run', 'say what it would take, and pay nothing')
    .option('--detach', 'start it, and do not follow it')
    .option('--name <name>', 'name of the run');

function budgetOf(text: string): number {
  const dollars = number(text);
  if (dollars > 0) return dollars;
  throw new InvalidArgumentError('expected a number over 0; to judge nothing: --no-evaluate');
}

/**
 * Returns the options of an execution's input, without those that are not given.
 *
 * @throws PermanentError `OptionsContradict`
 */
export function inputOptions(flags: RunFlags): Partial<RunOptions> {
  const { evaluate, sampleRate, budget, batch, reevaluate, dryRun } = flags;
  const ofJudge = Object.entries({
    '--sample-rate': sampleRate,
    '--budget': budget,
    '--batch': batch,
    '--reevaluate': reevaluate,
  });
  const given = ofJudge.flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (evaluate === false && given.length > 0) {
    const facts = { got: `--no-evaluate with ${given.join(', ')}`, expected: 'the one or the others' };
    throw new PermanentError('OptionsContradict', 'The options contradict each other', facts);
  }
  const options = {
    evaluate,
    sampleRate,
    budgetUsd: budget,
    ...(batch ? { judge: 'batch' as const } : {}),
    reevaluate,
    dryRun,
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
