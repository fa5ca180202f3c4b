/** Checks of the settings about true answers, in combination with the others. */
import { labelPlace } from '../../src/core/settings/ground-truth-setting.ts';
import type { CheckedSettings } from '../../src/core/settings/schema.ts';
import type { WrongSetting } from '../../src/core/settings/variables.ts';

const PLACE = 'GROUND_TRUTH_S3_PREFIX';
/** CloudFormation names the work bucket after the stack and the resource, and shortens both. */
const WORK_BUCKET = /^sagemakerinferencemonit.*-workbucket/;

/** Places of label files that cannot be, and labels that nothing could be joined to. */
export function wrongLabels(settings: CheckedSettings, faulty: ReadonlySet<string>): WrongSetting[] {
  const place = labelPlace(settings.GROUND_TRUTH_S3_PREFIX);
  const used = [PLACE, 'GROUND_TRUTH', 'DATA_CAPTURE_S3_BUCKET', 'DATA_CAPTURE_S3_PREFIX', 'SAGEMAKER_ENDPOINT_NAME'];
  if (place === undefined || used.some((name) => faulty.has(name))) return [];
  const got = settings.GROUND_TRUTH_S3_PREFIX ?? '';
  const wrong: WrongSetting[] = [];
  const overlaps = (other: string): boolean => place.prefix.startsWith(other) || other.startsWith(place.prefix);
  const captures = settings.DATA_CAPTURE_S3_PREFIX ?? `${settings.SAGEMAKER_ENDPOINT_NAME}/`;
  const { ARTHUR_HOST, ARTHUR_S3_PREFIX } = settings;
  // The prefix for Arthur may be wider, and labels would be sent to it.
  const other = [captures, ...(ARTHUR_HOST && ARTHUR_S3_PREFIX ? [ARTHUR_S3_PREFIX] : [])].find(overlaps);
  if (place.bucket === settings.DATA_CAPTURE_S3_BUCKET && other !== undefined) {
    const expected = `a place that neither is in s3://${place.bucket}/${other}, where the captures are, nor contains it`;
    wrong.push({ name: PLACE, got, expected });
  }
  if (WORK_BUCKET.test(place.bucket)) {
    const expected = 'a bucket of yours: the work bucket of a stack sends no events';
    wrong.push({ name: PLACE, got, expected });
  }
  if (settings.GROUND_TRUTH.days === 0) {
    const expected = `"days" of at least 1, since ${PLACE} is set: without predictions no label can be joined`;
    wrong.push({ name: 'GROUND_TRUTH', got: '"days":0', expected });
  }
  return wrong;
}
