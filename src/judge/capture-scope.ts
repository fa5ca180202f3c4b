/**
 * The location of the stack's captures: below its prefix, without other files of AWS, and without captures of a
 * SageMaker endpoint that serves as the judge.
 */
import type { CaptureScope } from '../captures/files/capture-objects.ts';
import { capturePathOf } from '../captures/files/capture-path.ts';
import { insteadOf } from '../captures/files/other-files.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { judgeEndpoints } from './judge-id.ts';

type ScopeSettings = Pick<
  LambdaEnvironment,
  'DATA_CAPTURE_S3_BUCKET' | 'DATA_CAPTURE_S3_PREFIX' | 'BEDROCK_MODEL_ID' | 'JUDGE_CASCADE'
>;

/** A judgement that is captured must not be judged: that would never end. */
export function captureScope(environment: ScopeSettings): CaptureScope {
  const judges = judgeEndpoints(environment);
  return {
    bucket: environment.DATA_CAPTURE_S3_BUCKET,
    prefix: environment.DATA_CAPTURE_S3_PREFIX,
    excludes: (key) =>
      insteadOf(key) !== undefined || judges.includes(capturePathOf(key).endpoint?.toLowerCase() ?? ''),
  };
}
