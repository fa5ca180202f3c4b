import type { ReplayInput } from '../../replay-contract.ts';

/** What the target is, as the command line describes it; holds no secret. */
export const targetFacts = (target: ReplayInput['target']): Record<string, string> =>
  'url' in target ? { kind: 'url', url: target.url } : { kind: 'sagemaker', ...target };
