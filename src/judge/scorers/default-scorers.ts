/**
 * The default LLM scorers. To add, change (with its version) or remove a scorer, edit the list in `default-scorers.json`;
 * `scorer-set.ts` validates it on load.
 *
 * Where MLflow has a built-in judge, the scorer uses its name and values, so that MLflow's pages and Python client show these
 * verdicts like its own. Questions are short, because all of them are sent with every capture.
 */
import type { JudgeScorer } from '../types.ts';
import scorers from './default-scorers.json' with { type: 'json' };

export const defaultJudgeScorers = scorers as readonly JudgeScorer[];
