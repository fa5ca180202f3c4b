import type { ReplayInput } from '../../contract/replay.ts';
import { shownUrl } from '../targets/target.ts';

/** What the target is, as the command line describes it; holds no secret. */
export const targetFacts = (target: ReplayInput['target']): Record<string, string> =>
  'url' in target ? { kind: 'url', url: shownUrl(target.url) } : { kind: 'sagemaker', ...target };
