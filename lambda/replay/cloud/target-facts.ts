import type { ReplayInput } from '../../replay-contract.ts';
import { shownUrl } from '../target/target.ts';

/** What the target is, as the command line describes it; holds no secret. */
export const targetFacts = (target: ReplayInput['target']): Record<string, string> =>
  'url' in target ? { kind: 'url', url: shownUrl(target.url) } : { kind: 'sagemaker', ...target };
